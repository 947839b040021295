/* The rows of one expert from one rank are a run, which one task copies. */
#include "libtrain/model/expert_exchange.h"

#include <string.h>

#include "libtrain/parallel/axis.h"

static int rank_count(const train_experts_t *layer) {
  return layer->experts->group.size;
}

static int own_experts(const train_experts_t *layer) {
  return layer->router.experts / rank_count(layer);
}

/* ---- counts ---- */

void train_expert_exchange_counts(const train_experts_t *layer,
                                  const train_experts_activations_t *activations) {
  int ranks = rank_count(layer), experts = own_experts(layer), start = 0;
  int32_t *arrived = activations->arrived;
  /* Counts are 32 bits wide, as float32 is; an all-to-all does not look at them. */
  train_axis_alltoall(layer->experts, TRAIN_FLOAT32, activations->route.counts, arrived,
                      (size_t)experts);
  if (train_axis_status(layer->experts) != COLL_OK) {
    memset(arrived, 0, (size_t)ranks * (size_t)experts * sizeof *arrived);
  }
  for (int expert = 0; expert < experts; expert++) {
    int count = 0;
    for (int rank = 0; rank < ranks; rank++) count += arrived[rank * experts + expert];
    activations->starts[expert] = start;
    activations->counts[expert] = count;
    start += (count + TRAIN_EXPERT_ALIGN - 1) / TRAIN_EXPERT_ALIGN * TRAIN_EXPERT_ALIGN;
  }
  activations->starts[experts] = start;
}

/* ---- runs ---- */

typedef struct copy {
  const train_experts_t *layer;
  const train_experts_activations_t *activations;
  void *staged, *sorted;
  bool back;
} copy_t;

static void *row_at(const copy_t *c, void *array, int row) {
  return train_dtype_at(c->layer->exec->dtype, array, (size_t)row * (size_t)c->layer->router.width);
}

static size_t bytes_of(const copy_t *c, int rows) {
  return (size_t)rows * (size_t)c->layer->router.width * train_dtype_bytes(c->layer->exec->dtype);
}

static void clear_unused(const copy_t *c, int expert) {
  const train_experts_activations_t *a = c->activations;
  int first = a->starts[expert] + a->counts[expert];
  memset(row_at(c, c->sorted, first), 0, bytes_of(c, a->starts[expert + 1] - first));
}

/* Task `expert` copies the runs of one expert. */
static void copy_task(void *context, int expert, int thread) {
  const copy_t *c = context;
  const train_experts_activations_t *a = c->activations;
  int experts = own_experts(c->layer), to = a->starts[expert], from = 0;
  (void)thread;
  for (int rank = 0; rank < rank_count(c->layer); rank++) {
    const int32_t *arrived = a->arrived + rank * experts;
    for (int before = 0; before < expert; before++) from += arrived[before];
    void *sorted = row_at(c, c->sorted, to), *staged = row_at(c, c->staged, from);
    memcpy(c->back ? staged : sorted, c->back ? sorted : staged, bytes_of(c, arrived[expert]));
    to += arrived[expert];
    for (int rest = expert; rest < experts; rest++) from += arrived[rest];
  }
  if (!c->back) clear_unused(c, expert);
}

static void copy_runs(const copy_t *copy) {
  train_pool_run(copy->layer->exec->pool, own_experts(copy->layer), copy_task,
                 (void *)(uintptr_t)copy);
}

/* ---- exchanges ---- */

/* Elements to and from each rank. */
static train_axis_blocks_t blocks_of(const train_experts_t *layer,
                                     const train_experts_activations_t *activations,
                                     const train_experts_buffers_t *buffers) {
  int ranks = rank_count(layer), experts = own_experts(layer);
  size_t *sent = buffers->exchanged, *sent_at = sent + ranks, *got = sent_at + ranks,
         *got_at = got + ranks, from = 0, to = 0, width = (size_t)layer->router.width;
  for (int rank = 0; rank < ranks; rank++) {
    sent[rank] = got[rank] = 0;
    for (int expert = 0; expert < experts; expert++) {
      sent[rank] += (size_t)activations->route.counts[rank * experts + expert] * width;
      got[rank] += (size_t)activations->arrived[rank * experts + expert] * width;
    }
    sent_at[rank] = from;
    got_at[rank] = to;
    from += sent[rank];
    to += got[rank];
  }
  return (train_axis_blocks_t){
      .from_counts = sent, .from_offsets = sent_at, .to_counts = got, .to_offsets = got_at};
}

void train_expert_exchange_send(const train_experts_t *layer,
                                const train_experts_activations_t *activations,
                                const train_experts_buffers_t *buffers, const void *own,
                                void *sorted) {
  const train_axis_blocks_t blocks = blocks_of(layer, activations, buffers);
  const copy_t copy = {
      .layer = layer, .activations = activations, .staged = buffers->staged, .sorted = sorted};
  train_axis_alltoallv(layer->experts, layer->exec->dtype, own, buffers->staged, &blocks);
  copy_runs(&copy);
}

void train_expert_exchange_return(const train_experts_t *layer,
                                  const train_experts_activations_t *activations,
                                  const train_experts_buffers_t *buffers, const void *sorted,
                                  void *own) {
  const train_axis_blocks_t there = blocks_of(layer, activations, buffers);
  const train_axis_blocks_t back = {.from_counts = there.to_counts,
                                    .from_offsets = there.to_offsets,
                                    .to_counts = there.from_counts,
                                    .to_offsets = there.from_offsets};
  const copy_t copy = {.layer = layer,
                       .activations = activations,
                       .staged = buffers->staged,
                       .sorted = (void *)(uintptr_t)sorted,
                       .back = true};
  copy_runs(&copy);
  train_axis_alltoallv(layer->experts, layer->exec->dtype, buffers->staged, own, &back);
}
