/*
 * One rank of bench/step: a GPT-2 with a parameter store, and its training steps.
 */
#ifndef BENCH_STEP_RANK_H
#define BENCH_STEP_RANK_H

#include <stdbool.h>
#include <stdint.h>

#include "libtrain/common/precision.h"
#include "libtrain/model/model.h"
#include "libtrain/parallel/store.h"

typedef struct step_settings {
  const char *preset;
  int64_t batch, length, threads, steps, zero, bucket;
  int precision, recompute;
  bool no_overlap, no_comm, bfloat16;
  const char *text; /* a file whose bytes are the tokens; NULL: random tokens */
} step_settings_t;

/* All zero before step_rank_open. */
typedef struct step_rank {
  train_group_t group;
  train_layout_t *layout;
  train_pool_t *pool;
  train_model_t *model;
  train_store_t *store;
  int sequences, rows; /* of this rank */
  int32_t *tokens, *targets;
  uint8_t *text; /* [text_bytes]; NULL with random tokens, which are the same in each step */
  size_t text_bytes;
} step_rank_t;

/* reduce_ms: waiting for gradients, computing their norm and summing it over the ranks. */
typedef struct step_timing {
  double passes_ms, reduce_ms, update_ms, waited_ms, loss;
} step_timing_t;

/* Joins the launcher's ranks. COLL_ERROR_INVALID, COLL_ERROR_SYSTEM. */
coll_status_t step_rank_join(step_rank_t *rank);

/* Creates model and store with weights of seed 1. Every rank returns an error if one fails:
 * COLL_ERROR_INVALID, COLL_ERROR_MEMORY, COLL_ERROR_SYSTEM. */
coll_status_t step_rank_open(const step_settings_t *settings, step_rank_t *rank);
void step_rank_close(step_rank_t *rank);

/* Training step number `step`, counted from 1: AdamW with its default settings (TRAIN_ADAMW_INIT),
 * learning rate 1e-4, gradients clipped to norm 1. With a text, sequence s of step n starts at byte
 * ((n - 1) * batch + s) * length, modulo the number of bytes that start a sequence. */
coll_status_t step_rank_take(const step_settings_t *settings, step_rank_t *rank, uint64_t step,
                             step_timing_t *timing);

/* The duration of a step in ms. */
static inline double step_total_ms(const step_timing_t *timing) {
  return timing->passes_ms + timing->reduce_ms + timing->update_ms;
}

#endif
