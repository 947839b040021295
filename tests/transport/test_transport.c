/* Runs the kit on the transports of this build, and tests the defaults of transport_unsupported. */
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness/harness.h"
#include "transport/get.h"
#include "transport/kit.h"
#include "transport/kit_steps.h"
#include "transport/memory.h"
#include "transport/self/self.h"
#include "transport/shm/shm.h"

/* ---- self -----------------------------------------------------------------------------------*/

static coll_status_t self_make(int size, transport_t *ends[]) {
  return transport_self_create(0, size, 8192, &ends[0]);
}

static const transport_fixture_t self_fixture = {
    .size_max = 1,
    .maps = true,
    .make = self_make,
    .alloc = transport_kit_private_alloc,
    .release = transport_kit_private_release,
};

TRANSPORT_KIT_ANY(self, self_fixture, transport_kit_threads, 1)

Test(self_threads, gets_nothing) {
  transport_kit_threads(&self_fixture, 1, transport_case_no_gets);
}

/* ---- shm ------------------------------------------------------------------------------------*/

static coll_status_t shm_join(int rank, int size, void *board, transport_t **end) {
  shm_mesh_name_t *names = board;
  shm_mesh_t mesh;
  transport_get_permit(getppid());
  uint64_t deadline_ns = kit_deadline_ns();
  COLL_TRY(shm_mesh_listen(&mesh, &names[rank]));
  harness_barrier();
  COLL_TRY(shm_mesh_join(&mesh, rank, size, names, 4711));
  return transport_shm_create(&mesh, SHM_SCOPE_ALL, false, deadline_ns, end);
}

static const transport_fixture_t shm_fixture = {
    .size_max = HARNESS_RANKS_MAX,
    .maps = true,
    .has_scratch = true,
    .has_threads = true,
    .make = transport_shm_create_local,
    .join = shm_join,
    .alloc = transport_memory_alloc,
    .release = transport_memory_free,
};

TRANSPORT_KIT(shm, shm_fixture)
TRANSPORT_KIT_GETS(shm, shm_fixture)

/* With more ranks slots are shorter, and a message takes more of them. */
Test(shm, holds_the_p2p_capacity_with_many_ranks) {
  static const int sizes[] = {3, 5, 20};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    transport_kit_threads(&shm_fixture, sizes[i], transport_case_p2p_capacity);
  }
}

/* Where files may not grow, a further channel is refused with the limit; others still work. */
Test(shm, refuses_further_channels_beyond_the_limit_on_files) {
  transport_t *ends[2];
  const struct rlimit limit = {.rlim_cur = 16 << 20, .rlim_max = 16 << 20};
  cr_assert_eq(transport_shm_create_local(2, ends), COLL_OK);
  cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
  cr_assert_null(ends[0]->ops->port(ends[0], 1, TRANSPORT_CHANNELS_MAX - 1));
  cr_assert_not_null(strstr(base_last_error(), "16777216 bytes"), "%s", base_last_error());
  cr_assert_not_null(ends[0]->ops->port(ends[0], 1, TRANSPORT_CHANNELS));
  cr_assert_eq(kit_send(ends[0], 1, TRANSPORT_CHANNELS, 1, 100), 0);
  cr_assert_eq(kit_expect(ends[1], 0, TRANSPORT_CHANNELS, 1, 100), 0);
  for (int i = 0; i < 2; i++) ends[i]->ops->destroy(ends[i]);
}

Test(shm, has_the_highest_channel) {
  transport_t *ends[2];
  int channel = TRANSPORT_CHANNELS_MAX - 1;
  cr_assert_eq(transport_shm_create_local(2, ends), COLL_OK);
  cr_assert_eq(kit_send(ends[1], 0, channel, 1, KIT_BYTES_MAX), 0);
  cr_assert_eq(kit_expect(ends[0], 1, channel, 1, KIT_BYTES_MAX), 0);
  cr_assert_eq(ends[0]->ops->used_channel(ends[0], 1, TRANSPORT_CHANNELS), channel);
  cr_assert_eq(ends[0]->ops->used_channel(ends[0], 1, channel + 1), TRANSPORT_CHANNELS_MAX);
  for (int i = 0; i < 2; i++) ends[i]->ops->destroy(ends[i]);
}

/* Where files may not be as long as the shared memory, creation fails instead of the process. */
Test(shm, refuses_creation_beyond_the_limit_on_files) {
  transport_t *ends[2];
  const struct rlimit limit = {.rlim_cur = 1 << 12, .rlim_max = 1 << 12};
  cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
  cr_assert_eq(transport_shm_create_local(2, ends), COLL_ERROR_MEMORY);
  cr_assert_not_null(strstr(base_last_error(), "files may have 4096 bytes"), "%s",
                     base_last_error());
}

/* ---- unsupported ----------------------------------------------------------------------------*/

Test(unsupported, reports_unsupported_for_operations) {
  transport_t t = {.ops = &transport_unsupported, .rank = 3, .size = 4, .slot_bytes = 64};
  transport_head_t head = {0};
  transport_port_t some = {&t}, *port = &some;
  const void *data;
  flight_call_t call = {0};
  bool done;
  cr_assert_eq(t.ops->send(port, NULL, &head, &done), COLL_ERROR_UNSUPPORTED);
  cr_assert_not_null(strstr(base_last_error(), "rank 3"), "%s", base_last_error());
  cr_assert_eq(t.ops->recv(port, NULL, 0, &head, &done), COLL_ERROR_UNSUPPORTED);
  cr_assert_eq(t.ops->peek(port, &data, &head, &done), COLL_ERROR_UNSUPPORTED);
  cr_assert_eq(t.ops->take(port), COLL_ERROR_UNSUPPORTED);
  cr_assert_eq(t.ops->signal(port, &call, &done), COLL_ERROR_UNSUPPORTED);
  cr_assert_eq(t.ops->wait(port, &call, &done), COLL_ERROR_UNSUPPORTED);
  cr_assert_eq(t.ops->get(&t, 0, NULL, 0, 0, &done), COLL_ERROR_UNSUPPORTED);
  int descriptor;
  cr_assert_eq(t.ops->pass_descriptor(&t, 0, 1, 0, &done), COLL_ERROR_UNSUPPORTED);
  cr_assert_not_null(strstr(base_last_error(), "cannot pass file descriptors"));
  cr_assert_eq(t.ops->take_descriptor(&t, 0, 1, &descriptor, &done), COLL_ERROR_UNSUPPORTED);
}

Test(unsupported, returns_nothing_elsewhere) {
  transport_t t = {.ops = &transport_unsupported, .rank = 0, .size = 1, .slot_bytes = 64};
  transport_address_t address = {1, 1};
  void *ptr = &t;
  size_t bytes = 1;
  transport_reason_t reason = {0};
  transport_port_t port = {&t};
  flight_call_t call;
  cr_assert_null(t.ops->port(&t, 0, 0));
  cr_assert_eq(t.ops->used_channel(&t, 0, 1), 1);
  cr_assert_eq(t.ops->used_channel(&t, 0, TRANSPORT_CHANNELS), TRANSPORT_CHANNELS_MAX);
  cr_assert_eq(t.ops->address(&t, &t, sizeof t, &address), COLL_OK);
  cr_assert(address.segment == 0 && address.offset == 0);
  cr_assert_eq(t.ops->map(&t, 0, &address, &ptr), COLL_OK);
  cr_assert_null(ptr);
  ptr = &t;
  t.ops->scratch(&t, 0, &ptr, &bytes);
  cr_assert(ptr == NULL && bytes == 0);
  t.ops->arm(&t);
  t.ops->sleep(&t, UINT64_C(3600000000000)); /* may return early, and must not take an hour */
  t.ops->disarm(&t);
  cr_assert_eq(t.ops->peer_state(&t, 0), TRANSPORT_PEER_HERE);
  cr_assert_not(t.ops->pending_in(&port, &call));
  cr_assert_not(t.ops->pending_out(&port, &call));
  cr_assert_null(t.ops->recorder(&t, 0));
  t.ops->publish(&t);
  char why[TRANSPORT_WHY_BYTES] = "";
  cr_assert_not(t.ops->probe_get(&t, why));
  t.ops->abort(&t, &reason);
  cr_assert_not(t.ops->aborted(&t, &reason));
  t.ops->destroy(&t);
}
