/* One function per collective and kind of access. Blocks and ranks are assigned to the workers
 * round robin; a vector that belongs to all ranks is divided into equal parts. */
#include "bench/lower_bound.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define PART_BYTES 64 /* parts of a vector are multiples of it */

/* A list that is being built. */
typedef struct builder {
  const bench_lower_bound_call_t *call;
  bench_copy_list_t *list;
  int worker;
  bench_operand_t dsts[BENCH_OPERANDS_MAX], sources[BENCH_OPERANDS_MAX];
  int dst_count, source_count;
  coll_status_t status;
} builder_t;

/* ---- operations */

static void to(builder_t *m, bench_buffer_kind_t buffer, int rank, size_t offset) {
  m->dsts[m->dst_count++] = (bench_operand_t){buffer, rank, offset};
}

static void from(builder_t *m, bench_buffer_kind_t buffer, int rank, size_t offset) {
  m->sources[m->source_count++] = (bench_operand_t){buffer, rank, offset};
}

static void append(builder_t *m, const bench_operand_t *operands, int count) {
  bench_copy_list_t *list = m->list;
  if (m->status != COLL_OK) return;
  m->status =
      base_grow((void **)&list->operands, &list->operand_capacity,
                list->operand_count + (size_t)count, sizeof *operands, "a list of copy operations");
  if (m->status != COLL_OK) return;
  memcpy(&list->operands[list->operand_count], operands, (size_t)count * sizeof *operands);
  list->operand_count += (size_t)count;
}

/* Adds the operation with the operands given by to() and from(), and clears these. */
static void add_op(builder_t *m, size_t bytes) {
  bench_copy_list_t *list = m->list;
  bench_copy_op_t made = {list->operand_count, m->dst_count, m->source_count, bytes};
  if (bytes > 0) {
    append(m, m->dsts, m->dst_count);
    append(m, m->sources, m->source_count);
    if (m->status == COLL_OK) {
      m->status = base_grow((void **)&list->ops, &list->capacity, list->count + 1,
                            sizeof *list->ops, "a list of copy operations");
    }
    if (m->status == COLL_OK) list->ops[list->count++] = made;
  }
  m->dst_count = m->source_count = 0;
}

/* ---- parts */

/* Where part `index` of `count` of a vector begins. */
static size_t part_begin(const builder_t *m, int index, int count) {
  if (index == count) return m->call->bytes;
  return m->call->bytes / (size_t)count * (size_t)index / PART_BYTES * PART_BYTES;
}

static size_t block_bytes(const builder_t *m) {
  return m->call->bytes / (size_t)m->call->ranks;
}

static bool is_own_share(const builder_t *m, int number) {
  return number % m->call->workers == m->worker;
}

/* ---- pull and push: ranks access each other's buffers */

static void reduce_part(builder_t *m, int dsts) {
  size_t begin = part_begin(m, m->worker, m->call->workers);
  for (int r = 0; r < dsts; r++) to(m, BENCH_RECV, r, begin);
  for (int r = 0; r < m->call->ranks; r++) from(m, BENCH_SEND, r, begin);
  add_op(m, part_begin(m, m->worker + 1, m->call->workers) - begin);
}

static void reduce_scatter_block(builder_t *m, int block) {
  to(m, BENCH_RECV, block, 0);
  for (int r = 0; r < m->call->ranks; r++) from(m, BENCH_SEND, r, (size_t)block * block_bytes(m));
  add_op(m, block_bytes(m));
}

static void push_block(builder_t *m, int block) {
  for (int r = 0; r < m->call->ranks; r++) {
    to(m, BENCH_RECV, r, (size_t)block * block_bytes(m));
  }
  from(m, BENCH_SEND, block, 0);
  add_op(m, block_bytes(m));
}

static void push_part(builder_t *m) {
  size_t begin = part_begin(m, m->worker, m->call->workers);
  for (int r = 0; r < m->call->ranks; r++) to(m, BENCH_RECV, r, begin);
  from(m, BENCH_SEND, 0, begin);
  add_op(m, part_begin(m, m->worker + 1, m->call->workers) - begin);
}

/* One block, from offset `at` of the source's send buffer to dst_offset of the rank's receive
 * buffer. */
static void copy_block(builder_t *m, int rank, size_t dst_offset, int source, size_t at) {
  to(m, BENCH_RECV, rank, dst_offset);
  from(m, BENCH_SEND, source, at);
  coll_collective_t which = m->call->collective;
  bool is_whole = which == COLL_BROADCAST || which == COLL_SENDRECV;
  add_op(m, is_whole ? m->call->bytes : block_bytes(m));
}

static int previous_rank(const builder_t *m, int rank) {
  return (rank + m->call->ranks - 1) % m->call->ranks;
}

/* The copies of one rank: of what it receives (pull) or sends (push). */
static void copy_for_rank(builder_t *m, int rank, bench_method_t method) {
  size_t block = block_bytes(m), own = (size_t)rank * block;
  switch (m->call->collective) {
    case COLL_BROADCAST: copy_block(m, rank, 0, 0, 0); return;
    case COLL_GATHER: copy_block(m, 0, own, rank, 0); return;
    case COLL_SCATTER: copy_block(m, rank, 0, 0, own); return;
    case COLL_SENDRECV:
      if (method == BENCH_PULL) copy_block(m, rank, 0, previous_rank(m, rank), 0);
      if (method == BENCH_PUSH) copy_block(m, (rank + 1) % m->call->ranks, 0, rank, 0);
      return;
    default: break;
  }
  for (int i = 0; i < m->call->ranks; i++) {
    int peer = (rank + i) % m->call->ranks;
    size_t theirs = (size_t)peer * block;
    if (m->call->collective == COLL_ALLGATHER) {
      copy_block(m, rank, theirs, peer, 0);
    } else if (method == BENCH_PULL) {
      copy_block(m, rank, theirs, peer, own);
    } else {
      copy_block(m, peer, own, rank, theirs);
    }
  }
}

static void make_mapped(builder_t *m, bench_method_t method) {
  coll_collective_t which = m->call->collective;
  if (which == COLL_ALLREDUCE || which == COLL_REDUCE) {
    reduce_part(m, which == COLL_REDUCE ? 1 : m->call->ranks);
    return;
  }
  if (which == COLL_BROADCAST && method == BENCH_PUSH) {
    push_part(m);
    return;
  }
  for (int number = 0; number < m->call->ranks; number++) {
    if (!is_own_share(m, number)) continue;
    if (which == COLL_REDUCE_SCATTER) {
      reduce_scatter_block(m, number);
    } else if (which == COLL_ALLGATHER && method == BENCH_PUSH) {
      push_block(m, number);
    } else {
      copy_for_rank(m, number, method);
    }
  }
}

/* ---- staged: ranks access shared slots only */

static void copy_to_slot(builder_t *m, int rank, size_t at, size_t bytes) {
  to(m, BENCH_SLOT, rank, 0);
  from(m, BENCH_SEND, rank, at);
  add_op(m, bytes);
}

static void copy_from_slot(builder_t *m, int rank, size_t at, int peer, size_t bytes) {
  to(m, BENCH_RECV, rank, at);
  from(m, BENCH_SLOT, peer, 0);
  add_op(m, bytes);
}

/* Sums the rank's own input at offset `at` and the slots of its peers into dst_offset of its
 * output, and with to_slot into its slot as well, from where the others copy the result. */
static void reduce_staged(builder_t *m, int rank, size_t at, size_t dst_offset, bool to_slot,
                          size_t bytes) {
  if (to_slot) to(m, BENCH_SLOT, rank, 0);
  to(m, BENCH_RECV, rank, dst_offset);
  for (int r = 0; r < m->call->ranks; r++) {
    from(m, r == rank ? BENCH_SEND : BENCH_SLOT, r, r == rank ? at : 0);
  }
  add_op(m, bytes);
}

static void stage_allreduce(builder_t *m, int rank) {
  int ranks = m->call->ranks;
  for (int pass = 0; pass < 2; pass++) {
    for (int i = 1; i < ranks; i++) {
      int peer = (rank + i) % ranks;
      size_t begin = part_begin(m, peer, ranks), bytes = part_begin(m, peer + 1, ranks) - begin;
      if (pass == 0) copy_to_slot(m, rank, begin, bytes);
      if (pass == 1) copy_from_slot(m, rank, begin, peer, bytes);
    }
    if (pass == 1) break;
    size_t begin = part_begin(m, rank, ranks);
    reduce_staged(m, rank, begin, begin, true, part_begin(m, rank + 1, ranks) - begin);
  }
}

/* Reduce-scatter, allgather, alltoall. */
static void stage_blocks(builder_t *m, int rank) {
  int ranks = m->call->ranks;
  coll_collective_t which = m->call->collective;
  size_t block = block_bytes(m), own = (size_t)rank * block;
  if (which == COLL_REDUCE_SCATTER) reduce_staged(m, rank, own, 0, false, block);
  if (which == COLL_ALLGATHER) to(m, BENCH_SLOT, rank, 0);
  if (which != COLL_REDUCE_SCATTER)
    copy_block(m, rank, own, rank, which == COLL_ALLGATHER ? 0 : own);
  for (int i = 1; i < ranks; i++) {
    int peer = (rank + i) % ranks;
    if (which != COLL_ALLGATHER) copy_to_slot(m, rank, (size_t)peer * block, block);
    if (which != COLL_REDUCE_SCATTER) copy_from_slot(m, rank, (size_t)peer * block, peer, block);
  }
}

/* A message to the next rank and one from the previous. A single rank is both. */
static void stage_shift(builder_t *m, int rank) {
  if (m->call->ranks == 1) {
    copy_block(m, 0, 0, 0, 0);
    return;
  }
  copy_to_slot(m, rank, 0, m->call->bytes);
  copy_from_slot(m, rank, 0, previous_rank(m, rank), m->call->bytes);
}

static void stage_root(builder_t *m) {
  coll_collective_t which = m->call->collective;
  size_t block = block_bytes(m);
  if (which == COLL_REDUCE) {
    reduce_staged(m, 0, 0, 0, false, m->call->bytes);
    return;
  }
  if (which == COLL_BROADCAST) to(m, BENCH_SLOT, 0, 0);
  copy_block(m, 0, 0, 0, 0);
  for (int peer = 1; peer < m->call->ranks && which != COLL_BROADCAST; peer++) {
    if (which == COLL_GATHER) copy_from_slot(m, 0, (size_t)peer * block, peer, block);
    if (which == COLL_SCATTER) copy_to_slot(m, 0, (size_t)peer * block, block);
  }
}

static void stage_leaf(builder_t *m, int rank) {
  switch (m->call->collective) {
    case COLL_REDUCE: copy_to_slot(m, rank, 0, m->call->bytes); break;
    case COLL_GATHER: copy_to_slot(m, rank, 0, block_bytes(m)); break;
    case COLL_BROADCAST: copy_from_slot(m, rank, 0, 0, m->call->bytes); break;
    default: copy_from_slot(m, rank, 0, 0, block_bytes(m)); break;
  }
}

static void make_staged(builder_t *m) {
  coll_collective_t which = m->call->collective;
  bool rooted = which == COLL_REDUCE || which == COLL_BROADCAST || which == COLL_GATHER ||
                which == COLL_SCATTER;
  for (int rank = 0; rank < m->call->ranks; rank++) {
    if (!is_own_share(m, rank)) continue;
    if (which == COLL_ALLREDUCE) {
      stage_allreduce(m, rank);
    } else if (which == COLL_SENDRECV) {
      stage_shift(m, rank);
    } else if (!rooted) {
      stage_blocks(m, rank);
    } else if (rank == 0) {
      stage_root(m);
    } else {
      stage_leaf(m, rank);
    }
  }
}

/* ---- public functions */

bool bench_lower_bound_differs(coll_collective_t collective, bench_method_t method) {
  return method != BENCH_PULL || collective == COLL_ALLGATHER || collective == COLL_BROADCAST ||
         collective == COLL_ALLTOALL || collective == COLL_SENDRECV;
}

coll_status_t bench_copy_list_make(const bench_lower_bound_call_t *call, bench_method_t method,
                                   int worker, bench_copy_list_t *list) {
  assert(call->ranks >= 1 && call->ranks <= BENCH_OPERANDS_MAX && worker < call->workers);
  bench_copy_list_t made = {0};
  builder_t builder = {.call = call, .list = &made, .worker = worker};
  if (method == BENCH_STAGED) {
    make_staged(&builder);
  } else {
    make_mapped(&builder, method);
  }
  if (builder.status != COLL_OK) {
    bench_copy_list_free(&made);
    return builder.status;
  }
  *list = made;
  return COLL_OK;
}

void bench_copy_list_free(bench_copy_list_t *list) {
  free(list->ops);
  free(list->operands);
  *list = (bench_copy_list_t){0};
}
