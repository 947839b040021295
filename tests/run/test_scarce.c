/*
 * A rank that runs out of memory at any allocation of a call: it returns COLL_ERROR_MEMORY, and its
 * peers, which make the call, do not wait for ever. The functions defined here override base/alloc
 * at link time.
 */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "bootstrap/rendezvous/server_state.h"
#include "harness/party.h"

static _Thread_local int allocations_left = -1; /* number of allocations that succeed; -1: all */
static bool ran_out;                            /* of the rank under test */

coll_status_t __real_base_alloc(size_t count, size_t bytes, const char *what, void **array);
coll_status_t __wrap_base_alloc(size_t count, size_t bytes, const char *what, void **array);
coll_status_t __real_base_grow(void **array, size_t *capacity, size_t needed, size_t bytes,
                               const char *what);
coll_status_t __wrap_base_grow(void **array, size_t *capacity, size_t needed, size_t bytes,
                               const char *what);

static _Atomic int process_left = -1; /* the same for all threads, for one allocation */

static bool fails(void) {
  if (atomic_load(&process_left) >= 0 && atomic_fetch_sub(&process_left, 1) == 0) return true;
  if (allocations_left < 0) return false;
  ran_out = ran_out || allocations_left == 0;
  return allocations_left == 0 || allocations_left-- == 0;
}

coll_status_t __wrap_base_alloc(size_t count, size_t bytes, const char *what, void **array) {
  if (fails()) return base_fail(COLL_ERROR_MEMORY, "out of memory for %s", what);
  return __real_base_alloc(count, bytes, what, array);
}

coll_status_t __wrap_base_grow(void **array, size_t *capacity, size_t needed, size_t bytes,
                               const char *what) {
  bool grows = needed > *capacity;
  if (grows && fails()) return base_fail(COLL_ERROR_MEMORY, "out of memory for %s", what);
  return __real_base_grow(array, capacity, needed, bytes, what);
}

enum { RANKS = 3, POOR = 1, PIECES = 4 };

typedef struct scarcity {
  int allocations;
  bool in_group, on_stream;                    /* a split: in the background */
  coll_status_t calls[RANKS], barriers[RANKS]; /* results of the calls and of the barriers */
} scarcity_t;

static coll_status_t alltoallv(party_rank_t *self, coll_stream_t stream) {
  static float sent[RANKS][RANKS], got[RANKS][RANKS];
  const size_t counts[RANKS] = {1, 1, 1}, places[RANKS] = {0, 1, 2};
  return coll_alltoallv(sent[self->rank], counts, places, got[self->rank], counts, places,
                        COLL_FLOAT32, self->comm, stream);
}

static coll_status_t group(party_rank_t *self, coll_stream_t stream) {
  static float in[RANKS][PIECES][8], out[RANKS][PIECES][8];
  coll_group_start();
  alltoallv(self, stream);
  for (int i = 0; i < PIECES; i++) { /* which are coalesced */
    coll_allreduce(in[self->rank][i], out[self->rank][i], 8, COLL_FLOAT32, COLL_SUM, self->comm,
                   stream);
  }
  return coll_group_end();
}

static int make_calls(party_rank_t *self) {
  scarcity_t *scarcity = self->context;
  coll_stream_t stream = NULL;
  if (scarcity->on_stream) PARTY_OK(coll_stream_create(&stream));
  if (scarcity->in_group) PARTY_OK(group(self, NULL)); /* a call that builds the plans first */
  harness_barrier();                                   /* because an abort would overtake it */
  if (self->rank == POOR) allocations_left = scarcity->allocations;
  coll_status_t status = scarcity->in_group ? group(self, stream) : alltoallv(self, stream);
  if (stream != NULL && status == COLL_OK) status = coll_stream_sync(stream);
  allocations_left = -1;
  scarcity->calls[self->rank] = status;
  scarcity->barriers[self->rank] = coll_barrier(self->comm, NULL);
  if (stream != NULL) coll_stream_destroy(stream);
  return 0;
}

static bool try_with(scarcity_t *scarcity) {
  harness_result_t result;
  ran_out = false;
  cr_assert(party_threads(RANKS, 10000, make_calls, scarcity, &result), "after %d allocations: %s",
            scarcity->allocations, result.text);
  for (int rank = 0; rank < RANKS; rank++) {
    coll_status_t wanted = !ran_out       ? COLL_OK
                           : rank == POOR ? COLL_ERROR_MEMORY
                                          : COLL_ERROR_RANK_LOST;
    coll_status_t call = scarcity->calls[rank], barrier = scarcity->barriers[rank];
    cr_assert(call == wanted || (rank != POOR && call == COLL_OK),
              "after %d allocations rank %d: %s", scarcity->allocations, rank,
              coll_status_string(call));
    cr_assert_eq(barrier, wanted, "after %d allocations rank %d's barrier: %s",
                 scarcity->allocations, rank, coll_status_string(barrier));
  }
  return ran_out;
}

static void try_all(bool in_group, bool on_stream, int least) {
  scarcity_t scarcity = {.in_group = in_group, .on_stream = on_stream};
  while (try_with(&scarcity)) scarcity.allocations++;
  cr_assert_geq(scarcity.allocations, least, "%d allocations only", scarcity.allocations);
}

Test(scarce, memory_of_a_call) {
  try_all(false, false, 1);
}

Test(scarce, memory_of_a_group) {
  try_all(true, false, 3);
}

Test(scarce, memory_of_a_stream) {
  try_all(false, true, 3);
  try_all(true, true, 5);
}

/* ---- mapped memory ----------------------------------------------------------------------------*/

enum { MAPPED_COUNT = 16384, MAPPED_ALLOCATIONS = 12 };

static coll_status_t sum_in_new_memory(party_rank_t *self, int allocations) {
  float *memory;
  coll_status_t status =
      coll_mem_alloc(COLL_DEVICE_HOST, 2 * MAPPED_COUNT * sizeof *memory, (void **)&memory);
  if (status != COLL_OK) return status;
  allocations_left = allocations;
  status = coll_allreduce(memory, memory + MAPPED_COUNT, MAPPED_COUNT, COLL_FLOAT32, COLL_SUM,
                          self->comm, NULL);
  allocations_left = -1;
  coll_mem_free(memory);
  return status;
}

/* A call before it builds the plan, in other memory. */
static int map_memory(party_rank_t *self) {
  int allocations = *(int *)self->context;
  bool *others_know = harness_board();
  PARTY_OK(sum_in_new_memory(self, -1));
  harness_barrier();
  coll_status_t status = sum_in_new_memory(self, self->rank == POOR ? allocations : -1);
  if (self->rank == POOR) *others_know = ran_out;
  harness_barrier();
  coll_status_t barrier = coll_barrier(self->comm, NULL);
  coll_status_t wanted = !*others_know        ? COLL_OK
                         : self->rank == POOR ? COLL_ERROR_MEMORY
                                              : COLL_ERROR_RANK_LOST;
  PARTY_REQUIRE(status == wanted || (self->rank != POOR && status == COLL_OK), "the call: %s",
                coll_status_string(status));
  PARTY_REQUIRE(barrier == wanted, "the barrier: %s", coll_status_string(barrier));
  PARTY_REQUIRE(self->rank != POOR || ran_out || allocations > 0, "nothing was allocated");
  PARTY_REQUIRE(!ran_out || allocations < MAPPED_ALLOCATIONS, "%d allocations are too few",
                allocations);
  return 0;
}

Test(scarce, memory_to_map_peers) {
  for (int allocations = 0; allocations <= MAPPED_ALLOCATIONS; allocations++) {
    harness_result_t result;
    cr_assert(party_processes(RANKS, 10000, map_memory, &allocations, &result),
              "after %d allocations: %s", allocations, result.text);
  }
}

/* ---- communicators ----------------------------------------------------------------------------*/

Test(scarce, memory_of_local_communicators) {
  coll_comm_t nothing = (coll_comm_t)(void *)&ran_out, comms[RANKS];
  coll_status_t status = COLL_ERROR_MEMORY;
  int allocations = 0;
  for (; status != COLL_OK; allocations++) {
    for (int rank = 0; rank < RANKS; rank++) comms[rank] = nothing;
    allocations_left = allocations;
    status = coll_comm_create_local(RANKS, NULL, comms);
    allocations_left = -1;
    cr_assert(status == COLL_OK || status == COLL_ERROR_MEMORY, "%s", coll_last_error(NULL));
    for (int rank = 0; rank < RANKS && status != COLL_OK; rank++) {
      cr_assert_eq(comms[rank], nothing, "after %d allocations: an output was set", allocations);
    }
  }
  for (int rank = 0; rank < RANKS; rank++) cr_assert_eq(coll_comm_destroy(comms[rank]), COLL_OK);
  cr_assert_geq(allocations, 10 * RANKS, "%d allocations only", allocations);
}

/* In a group, or as one that goes on in the background. */
static coll_status_t split_somehow(party_rank_t *self, coll_comm_t *child) {
  const scarcity_t *scarcity = self->context;
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  config.blocking = !scarcity->on_stream;
  if (scarcity->in_group) coll_group_start();
  coll_status_t status = coll_comm_split(self->comm, 0, 0, &config, child);
  if (scarcity->in_group) status = coll_group_end();
  while (status == COLL_IN_PROGRESS) status = coll_comm_error(*child);
  if (status != COLL_OK && *child != NULL) coll_comm_destroy(*child);
  return status;
}

static int split(party_rank_t *self) {
  scarcity_t *scarcity = self->context;
  coll_comm_t child = NULL;
  PARTY_OK(coll_comm_split(self->comm, 0, 0, NULL, &child)); /* its plans are built */
  PARTY_OK(coll_comm_destroy(child));
  child = NULL;
  harness_barrier();
  if (self->rank == POOR) allocations_left = scarcity->allocations;
  coll_status_t status = split_somehow(self, &child);
  allocations_left = -1;
  scarcity->calls[self->rank] = status;
  if (status != COLL_OK) return 0;
  scarcity->calls[self->rank] = coll_barrier(child, NULL);
  PARTY_OK(coll_comm_destroy(child));
  return 0;
}

/* If the rank without memory gets far enough, the others get a communicator without it. */
static void try_splits(bool in_group, bool in_background) {
  scarcity_t scarcity = {.in_group = in_group, .on_stream = in_background};
  for (ran_out = true; ran_out; scarcity.allocations++) {
    harness_result_t result;
    ran_out = false;
    cr_assert(party_threads(RANKS, 10000, split, &scarcity, &result), "after %d allocations: %s",
              scarcity.allocations, result.text);
    coll_status_t wanted = ran_out ? COLL_ERROR_MEMORY : COLL_OK;
    cr_assert_eq(scarcity.calls[POOR], wanted, "after %d allocations: %s", scarcity.allocations,
                 coll_status_string(scarcity.calls[POOR]));
    /* result of a split or barrier of the others */
    for (int rank = 0; rank < RANKS; rank++) {
      cr_assert((scarcity.calls[rank] == COLL_OK) == !ran_out, "after %d allocations rank %d: %s",
                scarcity.allocations, rank, coll_status_string(scarcity.calls[rank]));
    }
  }
}

Test(scarce, memory_of_a_split) {
  try_splits(false, false);
}

Test(scarce, memory_of_a_split_in_a_group) {
  try_splits(true, false);
}

Test(scarce, memory_of_a_split_in_the_background) {
  try_splits(false, true);
  try_splits(true, true);
}

/* Creates three ranks in a group. Returns its status. */
static coll_status_t create_group(coll_comm_t comms[RANKS], bool blocking, int allocations) {
  coll_unique_id_t id;
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  config.blocking = blocking;
  cr_assert_eq(coll_unique_id_create(NULL, &id), COLL_OK);
  coll_group_start();
  for (int rank = 0; rank < RANKS; rank++) {
    cr_assert_eq(coll_comm_create(&id, rank, RANKS, &config, &comms[rank]), COLL_OK);
  }
  atomic_store(&process_left, allocations);
  return coll_group_end();
}

/* The first failure of ranks that are created in the background. */
static coll_status_t await_all(coll_comm_t comms[RANKS]) {
  coll_status_t first = COLL_OK;
  for (int rank = 0; rank < RANKS; rank++) {
    coll_status_t status;
    while ((status = coll_comm_error(comms[rank])) == COLL_IN_PROGRESS) {
    }
    if (first == COLL_OK) first = status;
  }
  return first;
}

/* One allocation fails, of whichever rank: creation fails at once, and nothing is left. A rank that
 * fails last aborts the communicators of the others. */
static void try_creations(bool blocking) {
  int tries = 0;
  for (int succeeded = 0; succeeded < 3; tries++) {
    coll_comm_t comms[RANKS];
    coll_status_t status = create_group(comms, blocking, tries);
    if (!blocking) status = await_all(comms);
    bool failed = atomic_exchange(&process_left, -1) < 0;
    cr_assert(status == COLL_OK || failed, "try %d: %s", tries, coll_last_error(NULL));
    succeeded += !failed; /* some can do without it */
    for (int rank = 0; rank < RANKS; rank++) coll_comm_destroy(comms[rank]);
  }
  cr_assert_geq(tries, 10 * RANKS, "%d allocations only", tries);
}

Test(scarce, memory_of_a_group_that_creates) {
  try_creations(true);
}

Test(scarce, memory_of_ranks_that_are_created_in_the_background) {
  try_creations(false);
}

/* ---- the rendezvous server --------------------------------------------------------------------*/

/* Serves a caller whose handshake is done and whose hello has arrived. Returns the caller's end. */
static int serve_caller(rendezvous_server_t *server, int rank) {
  const wire_hello_t hello = {
      .magic = WIRE_MAGIC, .rank = rank, .size = RANKS, .timeout_ms = 10000, .pid = 1 + rank};
  const struct pollfd ready = {.revents = POLLIN};
  int ends[2];
  cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  cr_assert_eq(write(ends[0], &hello, sizeof hello), (ssize_t)sizeof hello);
  server->callers[server->caller_count++] = (rendezvous_caller_t){.fd = ends[1]};
  rendezvous_callers_serve(server, &ready);
  return ends[0];
}

/* The first caller fails it. Rank 0 joins all the same, because it is to get the verdict last. */
Test(scarce, memory_of_a_rendezvous_server) {
  for (int allocations = 0; allocations < 2; allocations++) {
    rendezvous_server_t *server;
    cr_assert_eq(base_alloc(1, sizeof *server, "a server", (void **)&server), COLL_OK);
    server->strangers.listener = -1;
    allocations_left = allocations;
    int first = serve_caller(server, 1);
    allocations_left = -1;
    cr_assert_eq(server->verdict.status, COLL_ERROR_MEMORY);
    cr_assert_null(server->members, "after %d allocations: a server of no ranks has members",
                   allocations);
    int second = serve_caller(server, 0);
    cr_assert_eq(server->size, RANKS);
    rendezvous_server_destroy(server);
    close(first);
    close(second);
  }
}
