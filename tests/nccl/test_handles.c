/*
 * Handles that are none: used twice, after they were destroyed, of another kind, or random. Each is
 * refused with a sentence, and the process goes on.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "nccl/interface.h"
#include "verify/random.h"

#define REFUSED(call)                                  \
  do {                                                 \
    NCCL_RESULT(ncclInvalidUsage, call);               \
    NCCL_REQUIRE(strlen(ncclGetLastError(NULL)) > 20); \
  } while (0)

static char memory[4096];

static int refuse_comm(ncclComm_t comm) {
  float number = 1;
  int count;
  ncclComm_t made;
  ncclResult_t state;
  ncclRedOp_t op;
  ncclWindow_t window;
  void *handle;
  REFUSED(ncclAllReduce(&number, &number, 1, ncclFloat, ncclSum, comm, NULL));
  REFUSED(ncclBroadcast(&number, &number, 1, ncclFloat, 0, comm, NULL));
  REFUSED(ncclSend(&number, 1, ncclFloat, 0, comm, NULL));
  REFUSED(ncclRecv(&number, 1, ncclFloat, 0, comm, NULL));
  REFUSED(ncclCommCount(comm, &count));
  REFUSED(ncclCommUserRank(comm, &count));
  REFUSED(ncclCommCuDevice(comm, &count));
  REFUSED(ncclCommGetAsyncError(comm, &state));
  REFUSED(ncclCommSplit(comm, 0, 0, &made, NULL));
  REFUSED(ncclRedOpCreatePreMulSum(&op, &number, ncclFloat, ncclScalarHostImmediate, comm));
  REFUSED(ncclCommRegister(comm, memory, sizeof memory, &handle));
  REFUSED(ncclCommWindowRegister(comm, memory, sizeof memory, &window, 0));
  REFUSED(ncclCommFinalize(comm));
  REFUSED(ncclCommAbort(comm));
  REFUSED(ncclCommDestroy(comm));
  (void)ncclGetLastError(comm);
  return 0;
}

static int refusals(int rank, int size, void *context) {
  ncclComm_t comm, ended;
  ncclWindow_t window;
  void *handle;
  uint64_t random = 9;
  (void)rank, (void)size, (void)context;
  NCCL_OK(ncclCommInitAll(&comm, 1, NULL));
  NCCL_OK(ncclCommInitAll(&ended, 1, NULL));
  NCCL_OK(ncclCommDestroy(ended));
  NCCL_OK(ncclCommRegister(comm, memory, sizeof memory, &handle));
  NCCL_OK(ncclCommWindowRegister(comm, memory, sizeof memory, &window, 0));
  REFUSED(ncclCommDeregister(comm, window));
  REFUSED(ncclCommDeregister(comm, memory));
  REFUSED(ncclCommWindowDeregister(comm, (ncclWindow_t)handle));
  NCCL_OK(ncclCommDeregister(comm, handle));
  REFUSED(ncclCommDeregister(comm, handle));
  NCCL_OK(ncclCommWindowDeregister(comm, window));
  REFUSED(ncclCommWindowDeregister(comm, window));
  void *const none[] = {ended, handle, window, memory, &comm};
  for (int i = 0; i < 300; i++) {
    uintptr_t near = (uintptr_t)none[i % 5] + (i < 5 ? 0 : random_next(&random) % 100000);
    uintptr_t bits = i % 3 == 2 ? (uintptr_t)random_next(&random) : near;
    if (refuse_comm((ncclComm_t)bits) != 0) return 1;
    REFUSED(ncclCommDeregister(comm, (void *)bits));
    REFUSED(ncclCommWindowDeregister(comm, (ncclWindow_t)bits));
  }
  NCCL_OK(ncclCommDestroy(comm));
  return 0;
}

Test(nccl_handles, that_are_none_are_refused) {
  NCCL_RUN(1, refusals);
}

/* ---- by several threads -----------------------------------------------------------------------*/

enum {
  MAKERS = 2,
  ROUNDS = 100
}; /* no address is used again: fewer than 1,000 handles of a kind */

static _Atomic(ncclComm_t) live_comm, ended_comm;
static _Atomic(ncclWindow_t) live_window, ended_window;
static atomic_int makers_left;

static int make_and_destroy(void) {
  float number = 1;
  ncclComm_t comm;
  ncclWindow_t window;
  NCCL_OK(ncclCommInitAll(&comm, 1, NULL));
  atomic_store(&live_comm, comm);
  NCCL_OK(ncclCommWindowRegister(comm, memory, sizeof memory, &window, 0));
  atomic_store(&live_window, window);
  NCCL_OK(ncclAllReduce(&number, &number, 1, ncclFloat, ncclSum, comm, NULL));
  NCCL_OK(ncclCommWindowDeregister(comm, window));
  atomic_store(&ended_window, window);
  NCCL_OK(ncclCommDestroy(comm));
  atomic_store(&ended_comm, comm);
  return 0;
}

static void *make_many(void *failed) {
  for (int i = 0; i < ROUNDS && *(int *)failed == 0; i++) *(int *)failed = make_and_destroy();
  atomic_fetch_sub(&makers_left, 1);
  return NULL;
}

/* No handle that a maker may have, or destroy, is passed as one of its own kind. */
static int refuse_those_of_makers(ncclComm_t comm, uint64_t *random) {
  ncclComm_t ended = atomic_load(&ended_comm);
  if (ended == NULL) return 0; /* no maker has got so far */
  char *const live[] = {(char *)atomic_load(&live_comm), (char *)atomic_load(&live_window)};
  if (refuse_comm(ended) != 0 || refuse_comm((ncclComm_t)(void *)live[1]) != 0) return 1;
  REFUSED(ncclCommWindowDeregister(comm, atomic_load(&ended_window)));
  REFUSED(ncclCommWindowDeregister(comm, (ncclWindow_t)(void *)live[0]));
  for (int i = 0; i < 2; i++) {
    void *middle = live[i] + 8 * (1 + random_below(random, 7));
    if (refuse_comm((ncclComm_t)middle) != 0) return 1;
    REFUSED(ncclCommWindowDeregister(comm, (ncclWindow_t)middle));
  }
  return 0;
}

/* One thread passes what are no handles while others make, use and destroy theirs. */
static int refusals_beside_makers(int rank, int size, void *context) {
  pthread_t threads[MAKERS];
  int failed[MAKERS] = {0}, refused = 0;
  uint64_t random = 12;
  ncclComm_t comm;
  (void)rank, (void)size, (void)context;
  NCCL_OK(ncclCommInitAll(&comm, 1, NULL));
  atomic_store(&makers_left, MAKERS);
  for (int i = 0; i < MAKERS; i++) {
    NCCL_REQUIRE(pthread_create(&threads[i], NULL, make_many, &failed[i]) == 0);
  }
  while (atomic_load(&makers_left) > 0 && refused == 0) {
    refused = refuse_those_of_makers(comm, &random);
  }
  for (int i = 0; i < MAKERS; i++) pthread_join(threads[i], NULL);
  if (refused == 0) refused = refuse_those_of_makers(comm, &random);
  NCCL_OK(ncclCommDestroy(comm));
  return refused + failed[0] + failed[1];
}

Test(nccl_handles, of_several_threads_are_told_from_what_is_none) {
  NCCL_RUN(1, refusals_beside_makers);
}
