/* All ranks choose the transport from the same names, so all choose the same. */
#include "transport/connect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/net/handshake.h"
#include "transport/mixed/mixed.h"
#include "transport/net/net.h"
#include "transport/shm/shm.h"

/* ---- listening ------------------------------------------------------------------------------*/

transport_listener_t transport_listener_none(void) {
  return (transport_listener_t){.mesh = {.listener = -1}, .tcp = {.fd = -1}};
}

static void close_net(transport_listener_t *listener) {
  net_listener_close(&listener->tcp);
  if (listener->wire != NULL) listener->wire->ops->destroy(listener->wire);
  listener->wire = NULL;
}

/* The ranks may all be on this host: that others cannot reach it is no failure yet. */
static void do_without_hosts(transport_listener_t *listener, transport_name_t *name) {
  snprintf(listener->why_none, sizeof listener->why_none, "%s", base_last_error());
  close_net(listener);
  memset(&name->tcp, 0, sizeof name->tcp);
  name->sockets = 0;
  name->wire = 0;
}

/* Between hosts sockets are needed also where a wire carries the messages. */
static coll_status_t listen_between_hosts(const transport_settings_t *settings,
                                          transport_listener_t *listener, transport_name_t *name) {
  const transport_choice_t *choice = &settings->choice;
  int kind;
  if (base_handshake_check_hosts() != COLL_OK) {
    snprintf(listener->why_none, sizeof listener->why_none, "%s", base_last_error());
    return COLL_OK;
  }
  COLL_TRY(wire_open_first(choice, &kind, &listener->wire, listener->why_none,
                           sizeof listener->why_none));
  name->wire = (uint8_t)(kind + 1);
  name->sockets = choice->tcp;
  if (name->wire == 0 && !choice->tcp) return COLL_OK;
  coll_status_t status = net_listen(&listener->tcp, settings->interfaces, &name->tcp);
  if (status == COLL_ERROR_SYSTEM && choice->shm) {
    do_without_hosts(listener, name);
    return COLL_OK;
  }
  if (status != COLL_OK) return status;
  name->tcp.mesh_ranks = settings->mesh_ranks;
  name->tcp.recovery = settings->recovery;
  return COLL_OK;
}

static coll_status_t find_host(const transport_settings_t *settings, char host[TOPO_HOST_BYTES]) {
  if (settings->host[0] == '\0') return topo_host_identity(host);
  memcpy(host, settings->host, TOPO_HOST_BYTES);
  return COLL_OK;
}

coll_status_t transport_listen(const transport_settings_t *settings, transport_listener_t *listener,
                               transport_name_t *name) {
  memset(name, 0, sizeof *name);
  *listener = transport_listener_none();
  COLL_TRY(find_host(settings, name->host));
  if (settings->choice.shm) COLL_TRY(shm_mesh_listen(&listener->mesh, &name->shm));
  coll_status_t status = listen_between_hosts(settings, listener, name);
  if (status != COLL_OK) transport_listener_close(listener);
  return status;
}

void transport_listener_close(transport_listener_t *listener) {
  shm_mesh_close(&listener->mesh);
  close_net(listener);
  *listener = transport_listener_none();
}

uint32_t transport_name_megabits(const transport_name_t *name) {
  return name->tcp.megabits;
}

uint32_t transport_name_rails(const transport_name_t *name) {
  return name->tcp.rails;
}

bool transport_same_host(const transport_name_t *a, const transport_name_t *b) {
  return strncmp(a->host, b->host, sizeof a->host) == 0;
}

bool transport_share_memory(const transport_name_t *a, const transport_name_t *b) {
  return a == b || (transport_same_host(a, b) && a->shm.length > 0 && b->shm.length > 0);
}

/* ---- shared memory and TCP ------------------------------------------------------------------*/

static coll_status_t connect_shm(shm_mesh_t *mesh, const transport_group_t *group,
                                 shm_scope_t scope, transport_t **t) {
  shm_mesh_name_t *names = NULL;
  coll_status_t status =
      base_alloc((size_t)group->size, sizeof *names, "names of ranks", (void **)&names);
  for (int peer = 0; status == COLL_OK && peer < group->size; peer++) {
    names[peer] = group->names[peer].shm;
  }
  mesh->watch = group->watch;
  if (status == COLL_OK) {
    status = shm_mesh_join(mesh, group->rank, group->size, names, group->session);
  }
  free(names);
  if (status != COLL_OK) {
    shm_mesh_close(mesh);
    return status;
  }
  return transport_shm_create(mesh, scope, group->one_process, group->deadline_ns, t);
}

static bool any_wire(const transport_group_t *group) {
  bool any = false;
  for (int rank = 0; rank < group->size; rank++) any = any || group->names[rank].wire != 0;
  return any;
}

/* What the peers' names say: how they listen, and whether they have this rank's wire. */
typedef struct net_names {
  net_name_t *tcp;
  bool *has_wire;
} net_names_t;

static coll_status_t gather_names(const transport_group_t *group, net_names_t *names) {
  size_t size = (size_t)group->size;
  COLL_TRY(base_alloc(size, sizeof *names->tcp, "names of ranks", (void **)&names->tcp));
  COLL_TRY(base_alloc(size, sizeof *names->has_wire, "names of ranks", (void **)&names->has_wire));
  for (int peer = 0; peer < group->size; peer++) {
    names->tcp[peer] = group->names[peer].tcp;
    names->has_wire[peer] = group->names[peer].wire == group->names[group->rank].wire;
  }
  return COLL_OK;
}

static coll_status_t connect_net(transport_listener_t *listener, const transport_group_t *group,
                                 transport_t **t) {
  net_names_t names = {0};
  coll_status_t status = gather_names(group, &names);
  if (status == COLL_OK) {
    const net_group_t ranks = {.rank = group->rank,
                               .size = group->size,
                               .names = names.tcp,
                               .session = group->session,
                               .secret = group->secret,
                               .deadline_ns = group->deadline_ns,
                               .watch = group->watch,
                               .wire = listener->wire,
                               .has_wire = names.has_wire,
                               .any_wire = any_wire(group)};
    listener->wire = NULL; /* is taken over */
    status = transport_net_create(&listener->tcp, &ranks, t);
  } else {
    close_net(listener);
  }
  free(names.tcp);
  free(names.has_wire);
  return status;
}

/* ---- both -----------------------------------------------------------------------------------*/

/* The number of ranks that share memory with this one, itself included. number_of: their numbers
 * among themselves, in the order of ranks; -1 for others. names: theirs. */
static int find_local(const transport_group_t *group, int rank, int number_of[],
                      transport_name_t names[]) {
  int count = 0;
  for (int peer = 0; peer < group->size; peer++) {
    bool is_local = transport_share_memory(&group->names[rank], &group->names[peer]);
    number_of[peer] = is_local ? count : -1;
    if (is_local) names[count++] = group->names[peer];
  }
  return count;
}

/* What every part of every rank has room for. */
static void find_room(const transport_group_t *group, int number_of[], transport_name_t names[],
                      transport_mixed_parts_t *parts) {
  transport_net_room(any_wire(group), &parts->slot_bytes, &parts->scratch_bytes);
  for (int rank = 0; rank < group->size; rank++) {
    size_t slot_bytes, scratch_bytes;
    int count = find_local(group, rank, number_of, names);
    if (count == 1) continue;
    transport_shm_room(count, SHM_SCOPE_HOST, &slot_bytes, &scratch_bytes);
    if (slot_bytes < parts->slot_bytes) parts->slot_bytes = slot_bytes;
    if (scratch_bytes < parts->scratch_bytes) parts->scratch_bytes = scratch_bytes;
  }
}

/* The ranks of this host, under their numbers here. */
static coll_status_t connect_local(shm_mesh_t *mesh, const transport_group_t *group,
                                   const int number_of[], const transport_name_t names[], int count,
                                   transport_t **local) {
  transport_group_t ranks = *group;
  ranks.rank = number_of[group->rank];
  ranks.size = count;
  ranks.names = names;
  ranks.one_process = false;
  *local = NULL;
  if (count > 1) return connect_shm(mesh, &ranks, SHM_SCOPE_HOST, local);
  shm_mesh_close(mesh);
  return COLL_OK;
}

static coll_status_t connect_parts(transport_listener_t *listener, const transport_group_t *group,
                                   int number_of[], transport_name_t names[], transport_t **t) {
  transport_t *local = NULL, *net = NULL;
  transport_mixed_parts_t parts = {.local_of = number_of};
  find_room(group, number_of, names, &parts);
  int count = find_local(group, group->rank, number_of, names);
  coll_status_t status = connect_local(&listener->mesh, group, number_of, names, count, &local);
  if (status != COLL_OK) {
    close_net(listener);
    return status;
  }
  status = connect_net(listener, group, &net);
  if (status != COLL_OK) {
    if (local != NULL) local->ops->destroy(local);
    return status;
  }
  parts.local = local;
  parts.net = net;
  return transport_mixed_create(&parts, t);
}

static coll_status_t connect_mixed(transport_listener_t *listener, const transport_group_t *group,
                                   transport_t **t) {
  int *number_of = NULL;
  transport_name_t *names = NULL;
  size_t size = (size_t)group->size;
  coll_status_t status = base_alloc(size, sizeof *number_of, "ranks", (void **)&number_of);
  if (status == COLL_OK) {
    status = base_alloc(size, sizeof *names, "names of ranks", (void **)&names);
  }
  if (status == COLL_OK) {
    status = connect_parts(listener, group, number_of, names, t);
  } else {
    transport_listener_close(listener);
  }
  free(names);
  free(number_of);
  return status;
}

/* ---- the choice -----------------------------------------------------------------------------*/

/* The first rank that this one does not share memory with; -1: there is none. */
static int first_without_shm(const transport_group_t *group) {
  for (int peer = 0; peer < group->size; peer++) {
    if (!transport_share_memory(&group->names[group->rank], &group->names[peer])) return peer;
  }
  return -1;
}

/* Whether messages can go between two ranks. */
static bool can_send(const transport_name_t *a, const transport_name_t *b) {
  if (transport_share_memory(a, b)) return true;
  if (a->tcp.count == 0 || b->tcp.count == 0) return false;
  return (a->sockets && b->sockets) || (a->wire != 0 && a->wire == b->wire);
}

static bool all_have_sockets(const transport_group_t *group) {
  int peer = 0;
  while (peer < group->size && group->names[peer].sockets) peer++;
  return peer == group->size;
}

/* The first two ranks that cannot send to each other, which all ranks find. */
static bool find_unreached(const transport_group_t *group, int pair[2]) {
  if (all_have_sockets(group)) return false;
  for (pair[0] = 0; pair[0] < group->size; pair[0]++) {
    for (pair[1] = pair[0] + 1; pair[1] < group->size; pair[1]++) {
      if (!can_send(&group->names[pair[0]], &group->names[pair[1]])) return true;
    }
  }
  return false;
}

static bool any_share_memory(const transport_group_t *group) {
  for (int rank = 0; rank < group->size; rank++) {
    for (int peer = 0; peer < rank; peer++) {
      if (transport_share_memory(&group->names[rank], &group->names[peer])) return true;
    }
  }
  return false;
}

static coll_status_t fail_unreached(const transport_listener_t *listener,
                                    const transport_group_t *group, const int pair[2]) {
  const transport_name_t *a = &group->names[pair[0]], *b = &group->names[pair[1]];
  const char *why = listener->why_none;
  const char *all = base_handshake_check_hosts() == COLL_OK ? "shm,tcp" : "shm";
  return base_fail(COLL_ERROR_UNSUPPORTED,
                   "rank %d has no transport to rank %d: they are on %s; set COLL_TRANSPORTS to "
                   "%s on all ranks%s%s",
                   pair[0], pair[1], transport_same_host(a, b) ? "one host" : "different hosts",
                   all, why[0] != '\0' ? "; here " : "", why);
}

/* That ranks share memory is an equivalence, so every rank finds that all do, or none does. */
coll_status_t transport_connect(transport_listener_t *listener, const transport_group_t *group,
                                transport_t **t) {
  int pair[2];
  if (first_without_shm(group) < 0) {
    close_net(listener);
    return connect_shm(&listener->mesh, group, SHM_SCOPE_ALL, t);
  }
  if (find_unreached(group, pair)) {
    coll_status_t status = fail_unreached(listener, group, pair);
    transport_listener_close(listener);
    return status;
  }
  if (any_share_memory(group)) return connect_mixed(listener, group, t);
  shm_mesh_close(&listener->mesh);
  return connect_net(listener, group, t);
}

/* The ranks' wires, if all can open one of the same kind; else none. */
static coll_status_t open_local(const transport_choice_t *choice, int size, wire_t *wires[],
                                char *why, size_t bytes) {
  int first = -1, kind = -1, count = 0;
  coll_status_t status = COLL_OK;
  while (count < size && status == COLL_OK && kind == first) {
    status = wire_open_first(choice, &kind, &wires[count], why, bytes);
    if (count == 0) first = kind;
    if (status != COLL_OK || kind < 0) break;
    count++;
  }
  if (count == size && kind == first) return status;
  while (count > 0) {
    count--;
    wires[count]->ops->destroy(wires[count]);
  }
  wires[0] = NULL;
  return status;
}

static coll_status_t connect_local_net(const transport_choice_t *choice, int size,
                                       transport_t *ends[]) {
  wire_t **wires = NULL;
  char why[TRANSPORT_NONE_BYTES];
  if (choice->wire_count == 0) return transport_net_create_local(size, NULL, ends);
  COLL_TRY(base_alloc((size_t)size, sizeof *wires, "wires", (void **)&wires));
  coll_status_t status = open_local(choice, size, wires, why, sizeof why);
  bool opened = status == COLL_OK && wires[0] != NULL;
  if (status == COLL_OK && !opened && !choice->tcp) {
    status = base_fail(COLL_ERROR_UNSUPPORTED, "the ranks have no transport: %s", why);
  }
  if (status == COLL_OK) status = transport_net_create_local(size, opened ? wires : NULL, ends);
  free(wires);
  return status;
}

coll_status_t transport_connect_local(const transport_choice_t *choice, int size,
                                      transport_t *ends[]) {
  return choice->shm ? transport_shm_create_local(size, ends)
                     : connect_local_net(choice, size, ends);
}
