/*
 * Kinds of call: the small programs that the tests of mismatched calls pair with each other. A kind
 * is plain data: one or two calls of coll.h, in one group or separate. A kind can be run on a
 * communicator, and each of its calls has a text by which a mismatch report must name it.
 */
#ifndef TESTS_API_CALL_KINDS_H
#define TESTS_API_CALL_KINDS_H

#include <coll.h>

#include <stdbool.h>
#include <stddef.h>

#define CALL_RANKS_MAX 4
#define CALL_KIND_CALLS_MAX 2
#define CALL_TEXT_BYTES 96

/* Verbs: the values of coll_collective_t, and these. */
#define CALL_SPLIT ((int)COLL_COLLECTIVE_COUNT)
#define CALL_SEND (CALL_SPLIT + 1)
#define CALL_RECV (CALL_SPLIT + 2)

/* A premul-sum whose scalar is 2 on every rank. */
#define CALL_PREMUL_SUM COLL_OP_LIMIT

typedef struct call {
  int verb;
  coll_dtype_t dtype;
  coll_op_t op;
  size_t count;      /* alltoallv: count to each other rank */
  size_t recv_count; /* alltoallv only: count from each other rank */
  int step;          /* of uneven blocks: rank r's has count + r * step elements */
  int root;
  const char *algo; /* forced by coll_comm_algo_set before the call, or NULL */
  bool mapped;      /* buffers from coll_mem_alloc instead of malloc */
  bool to_self;     /* a send or receive whose peer is the rank itself */
} call_t;

typedef struct call_kind {
  const char *name;
  int call_count;
  bool grouped; /* all calls between coll_group_start and coll_group_end */
  call_t calls[CALL_KIND_CALLS_MAX];
} call_kind_t;

/* The kinds of which every pair is tested. */
int call_kind_count(void);
const call_kind_t *call_kind_at(int index);

/* Kinds that need much memory and are paired with each other only. */
int call_kind_huge_count(void);
const call_kind_t *call_kind_huge_at(int index);

/* The kind of that name, of either list; aborts when there is none. */
const call_kind_t *call_kind_find(const char *name);

/* The peer of a rank's sends and receives: ranks 0 and 1 are partners, and so are 2 and 3. */
int call_peer(const call_t *call, int rank);

/* How a mismatch report names the rank's call: "allreduce(float32, sum, count 5", which a comma or
 * a parenthesis must follow. */
void call_describe(const call_t *call, int rank, char text[CALL_TEXT_BYTES]);

/* A rank's buffers, reused from call to call. Initialize it with zeros; free it with
 * call_memory_free. */
typedef struct call_memory {
  void *input[CALL_KIND_CALLS_MAX][2], *output[CALL_KIND_CALLS_MAX][2]; /* [1]: coll_mem_alloc */
  size_t bytes[CALL_KIND_CALLS_MAX][2];
} call_memory_t;

void call_memory_free(call_memory_t *memory);

/* Makes the kind's calls; the first failure ends them and is returned. *right: whether the results
 * are correct, if all calls succeeded and the kind is not huge. */
coll_status_t call_kind_run(const call_kind_t *kind, coll_comm_t comm, int rank, int size,
                            call_memory_t *memory, bool *right);

#endif
