/*
 * Interleaved 1F1B (Narayanan et al. 2021, the order of Megatron-LM): a stage has several chunks of
 * layers, so the pipeline fills in steps of a chunk and the bubble shrinks by their number. Passes
 * come in groups of p micro-batches (p stages): a group goes through chunk 0, then chunk 1 ...,
 * backward from the last chunk to the first.
 */
#include "libtrain/schedule/builders.h"

/* The i-th forward or backward pass of any stage. */
static void append_pass(train_builder_t *builder, train_action_kind_t kind, int i) {
  int stages = builder->shape->stages, chunks = builder->shape->chunks;
  int group = i / (stages * chunks), within = i % (stages * chunks);
  int chunk = within / stages;
  if (kind != TRAIN_FORWARD) chunk = chunks - 1 - chunk;
  train_builder_append(builder, kind, group * stages + within % stages, chunk, 0, builder->version);
}

/* Forward passes before the first backward pass: stage 0 is two passes ahead of the next stage, one
 * on the way there and one on the way back. */
void train_build_interleaved(train_builder_t *builder) {
  int stages = builder->shape->stages, chunks = builder->shape->chunks;
  int passes = builder->count * chunks;
  int ahead = 2 * (stages - builder->stage - 1) + (chunks - 1) * stages + 1;
  if (ahead > passes) ahead = passes;
  for (int i = 0; i < ahead; i++) append_pass(builder, TRAIN_FORWARD, i);
  for (int i = 0; i < passes; i++) {
    append_pass(builder, TRAIN_BACKWARD, i);
    if (i + ahead < passes) append_pass(builder, TRAIN_FORWARD, i + ahead);
  }
  train_builder_update(builder, builder->count - 1);
}

coll_status_t train_accept_interleaved(const train_schedule_shape_t *shape) {
  int stages = shape->stages, count = shape->micro_batches;
  if (shape->chunks < 2) {
    return base_fail(COLL_ERROR_INVALID,
                     "schedule interleaved has at least 2 virtual stages per stage; with 1 it is "
                     "1f1b");
  }
  if (count % stages == 0) return COLL_OK;
  int below = count / stages * stages;
  return base_fail(COLL_ERROR_INVALID,
                   "schedule interleaved takes micro-batches in groups of the %d stages, and %d is "
                   "no multiple of that; use %d%s%.0d, or another schedule",
                   stages, count, below + stages, below > 0 ? " or " : "", below);
}
