/*
 * A party: ranks that hold a communicator of coll.h, either processes that used a unique id, or
 * threads with local communicators. A body may run test cases (question.h), which return 0, or 1
 * after harness_fail.
 */
#ifndef TESTS_HARNESS_PARTY_H
#define TESTS_HARNESS_PARTY_H

#include "harness/harness.h"
#include "harness/question.h"
#include "harness/sample.h"

typedef struct party_rank {
  coll_comm_t comm; /* a body that destroys it sets it to NULL */
  int rank, size;
  void *context;
} party_rank_t;

typedef int (*party_body_t)(party_rank_t *self);

/* Runs the body on every rank, then destroys the communicators. Otherwise like harness_run. */
bool party_processes(int size, int timeout_ms, party_body_t body, void *context,
                     harness_result_t *result);
bool party_threads(int size, int timeout_ms, party_body_t body, void *context,
                   harness_result_t *result);

/* Like the functions above; fails the running Criterion test with the ranks' error texts.
 * ThreadSanitizer, which does not see other processes, gets the threads alone. */
#define PARTY_RUN(size, timeout_ms, body, context)                                                \
  do {                                                                                            \
    harness_result_t party_result;                                                                \
    if (HARNESS_BUILD != HARNESS_THREAD) {                                                        \
      cr_assert(party_processes(size, timeout_ms, body, context, &party_result), "processes: %s", \
                party_result.text);                                                               \
    }                                                                                             \
    cr_assert(party_threads(size, timeout_ms, body, context, &party_result), "threads: %s",       \
              party_result.text);                                                                 \
  } while (0)

/* Returns from the body with an error if the condition is false. */
#define PARTY_REQUIRE(condition, ...)                   \
  do {                                                  \
    if (!(condition)) return harness_fail(__VA_ARGS__); \
  } while (0)

/* Returns from the body if a call fails, with its error text. */
#define PARTY_OK(call)                                                              \
  do {                                                                              \
    coll_status_t party_status = (call);                                            \
    if (party_status != COLL_OK) {                                                  \
      return harness_fail("line %d, %s: %s: %s", __LINE__, #call,                   \
                          coll_status_string(party_status), coll_last_error(NULL)); \
    }                                                                               \
  } while (0)

/* Returns from the body if a function that it called has failed and set the error text. */
#define PARTY_TRY(part) \
  do {                  \
    if (part) return 1; \
  } while (0)

typedef struct party_style {
  bool in_place;    /* if the collective and the rank allow it */
  bool coll_memory; /* coll_mem_alloc instead of malloc */
  int gpus;         /* memory of GPU rank % gpus, which the host can access too; 0: of the host */
  char *memory;     /* the caller's, which the host can access; NULL: party_ask allocates */
  size_t memory_bytes;
  coll_stream_t stream;
} party_style_t;

/* Makes the call, waits for it, and checks its output, its input and the margins around them. */
int party_ask(party_rank_t *self, const question_t *q, const party_style_t *style);

/* Whether this process uses memory that has a name in /dev/shm, where it would outlive the process.
 * The test runner's own sandbox is ignored. */
bool party_has_named_memory(void);

/* Makes the call without checks. */
coll_status_t party_call(coll_comm_t comm, int rank, const question_t *q, const void *input,
                         void *output, coll_stream_t stream);

#endif
