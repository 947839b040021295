/*
 * What warm calls between hosts cost beside their transfer: no allocation, one successful system
 * call for a message at either end, and few polls where ranks share a core. The functions defined
 * here replace those of the C library at link time, and count.
 */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/status.h"
#include "engine/message.h"
#include "harness/party.h"

enum { TIMEOUT_MS = 200000, ROUNDS = 20, LONGEST = 1 << 20 };

/* Of the thread that makes calls. */
static _Thread_local bool is_counting;
static _Thread_local uint64_t allocations, sends, receives, polls; /* polls: readv of any kind */

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
ssize_t __real_sendmsg(int socket, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int socket, const struct msghdr *message, int flags);
ssize_t __real_readv(int file, const struct iovec *pieces, int count);
ssize_t __wrap_readv(int file, const struct iovec *pieces, int count);

void *__wrap_malloc(size_t bytes) {
  allocations += is_counting;
  return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes) {
  allocations += is_counting;
  return __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes) {
  allocations += is_counting;
  return __real_realloc(memory, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
  allocations += is_counting;
  return __real_aligned_alloc(alignment, bytes);
}

ssize_t __wrap_sendmsg(int socket, const struct msghdr *message, int flags) {
  ssize_t sent = __real_sendmsg(socket, message, flags);
  sends += is_counting && sent > 0;
  return sent;
}

ssize_t __wrap_readv(int file, const struct iovec *pieces, int count) {
  ssize_t received = __real_readv(file, pieces, count);
  receives += is_counting && received > 0;
  polls += is_counting;
  return received;
}

typedef coll_status_t (*call_t)(party_rank_t *self, const char *in, char *out, size_t bytes);

static coll_status_t exchange(party_rank_t *self, const char *in, char *out, size_t bytes) {
  COLL_TRY(coll_group_start());
  COLL_TRY(coll_send(in, bytes, COLL_INT8, 1 - self->rank, self->comm, NULL));
  COLL_TRY(coll_recv(out, bytes, COLL_INT8, 1 - self->rank, self->comm, NULL));
  return coll_group_end();
}

static coll_status_t allreduce(party_rank_t *self, const char *in, char *out, size_t bytes) {
  return coll_allreduce(in, out, bytes / 4, COLL_INT32, COLL_SUM, self->comm, NULL);
}

static coll_status_t broadcast(party_rank_t *self, const char *in, char *out, size_t bytes) {
  return coll_broadcast(in, out, bytes, COLL_INT8, 0, self->comm, NULL);
}

static const struct {
  const char *name;
  call_t make;
} kinds[] = {{"exchange", exchange}, {"allreduce", allreduce}, {"broadcast", broadcast}};

enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* Counts what this rank does in so many calls. */
static int count(party_rank_t *self, call_t make, size_t bytes, int times) {
  static char in[LONGEST], out[LONGEST];
  coll_status_t status = COLL_OK;
  PARTY_OK(coll_barrier(self->comm, NULL));
  allocations = sends = receives = polls = 0;
  is_counting = true;
  for (int i = 0; i < times && status == COLL_OK; i++) status = make(self, in, out, bytes);
  is_counting = false;
  PARTY_OK(status);
  return 0;
}

/* The most that a rank has counted. */
static int agree(party_rank_t *self, uint64_t mine, uint64_t *most) {
  PARTY_OK(coll_allreduce(&mine, most, 1, COLL_UINT64, COLL_MAX, self->comm, NULL));
  return 0;
}

/* The memory of messages (blocks.c) grows to what was ever in use at once, which the kernel's
 * schedule decides: so many calls in a row allocate nothing, soon. */
static int check_allocations(party_rank_t *self, size_t kind, size_t bytes, int times) {
  uint64_t most = 1;
  for (int round = 0; round < ROUNDS && most > 0; round++) {
    PARTY_TRY(count(self, kinds[kind].make, bytes, times));
    PARTY_TRY(agree(self, allocations, &most));
  }
  PARTY_REQUIRE(most == 0,
                "%d times %d calls of %s with %zu bytes have allocated, in the end %d times",
                ROUNDS, times, kinds[kind].name, bytes, (int)most);
  return 0;
}

static int make_warm_calls(party_rank_t *self) {
  for (size_t kind = 0; kind < KINDS; kind++) {
    PARTY_TRY(check_allocations(self, kind, 4, harness_full() ? 10000 : 2000));
    PARTY_TRY(check_allocations(self, kind, 1024, harness_full() ? 10000 : 2000));
    PARTY_TRY(check_allocations(self, kind, LONGEST, harness_full() ? 10000 : 200));
  }
  return 0;
}

/* Each rank sends and receives a message per call, beside what acknowledges several. Of a message
 * that the other rank is still sending, a part may have come: soon, in so many calls in a row
 * hardly any has. */
static int check_system_calls(party_rank_t *self, size_t bytes) {
  enum { TIMES = 500, MOST = TIMES + TIMES / 4 };
  uint64_t most = MOST + 1;
  for (int round = 0; round < ROUNDS && most > MOST; round++) {
    PARTY_TRY(count(self, exchange, bytes, TIMES));
    PARTY_REQUIRE(sends >= TIMES && receives > 0, "these are not the functions that messages take");
    PARTY_TRY(agree(self, sends > receives ? sends : receives, &most));
  }
  PARTY_REQUIRE(most <= MOST, "%d sendmsg or readv for %d messages of %zu bytes", (int)most, TIMES,
                bytes);
  return 0;
}

static int count_system_calls(party_rank_t *self) {
  /* longer ones arrive in the memory of the caller, behind a head that shows whose they are */
  static const size_t sizes[] = {4, 1024, 4096, 16384, ENGINE_DIRECT_BYTES_MIN - 1};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    PARTY_TRY(check_system_calls(self, sizes[i]));
  }
  return 0;
}

/* The first of the cores that this process may use, for it alone. */
static int move_to_first_core(void) {
  cpu_set_t all, first;
  PARTY_REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0, "which cores?");
  CPU_ZERO(&first);
  for (int core = 0; CPU_COUNT(&first) == 0; core++) {
    if (CPU_ISSET(core, &all)) CPU_SET(core, &first);
  }
  PARTY_REQUIRE(sched_setaffinity(0, sizeof first, &first) == 0, "cannot move to a core");
  return 0;
}

/* Ranks that had a core each when the communicator was created, and now share one, learn it: each
 * yields soon, and does not poll for the rest of its time slice, in which the other cannot answer.
 * Other programs on the core may hide that for a while. */
static int check_shared_core(party_rank_t *self) {
  enum { TIMES = 200, MOST = 100 * TIMES };
  uint64_t most = MOST + 1;
  PARTY_TRY(move_to_first_core());
  for (int round = 0; round < ROUNDS && most > MOST; round++) {
    PARTY_TRY(count(self, exchange, 4, TIMES));
    PARTY_TRY(agree(self, polls, &most));
  }
  PARTY_REQUIRE(most <= MOST, "%d polls for %d messages", (int)most, TIMES);
  return 0;
}

static int count_all(party_rank_t *self) {
  PARTY_TRY(make_warm_calls(self));
  PARTY_TRY(count_system_calls(self));
  return check_shared_core(self);
}

/* One case: two at the same time would wait for each other's time slices in each call. */
Test(network_calls, cost_little_beside_their_transfer) {
  harness_result_t result;
  setenv("COLL_TRANSPORTS", "tcp", 1);
  cr_assert(party_processes(2, TIMEOUT_MS, count_all, NULL, &result), "%s", result.text);
}
