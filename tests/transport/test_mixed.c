/* The kit on the transport that mixes shared memory and TCP: with every other rank on a second
 * host, with sockets or a wire between them, and with all on one. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "transport/connect.h"
#include "transport/memory.h"
#include "transport/mixed/mixed.h"
#include "transport/net/ranks.h"
#include "transport/net/wire/packet_wire.h"
#include "transport/shm/shm.h"

enum { HOSTS = 2, DELAY_US = 100 };

/* ---- ranks that are threads -----------------------------------------------------------------*/

static coll_status_t make_end(int rank, int size, int hosts, transport_t *local, transport_t *net,
                              bool any_wire, transport_t **end) {
  int local_of[HARNESS_RANKS_MAX];
  transport_mixed_parts_t parts = {.local = local, .net = net, .local_of = local_of};
  size_t slot_bytes = SIZE_MAX, scratch_bytes = SIZE_MAX;
  for (int peer = 0; peer < size; peer++) {
    local_of[peer] = peer % hosts == rank % hosts ? peer / hosts : -1;
  }
  transport_net_room(any_wire, &parts.slot_bytes, &parts.scratch_bytes);
  for (int host = 0; host < hosts; host++) {
    int count = (size - host + hosts - 1) / hosts;
    if (count > 1) transport_shm_room(count, SHM_SCOPE_ALL, &slot_bytes, &scratch_bytes);
    if (slot_bytes < parts.slot_bytes) parts.slot_bytes = slot_bytes;
    if (scratch_bytes < parts.scratch_bytes) parts.scratch_bytes = scratch_bytes;
  }
  return transport_mixed_create(&parts, end);
}

/* Rank r is on host r % hosts. wires: as transport_net_create_local has them. */
static coll_status_t make(int size, int hosts, wire_t *const wires[], transport_t *ends[]) {
  transport_t *nets[HARNESS_RANKS_MAX], *locals[HARNESS_RANKS_MAX];
  COLL_TRY(transport_net_create_local(size, wires, nets));
  for (int host = 0; host < hosts; host++) {
    int count = (size - host + hosts - 1) / hosts;
    locals[0] = NULL;
    if (count > 1) COLL_TRY(transport_shm_create_local(count, locals));
    for (int i = 0; i < count; i++) {
      int rank = host + i * hosts;
      COLL_TRY(make_end(rank, size, hosts, locals[i], nets[rank], wires != NULL, &ends[rank]));
    }
  }
  return COLL_OK;
}

static coll_status_t make_on_two_hosts(int size, transport_t *ends[]) {
  return make(size, HOSTS, NULL, ends);
}

static coll_status_t make_with_wire(int size, transport_t *ends[]) {
  wire_t *wires[HARNESS_RANKS_MAX];
  for (int rank = 0; rank < size; rank++) COLL_TRY(packet_wire_open(DELAY_US, &wires[rank]));
  return make(size, HOSTS, wires, ends);
}

static coll_status_t make_on_one_host(int size, transport_t *ends[]) {
  return make(size, 1, NULL, ends);
}

/* ---- ranks that are processes ---------------------------------------------------------------*/

static coll_status_t join(int rank, int size, void *board, transport_t **end) {
  transport_name_t *names = board;
  transport_listener_t listener;
  char host[16];
  snprintf(host, sizeof host, "host%d", rank % HOSTS);
  transport_settings_t settings;
  COLL_TRY(transport_settings_read(&(transport_config_t){.host = host}, &settings));
  COLL_TRY(transport_listen(&settings, &listener, &names[rank]));
  harness_barrier();
  const base_secret_t secret = {.bytes = {47, 11}};
  const transport_group_t group = {.rank = rank,
                                   .size = size,
                                   .names = names,
                                   .session = 4711,
                                   .secret = &secret,
                                   .deadline_ns = kit_deadline_ns()};
  return transport_connect(&listener, &group, end);
}

static const transport_fixture_t two_hosts =
    RANKS_FIXTURE(.shares_some_scratch = true, .has_threads = true, .make = make_on_two_hosts,
                  .join = join);
static const transport_fixture_t with_wire =
    RANKS_FIXTURE(.shares_some_scratch = true, .make = make_with_wire);

static const transport_fixture_t one_host = {
    .size_max = HARNESS_RANKS_MAX,
    .maps = true,
    .shares_some_scratch = true,
    .make = make_on_one_host,
    .alloc = transport_memory_alloc,
    .release = transport_memory_free,
};

TRANSPORT_KIT_ANY(mixed_one_host, one_host, transport_kit_threads, 2)
TRANSPORT_KIT_PEERS(mixed_one_host, one_host, transport_kit_threads)
TRANSPORT_KIT_ANY(mixed_threads, two_hosts, transport_kit_threads, 2)
TRANSPORT_KIT_PEERS(mixed_threads, two_hosts, transport_kit_threads)
TRANSPORT_KIT_ANY(mixed_wire, with_wire, transport_kit_threads, 2)
TRANSPORT_KIT_PEERS(mixed_wire, with_wire, transport_kit_threads)
TRANSPORT_KIT_ANY(mixed_processes, two_hosts, transport_kit_processes, 2)
TRANSPORT_KIT_PEERS(mixed_processes, two_hosts, transport_kit_processes)
TRANSPORT_KIT_TIMES(mixed_processes, two_hosts, transport_kit_processes)

TRANSPORT_KIT_DEATH(mixed_processes, two_hosts)
