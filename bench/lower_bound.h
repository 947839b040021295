/*
 * The minimal data movement of a call, as lists of copy operations on the ranks' send and receive
 * buffers: what any implementation has to load and store, and nothing else. `workers` cores share
 * the work of all ranks. The functions are pure and written from the definitions in coll.h alone.
 */
#ifndef BENCH_LOWER_BOUND_H
#define BENCH_LOWER_BOUND_H

#include <coll.h>

#include <stdbool.h>
#include <stddef.h>

#define BENCH_OPERANDS_MAX 64 /* sources or destinations of an operation; ranks */

/* Which rank copies, and through what memory.
 * Pull: the receiving rank copies from the sender's buffer.
 * Push: the sending rank copies to the buffers of all receivers at once.
 * Staged: ranks cannot access each other's buffers. The sender copies to its slot, which is shared
 * memory, and the receivers copy from there. */
typedef enum bench_method {
  BENCH_PULL,
  BENCH_PUSH,
  BENCH_STAGED,
  BENCH_METHOD_COUNT
} bench_method_t;

typedef enum bench_buffer_kind { BENCH_SEND, BENCH_RECV, BENCH_SLOT } bench_buffer_kind_t;

typedef struct bench_operand {
  bench_buffer_kind_t buffer;
  int rank;
  size_t offset; /* bytes; 0 in a slot */
} bench_operand_t;

/* Stores the sum of the sources, or a copy of the only source, to all destinations. Slots come
 * before other destinations. */
typedef struct bench_copy_op {
  size_t operands; /* index of the first destination; the sources follow the destinations */
  int dst_count, source_count;
  size_t bytes;
} bench_copy_op_t;

typedef struct bench_copy_list {
  bench_copy_op_t *ops;
  size_t count, capacity;
  bench_operand_t *operands;
  size_t operand_count, operand_capacity;
} bench_copy_list_t;

/* A call: `bytes` in the larger of a rank's two buffers, root 0. */
typedef struct bench_lower_bound_call {
  coll_collective_t collective;
  int ranks, workers;
  size_t bytes;
} bench_lower_bound_call_t;

/* Whether the method applies to the collective and differs there from the other methods. */
bool bench_lower_bound_differs(coll_collective_t collective, bench_method_t method);

/* The operations of one worker. COLL_ERROR_MEMORY. */
coll_status_t bench_copy_list_make(const bench_lower_bound_call_t *call, bench_method_t method,
                                   int worker, bench_copy_list_t *list);
void bench_copy_list_free(bench_copy_list_t *list);

#endif
