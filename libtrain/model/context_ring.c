/*
 * Ring attention. At each step a rank computes its queries with the keys and values that are here,
 * while it passes them on to the next rank and those of the previous rank arrive. Of a pair of
 * segments that the causal mask hides the operator computes nothing.
 *
 * Backward passes keys and values around once more. Their gradients follow one step behind: a rank
 * computes its part while the sum of the ranks before it arrives, and passes the sum on. A rank's
 * own keys come last, while their gradient comes home: after p - 1 steps, as many as keys and
 * values take.
 */
#include <string.h>

#include "libtrain/model/context.h"
#include "libtrain/parallel/axis.h"

typedef struct ring {
  const train_model_t *model;
  const train_slot_t *slot;
  const block_activations_t *b;
  train_axis_t *axis;
  size_t rows, features; /* of all heads */
  void *here, *arriving; /* [rows, 2, features]: keys and values */
} ring_t;

static ring_t ring_of(const train_model_t *model, const train_slot_t *slot,
                      const block_activations_t *b) {
  const train_activations_t *a = model->activations;
  return (ring_t){.model = model,
                  .slot = slot,
                  .b = b,
                  .axis = model->options.axes.context,
                  .rows = (size_t)train_batch_rows(&slot->batch),
                  .features = a->sizes.head_features,
                  .here = a->context.moving[0],
                  .arriving = a->context.moving[1]};
}

static train_dtype_t dtype_of(const ring_t *ring) {
  return ring->model->exec.dtype;
}

/* ---- keys and values ---- */

/* Makes this rank's keys and values those that are here. */
static void pack_own(const ring_t *ring) {
  size_t element = train_dtype_bytes(dtype_of(ring)), bytes = 2 * ring->features * element;
  const char *qkv = ring->b->qkv;
  for (size_t row = 0; row < ring->rows; row++) {
    memcpy((char *)ring->here + row * bytes, qkv + (3 * row + 1) * ring->features * element, bytes);
  }
}

/* Sends what is here to the next rank while the previous rank's arrive. */
static void pass_on(const ring_t *ring) {
  train_axis_sendrecv(ring->axis, dtype_of(ring), ring->here, train_axis_neighbour(ring->axis, 1),
                      ring->arriving, train_axis_neighbour(ring->axis, -1),
                      2 * ring->rows * ring->features);
}

static void take_arrived(ring_t *ring) {
  void *sent = ring->here;
  ring->here = ring->arriving;
  ring->arriving = sent;
}

/* This rank's queries with the keys and values of the rank that is `steps` before it: those that
 * are here, or with 0 its own. */
static train_attention_segment_t segment_of(const ring_t *ring, int steps) {
  const train_batch_t *own = &ring->slot->batch;
  const train_sizes_t *sizes = &ring->model->activations->sizes;
  train_dtype_t dtype = dtype_of(ring);
  size_t features = ring->features;
  const void *key = steps == 0 ? train_dtype_at(dtype, ring->b->qkv, features) : ring->here;
  int stride = (steps == 0 ? 3 : 2) * (int)features;
  return (train_attention_segment_t){
      .queries = *own,
      .keys =
          train_context_batch(&ring->model->options.axes, train_axis_neighbour(ring->axis, -steps),
                              own->sequences, own->length),
      .heads = (int)sizes->heads,
      .head_width = (int)(features / sizes->heads),
      .query = {ring->b->qkv, 3 * (int)features, 0},
      .key = {key, stride, 0},
      .value = {train_dtype_const_at(dtype, key, features), stride, 0}};
}

/* ---- forward ---- */

void train_context_ring_forward(const train_model_t *model, const train_slot_t *slot,
                                const block_activations_t *b) {
  const train_ops_t *ops = model->options.ops;
  float *running = model->activations->context.running;
  ring_t ring = ring_of(model, slot, b);
  int ranks = ring.axis->group.size;
  pack_own(&ring);
  for (int step = 0; step < ranks; step++) {
    const train_attention_segment_t segment = segment_of(&ring, step);
    bool last = step == ranks - 1;
    if (!last) {
      train_axis_queue(ring.axis);
      pass_on(&ring);
    }
    ops->attention_segment_forward(&model->exec, &segment, step == 0, running);
    if (last) break;
    train_axis_wait(ring.axis);
    take_arrived(&ring);
  }
  const train_attention_segment_t own = segment_of(&ring, 0);
  ops->attention_segment_finish(&model->exec, &own, running, b->attended, b->log_sums);
}

/* ---- backward ---- */

/* Gradients of keys and values, [2, rows * features], of the rank whose keys are here. */
typedef struct travel {
  float *part;              /* of this rank's queries */
  float *leaving, *arrived; /* sums of this and earlier ranks; of the ranks before this one */
} travel_t;

/* The sum moves on with its keys and values: that of the previous step leaves. */
static void pass_on_gradients(const ring_t *ring, const travel_t *travel) {
  train_axis_sendrecv(ring->axis, TRAIN_FLOAT32, travel->leaving,
                      train_axis_neighbour(ring->axis, 1), travel->arrived,
                      train_axis_neighbour(ring->axis, -1), 2 * ring->rows * ring->features);
}

static void add(float *restrict sums, const float *restrict part, size_t count) {
#pragma omp simd
  for (size_t i = 0; i < count; i++) sums[i] += part[i];
}

/* Computes this rank's part for the keys of the rank `steps` before it. */
static void compute_part(const ring_t *ring, int steps, const void *d_attended, float *part) {
  const train_model_t *model = ring->model;
  const train_context_buffers_t *buffers = &model->activations->context;
  const train_attention_segment_t segment = segment_of(ring, steps);
  size_t count = ring->rows * ring->features;
  memset(part, 0, 2 * count * sizeof *part);
  model->options.ops->attention_segment_backward(&model->exec, &segment, d_attended,
                                                 ring->b->log_sums, buffers->d_sums,
                                                 buffers->d_query, part, part + count);
}

/* The part of the keys that are here joins the sum that arrived, and leaves with the next step. */
static void join(const ring_t *ring, travel_t *travel, bool first) {
  float *sum = first ? travel->part : travel->arrived, *left = travel->leaving;
  if (!first) add(sum, travel->part, 2 * ring->rows * ring->features);
  if (first) {
    travel->part = left;
  } else {
    travel->arrived = left;
  }
  travel->leaving = sum;
}

/* The keys of all other ranks, then this rank's own. Returns the gradients of the latter. */
static const float *travel_round(ring_t *ring, const void *d_attended) {
  float *const *buffers = ring->model->activations->context.gradients;
  travel_t travel = {.part = buffers[0], .leaving = buffers[1], .arrived = buffers[2]};
  int ranks = ring->axis->group.size;
  pack_own(ring);
  pass_on(ring);
  take_arrived(ring);
  for (int step = 1; step <= ranks; step++) {
    train_axis_queue(ring->axis);
    if (step < ranks - 1) pass_on(ring);
    if (step > 1) pass_on_gradients(ring, &travel);
    compute_part(ring, step % ranks, d_attended, travel.part);
    train_axis_wait(ring->axis);
    if (step < ranks - 1) take_arrived(ring);
    join(ring, &travel, step == 1);
  }
  return travel.leaving;
}

void train_context_ring_backward(const train_model_t *model, const train_slot_t *slot,
                                 const block_activations_t *b, const void *d_attended,
                                 void *d_qkv) {
  const train_ops_t *ops = model->options.ops;
  const train_context_buffers_t *buffers = &model->activations->context;
  ring_t ring = ring_of(model, slot, b);
  const train_attention_segment_t own = segment_of(&ring, 0);
  size_t count = ring.rows * ring.features;
  memset(buffers->d_query, 0, count * sizeof(float));
  ops->attention_segment_d_sums(&model->exec, &own, b->attended, d_attended, buffers->d_sums);
  const float *d_kv = travel_round(&ring, d_attended);
  const float *const gradients[] = {buffers->d_query, d_kv, d_kv + count};
  for (size_t i = 0; i < 3; i++) {
    ops->attention_segment_store(
        &model->exec, &slot->batch, own.heads, own.head_width, gradients[i],
        train_dtype_at(model->exec.dtype, d_qkv, i * ring.features), 3 * (int)ring.features);
  }
}
