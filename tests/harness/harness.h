/*
 * Runs a test body as several ranks, each a forked process or a thread, under a time limit, and
 * returns how each of them ended. During a run, its ranks share a board of memory, and can use a
 * barrier, kill one another and leave an error text. A body returns 0 for success. It must not use
 * Criterion's assertions, because these belong to the test that called harness_run, which asserts
 * on the result.
 */
#ifndef TESTS_HARNESS_HARNESS_H
#define TESTS_HARNESS_HARNESS_H

#include <stdbool.h>
#include <stddef.h>

#include "harness/sample.h"

#define HARNESS_RANKS_MAX 64
#define HARNESS_BOARD_BYTES 65536
#define HARNESS_SENTENCE_BYTES 256

/* The slowdown of this build against a plain one. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define HARNESS_BUILD_PATIENCE 10
#else
#define HARNESS_BUILD_PATIENCE 1
#endif

/* That, times the slowdown of the machine, which COLL_TEST_PATIENCE says of one that is emulated.
 * Time limits are multiplied by it. */
#define HARNESS_PATIENCE (HARNESS_BUILD_PATIENCE * harness_machine_patience())
int harness_machine_patience(void);

typedef int (*harness_body_t)(int rank, int size, void *context);

typedef enum harness_end {
  HARNESS_RETURNED, /* value: the body's return value */
  HARNESS_KILLED,   /* value: the number of the signal */
  HARNESS_HUNG      /* it was still running at the time limit */
} harness_end_t;

typedef struct harness_rank {
  harness_end_t end;
  int value;
  char sentence[HARNESS_SENTENCE_BYTES]; /* the text passed to harness_fail, or "" */
} harness_rank_t;

typedef struct harness_result {
  int size;
  harness_rank_t ranks[HARNESS_RANKS_MAX];
  char text[1024]; /* "rank 2 hung; rank 0 returned 1: sentence", or "all ranks returned 0" */
} harness_result_t;

/* Runs `size` child processes; true if each returned 0. timeout_ms is multiplied by
 * HARNESS_PATIENCE, and hardly counts while the machine does not run the caller. Ranks that then
 * still run are killed, and in any case processes that the ranks started and left running. No other
 * thread may run at the fork (coll_unique_id_create starts one): a lock that it holds in
 * AddressSanitizer's allocator stays locked in the children. */
bool harness_run(int size, int timeout_ms, harness_body_t body, void *context,
                 harness_result_t *result);

/* The same without a limit for the whole run. The ranks are killed when none of them has called
 * harness_progress for stall_ms (times HARNESS_PATIENCE), or as soon as one has failed, because the
 * others may wait for it for ever. */
bool harness_run_watched(int size, int stall_ms, harness_body_t body, void *context,
                         harness_result_t *result);

/* The same as harness_run with threads of this process. Threads that hang cannot be killed: the
 * test that called must end. */
bool harness_run_threads(int size, int timeout_ms, harness_body_t body, void *context,
                         harness_result_t *result);

/* Whether the system permits a process to read the memory of its children (process_vm_readv). Some
 * sandboxes do not; there, tests of such reads are skipped. */
bool harness_can_read_processes(void);

/* A TCP port of this host that nothing listens at, and that no socket gets which does not ask for
 * it. 0: none was found. */
int harness_free_port(void);

/* ---- for bodies -----------------------------------------------------------------------------*/

/* Stores the text in the result and returns 1, which the body should return. Later calls do not
 * overwrite the text. */
int harness_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Blocks until every rank of the run has called it as often as this one. */
void harness_barrier(void);

/* The same, and calls `poll` again and again meanwhile. */
void harness_barrier_polling(void (*poll)(void *context), void *context);

/* Zeroed memory that all ranks of the run share, HARNESS_BOARD_BYTES of it. */
void *harness_board(void);

/* Reports progress to harness_run_watched. */
void harness_progress(void);

/* From now on, what this thread allocates is no leak, or may be one again. For cases that fail on
 * purpose, and return where they fail. */
void harness_may_leak(bool may);

/* In a process that a body has forked and that ends by exit: what only threads of its parent refer
 * to is no leak. */
void harness_forked(void);

/* Sends SIGKILL to the rank. Processes only. */
void harness_kill(int rank);

#endif
