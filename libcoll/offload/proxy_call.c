/*
 * A collective as steps. Each block of its buffers is cut into pieces of the same number of
 * elements on all ranks; step s is the same collective on piece s of every block, which are put
 * together in the slot. What one piece reads, no other one writes, in place too.
 */
#include "base/alloc.h"
#include "base/names.h"
#include "offload/proxy_state.h"

typedef struct cut {
  offload_proxy_t *proxy;
  const run_call_t *call;
  run_call_t piece; /* of the proxy, but for count and buffers */
  size_t element_bytes;
  size_t in_blocks, out_blocks; /* of this rank */
  size_t count;                 /* elements of a piece of a block; the last one may have less */
} cut_t;

/* The most blocks that a buffer of any rank has. */
static size_t most_blocks(const plan_shape_t *shape) {
  int32_t most = 1;
  for (int rank = 0; rank < shape->size; rank++) {
    int32_t in = plan_blocks(shape, rank, PLAN_INPUT), out = plan_blocks(shape, rank, PLAN_OUTPUT);
    if (in > most) most = in;
    if (out > most) most = out;
  }
  return (size_t)most;
}

/* *count: how many elements of each block a slot takes. */
static coll_status_t find_count(const plan_shape_t *shape, size_t element_bytes, size_t *count) {
  size_t bytes = PROXY_SLOT_BYTES / most_blocks(shape);
  if (bytes > PROXY_ALIGNMENT) bytes -= bytes % PROXY_ALIGNMENT;
  *count = bytes / element_bytes;
  if (*count > 0) return COLL_OK;
  return base_fail(COLL_ERROR_UNSUPPORTED,
                   "%s among %d ranks, staged through the host: its blocks do not fit %zu bytes of "
                   "pinned memory",
                   base_collective_name(shape->collective), shape->size, PROXY_SLOT_BYTES);
}

/* Adds the copies of a piece between the slot and `blocks` blocks of the user's buffer. */
static coll_status_t copy(const cut_t *cut, cuda_copies_t *copies, size_t step, size_t blocks,
                          char *user, char *slot, bool is_in) {
  size_t whole = cut->call->shape.count, first = step * cut->count;
  size_t count = whole - first < cut->count ? whole - first : cut->count;
  size_t bytes = count * cut->element_bytes, stride = whole * cut->element_bytes;
  if (count == whole) { /* one copy for all */
    bytes *= blocks;
    blocks = blocks > 0;
  }
  for (size_t block = 0; block < blocks; block++) {
    char *there = user + block * stride + first * cut->element_bytes, *here = slot + block * bytes;
    COLL_TRY(cuda_copies_add(copies, is_in ? here : there, is_in ? there : here, bytes));
  }
  return COLL_OK;
}

static coll_status_t begin(void *context, size_t step, const proxy_slot_t *slot,
                           cuda_copies_t *copies, proxy_job_t **job) {
  const cut_t *cut = context;
  const struct coll_comm *comm = cut->call->comm;
  size_t rest = cut->call->shape.count - step * cut->count;
  COLL_TRY(
      copy(cut, copies, step, cut->in_blocks, (char *)(uintptr_t)cut->call->send, slot->in, true));
  COLL_TRY(proxy_job_create(cut->proxy, slot, 1, job));
  run_call_t *piece = &(*job)->calls[0];
  *piece = cut->piece;
  piece->shape.count = rest < cut->count ? rest : cut->count;
  piece->send = slot->in;
  piece->recv = slot->out;
  (*job)->forced = comm->plans.forced[comm_traits_of(piece->shape).collective];
  return COLL_OK;
}

static coll_status_t end(void *context, size_t step, const proxy_slot_t *slot,
                         cuda_copies_t *copies) {
  const cut_t *cut = context;
  return copy(cut, copies, step, cut->out_blocks, cut->call->recv, slot->out, false);
}

/* The call on the proxy's communicator, out of place. */
static run_call_t make_piece(offload_proxy_t *proxy, const run_call_t *call, uint64_t scalar) {
  comm_traits_t traits = comm_traits_of(call->shape);
  traits.in_place = false;
  traits.reach = PLAN_REACH_USER;
  return (run_call_t){.kind = RUN_COLLECTIVE,
                      .comm = proxy->host,
                      .shape = comm_shape_make(traits, 0),
                      .piece_of = call->shape.count,
                      .scalar = {.value = scalar}};
}

coll_status_t offload_proxy_collective(offload_proxy_t *proxy, const run_call_t *call,
                                       uint64_t scalar, cuda_stream_t stream) {
  const comm_traits_t traits = comm_traits_of(call->shape);
  const plan_shape_t shape = {
      .collective = traits.collective, .size = proxy->comm->size, .root = traits.root};
  cut_t cut = {.proxy = proxy,
               .call = call,
               .piece = make_piece(proxy, call, scalar),
               .element_bytes = base_dtype_bytes(traits.dtype),
               .in_blocks = (size_t)plan_blocks(&shape, proxy->comm->rank, PLAN_INPUT),
               .out_blocks = (size_t)plan_blocks(&shape, proxy->comm->rank, PLAN_OUTPUT)};
  if (call->blocks != NULL) return proxy_alltoallv(proxy, call, stream);
  COLL_TRY(find_count(&shape, cut.element_bytes, &cut.count));
  size_t count = call->shape.count;
  const proxy_steps_t steps = {.count = count > 0 ? (count - 1) / cut.count + 1 : 1,
                               .begin = begin,
                               .end = end,
                               .context = &cut};
  return proxy_queue(proxy, stream, &steps);
}
