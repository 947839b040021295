/*
 * The builders of schedules, one file each. A builder appends the actions of one stage. Those of
 * synchronous kinds are called once per update and append its micro-batches; the others are called
 * once for all updates. Memory for all actions is allocated before, so appending cannot fail.
 */
#ifndef LIBTRAIN_SCHEDULE_BUILDERS_H
#define LIBTRAIN_SCHEDULE_BUILDERS_H

#include "libtrain/schedule/schedule.h"

typedef struct train_builder {
  const train_schedule_shape_t *shape;
  int stage;
  int first;   /* the first micro-batch to append */
  int count;   /* micro-batches to append */
  int version; /* synchronous kinds: that all passes use */
  train_action_t *actions;
  size_t appended;
} train_builder_t;

/* micro_batch counts from builder->first. */
static inline void train_builder_append(train_builder_t *builder, train_action_kind_t kind,
                                        int micro_batch, int chunk, int slice, int version) {
  builder->actions[builder->appended++] =
      (train_action_t){.kind = kind,
                       .micro_batch = builder->first + micro_batch,
                       .chunk = chunk,
                       .slice = slice,
                       .version = version};
}

/* A pass of a synchronous kind without chunks and slices. */
static inline void train_builder_pass(train_builder_t *builder, train_action_kind_t kind,
                                      int micro_batch) {
  train_builder_append(builder, kind, micro_batch, 0, 0, builder->version);
}

/* Ends the update that the micro-batch is the last of. */
static inline void train_builder_update(train_builder_t *builder, int micro_batch) {
  int version = (builder->first + micro_batch + 1) / builder->shape->micro_batches;
  train_builder_append(builder, TRAIN_UPDATE, micro_batch, 0, 0, version);
}

typedef void train_build_t(train_builder_t *builder);
train_build_t train_build_naive, train_build_gpipe, train_build_1f1b, train_build_interleaved,
    train_build_zb_h1, train_build_pipedream, train_build_pipedream_2bw, train_build_terapipe;

/* A kind cannot have each shape. COLL_ERROR_INVALID says why, and what fits. */
typedef coll_status_t train_accept_t(const train_schedule_shape_t *shape);
train_accept_t train_accept_interleaved;

#endif
