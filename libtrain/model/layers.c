/* Operators over a rank's cut of the tensors, and the collectives that complete them. */
#include "libtrain/model/layers.h"

#include <stdint.h>
#include <string.h>

#include "libtrain/parallel/axis.h"

static train_axis_t *tensor_axis(const train_model_t *model) {
  return model->layout->part.tensor_ranks > 1 ? model->options.axes.tensor : NULL;
}

static bool is_cut_by_rows(const train_model_t *model) {
  return model->options.axes.sequence_parallel;
}

static size_t width_of(const train_model_t *model) {
  return (size_t)model->layout->config.width;
}

int train_stream_rows(const train_model_t *model, const train_slot_t *slot) {
  int rows = train_batch_rows(&slot->batch);
  return model->options.axes.sequence_parallel ? rows / model->layout->part.tensor_ranks : rows;
}

const void *train_layers_gather(const train_model_t *model, const train_slot_t *slot,
                                const void *stream) {
  void *gathered = model->activations->gathered;
  if (!model->options.axes.sequence_parallel) return stream;
  train_axis_allgather(tensor_axis(model), model->exec.dtype, stream, gathered,
                       (size_t)train_stream_rows(model, slot) * width_of(model));
  return gathered;
}

void *train_layers_partial(const train_model_t *model, void *stream) {
  return model->options.axes.sequence_parallel ? model->activations->partial : stream;
}

/* The sums of some rows of each tensor rank, which are next to each other. */
static void *reduce_rows(const train_model_t *model, int rows, void *partial, void *own) {
  train_axis_t *axis = tensor_axis(model);
  size_t count = (size_t)rows * width_of(model);
  if (axis == NULL) return partial;
  if (!model->options.axes.sequence_parallel) {
    train_axis_allreduce(axis, model->exec.dtype, partial, count);
    return partial;
  }
  train_axis_reduce_scatter(axis, model->exec.dtype, partial, own, count);
  return own;
}

void *train_layers_reduce(const train_model_t *model, const train_slot_t *slot, void *partial,
                          void *own) {
  return reduce_rows(model, train_stream_rows(model, slot), partial, own);
}

void train_layernorm_forward(const train_model_t *model, const train_slot_t *slot,
                             const train_unit_view_t *unit, int weight, const void *in, void *out,
                             float *mean, float *rstd) {
  model->options.ops->layernorm_forward(
      &model->exec, in, unit_parameter(unit, weight), unit_parameter(unit, weight + 1),
      train_stream_rows(model, slot), (int)width_of(model), out, mean, rstd);
}

void train_layernorm_backward(const train_model_t *model, const train_slot_t *slot,
                              const train_unit_view_t *unit, int weight, const void *d_out,
                              const void *in, const float *mean, const float *rstd, bool first,
                              float *kept) {
  bool open = unit->gradients != NULL;
  model->options.ops->layernorm_backward(
      &model->exec, d_out, in, unit_parameter(unit, weight), mean, rstd,
      train_stream_rows(model, slot), (int)width_of(model), first, !open || unit->overwrite,
      model->activations->d_stream, open ? unit_gradient(unit, weight) : kept,
      open ? unit_gradient(unit, weight + 1) : kept + width_of(model));
}

void train_layers_keep(const train_model_t *model, const train_unit_view_t *unit, int rows,
                       size_t columns, const void *gradient, void *place) {
  if (unit->gradients != NULL) return;
  memcpy(place, gradient, (size_t)rows * columns * train_dtype_bytes(model->exec.dtype));
}

void train_layers_keep_stream(const train_model_t *model, const train_slot_t *slot,
                              const train_unit_view_t *unit, void *place) {
  train_layers_keep(model, unit, train_stream_rows(model, slot), width_of(model),
                    model->activations->d_stream, place);
}

static void add_vector(const float *values, size_t count, bool overwrite, float *sums) {
  for (size_t i = 0; i < count; i++) sums[i] = overwrite ? values[i] : sums[i] + values[i];
}

void train_layernorm_backward_weight(const train_model_t *model, const train_unit_view_t *unit,
                                     int weight, const float *kept) {
  size_t width = width_of(model);
  add_vector(kept, width, unit->overwrite, unit_gradient(unit, weight));
  add_vector(kept + width, width, unit->overwrite, unit_gradient(unit, weight + 1));
}

static train_linear_t linear_of(const train_unit_view_t *unit, int weight) {
  const train_tensor_t *tensor = &unit->tensors[weight];
  return (train_linear_t){.in_width = tensor->columns, .out_width = tensor->rows};
}

/* ---- chunks of rows ----
 * A chunk has the same rows of each block: with sequence parallelism, of the rows of each tensor
 * rank, otherwise of all rows. Where a chunk is sent, its blocks are next to each other. */

#define CHUNK_ROWS 16 /* a multiple of it, so that products have whole tiles */

typedef struct chunks {
  int blocks, block_rows;
  int rows, count; /* of each block in a chunk, except the last; chunks */
} chunks_t;

typedef struct chunk {
  int first, rows; /* in each block */
} chunk_t;

static chunks_t chunks_of(const train_model_t *model, const train_slot_t *slot) {
  int wanted = model->options.axes.tensor_overlap;
  chunks_t chunks = {
      .blocks = is_cut_by_rows(model) ? model->layout->part.tensor_ranks : 1,
      .block_rows = train_stream_rows(model, slot),
  };
  chunks.rows = (chunks.block_rows + wanted - 1) / wanted;
  chunks.rows = (chunks.rows + CHUNK_ROWS - 1) / CHUNK_ROWS * CHUNK_ROWS;
  chunks.count = (chunks.block_rows + chunks.rows - 1) / chunks.rows;
  return chunks;
}

static chunk_t chunk_at(const chunks_t *chunks, int index) {
  chunk_t chunk = {.first = index * chunks->rows, .rows = chunks->rows};
  if (index == chunks->count - 1) chunk.rows = chunks->block_rows - chunk.first;
  return chunk;
}

/* A row of an array of activations; NULL of none. */
static void *row_at(const train_model_t *model, const void *rows, int row, int width) {
  if (rows == NULL) return NULL;
  return train_dtype_at(model->exec.dtype, (void *)(uintptr_t)rows, (size_t)row * (size_t)width);
}

/* The rows of a block of a chunk: in an array of all rows, and where the chunk is sent. */
static int row_of(const chunks_t *chunks, const chunk_t *chunk, int block) {
  return block * chunks->block_rows + chunk->first;
}

static int sent_row_of(const chunks_t *chunks, const chunk_t *chunk, int block) {
  return chunks->blocks * chunk->first + block * chunk->rows;
}

/* ---- column-parallel layers ---- */

static void column_forward(const train_model_t *model, const train_unit_view_t *unit, int weight,
                           const void *in, int rows, void *out, void *active) {
  const train_linear_t linear = linear_of(unit, weight);
  model->options.ops->linear_forward(&model->exec, &linear, in, rows, unit_parameter(unit, weight),
                                     unit_parameter(unit, weight + 1), NULL, out, active);
}

void train_column_linear_whole_forward(const train_model_t *model, const train_slot_t *slot,
                                       const train_unit_view_t *unit, int weight, const void *in,
                                       void *out, void *active) {
  column_forward(model, unit, weight, in, train_batch_rows(&slot->batch), out, active);
}

static void gather_chunk(const train_model_t *model, const chunks_t *chunks, int index,
                         const void *stream) {
  const chunk_t chunk = chunk_at(chunks, index);
  int width = (int)width_of(model);
  void *gathered =
      row_at(model, model->activations->gathered, sent_row_of(chunks, &chunk, 0), width);
  train_axis_allgather(tensor_axis(model), model->exec.dtype,
                       row_at(model, stream, chunk.first, width), gathered,
                       (size_t)chunk.rows * (size_t)width);
}

static void column_forward_chunk(const train_model_t *model, const train_unit_view_t *unit,
                                 int weight, const chunks_t *chunks, int index, void *out,
                                 void *active) {
  const chunk_t chunk = chunk_at(chunks, index);
  const train_linear_t linear = linear_of(unit, weight);
  for (int block = 0; block < chunks->blocks; block++) {
    int row = row_of(chunks, &chunk, block), sent_row = sent_row_of(chunks, &chunk, block);
    column_forward(model, unit, weight,
                   row_at(model, model->activations->gathered, sent_row, linear.in_width),
                   chunk.rows, row_at(model, out, row, linear.out_width),
                   row_at(model, active, row, linear.out_width));
  }
}

/* The next chunk is gathered while one is multiplied. */
static void column_forward_chunks(const train_model_t *model, const train_slot_t *slot,
                                  const train_unit_view_t *unit, int weight, const void *stream,
                                  void *out, void *active) {
  const chunks_t chunks = chunks_of(model, slot);
  train_axis_t *axis = tensor_axis(model);
  gather_chunk(model, &chunks, 0, stream);
  for (int i = 0; i < chunks.count; i++) {
    if (i + 1 < chunks.count) {
      train_axis_queue(axis);
      gather_chunk(model, &chunks, i + 1, stream);
    }
    column_forward_chunk(model, unit, weight, &chunks, i, out, active);
    train_axis_wait(axis);
  }
}

void train_column_linear_forward(const train_model_t *model, const train_slot_t *slot,
                                 const train_unit_view_t *unit, int weight, const void *stream,
                                 void *out, void *active) {
  if (is_cut_by_rows(model) && model->options.axes.tensor_overlap > 1) {
    column_forward_chunks(model, slot, unit, weight, stream, out, active);
    return;
  }
  train_column_linear_whole_forward(model, slot, unit, weight,
                                    train_layers_gather(model, slot, stream), out, active);
}

static void linear_backward(const train_model_t *model, const train_slot_t *slot,
                            const train_unit_view_t *unit, int weight, const void *d_out,
                            const void *in, const void *hidden, void *d_in) {
  const train_linear_t linear = linear_of(unit, weight);
  const void *values = d_in != NULL ? unit_parameter(unit, weight) : NULL;
  bool open = unit->gradients != NULL;
  model->options.ops->linear_backward(
      &model->exec, &linear, d_out, in, train_batch_rows(&slot->batch), values, hidden,
      unit->overwrite, d_in, open ? unit_gradient(unit, weight) : NULL,
      open ? unit_gradient(unit, weight + 1) : NULL);
}

void train_column_linear_partial_backward(const train_model_t *model, const train_slot_t *slot,
                                          const train_unit_view_t *unit, int weight,
                                          const void *d_out, const void *in, void *d_in) {
  linear_backward(model, slot, unit, weight, d_out, in, NULL, d_in);
}

/* The gradient of the weight, or of the input, alone. */
static void weight_backward(const train_model_t *model, const train_slot_t *slot,
                            const train_unit_view_t *unit, int weight, const void *d_out,
                            const void *in) {
  linear_backward(model, slot, unit, weight, d_out, in, NULL, NULL);
}

static void input_backward(const train_model_t *model, const train_slot_t *slot,
                           const train_unit_view_t *unit, int weight, const void *d_out,
                           void *d_in) {
  train_unit_view_t parameters = *unit;
  parameters.gradients = NULL;
  linear_backward(model, slot, &parameters, weight, d_out, NULL, NULL, d_in);
}

/* Rows are gathered for the gradient of the weight during the product for the gradient of the
 * input, which is summed during the other product. The sums are left in place: the gathered rows
 * are still read. */
static const void *column_backward_overlapped(const train_model_t *model, const train_slot_t *slot,
                                              const train_unit_view_t *unit, int weight,
                                              const void *d_out, const void *in) {
  train_axis_t *axis = tensor_axis(model);
  void *d_in = model->activations->d_narrow, *sums = d_in;
  if (is_cut_by_rows(model)) {
    int row = axis->group.rank * train_stream_rows(model, slot);
    sums = row_at(model, d_in, row, (int)width_of(model));
    train_axis_queue(axis);
  }
  in = train_layers_gather(model, slot, in);
  input_backward(model, slot, unit, weight, d_out, d_in);
  train_axis_wait(axis);
  train_axis_queue(axis);
  train_layers_reduce(model, slot, d_in, sums);
  weight_backward(model, slot, unit, weight, d_out, in);
  train_axis_wait(axis);
  return sums;
}

const void *train_column_linear_backward(const train_model_t *model, const train_slot_t *slot,
                                         const train_unit_view_t *unit, int weight,
                                         const void *d_out, const void *in) {
  void *d_in = model->activations->d_narrow;
  bool overlaps = tensor_axis(model) != NULL && model->options.axes.tensor_overlap > 0;
  if (overlaps && unit->gradients != NULL) {
    return column_backward_overlapped(model, slot, unit, weight, d_out, in);
  }
  if (unit->gradients != NULL) in = train_layers_gather(model, slot, in);
  linear_backward(model, slot, unit, weight, d_out, in, NULL, d_in);
  return train_layers_reduce(model, slot, d_in, model->activations->gathered);
}

/* ---- row-parallel layers ---- */

static void row_forward(const train_model_t *model, const train_unit_view_t *unit, int weight,
                        const void *in, int rows, const void *bias, const void *residual,
                        void *out) {
  const train_linear_t linear = linear_of(unit, weight);
  model->options.ops->linear_forward(&model->exec, &linear, in, rows, unit_parameter(unit, weight),
                                     bias, residual, out, NULL);
}

/* A part of the rows of a chunk, where they are sent. */
static void row_forward_chunk(const train_model_t *model, const train_unit_view_t *unit, int weight,
                              const chunks_t *chunks, const chunk_t *chunk, const void *in,
                              void *partial) {
  const train_linear_t linear = linear_of(unit, weight);
  for (int block = 0; block < chunks->blocks; block++) {
    int row = row_of(chunks, chunk, block), sent_row = sent_row_of(chunks, chunk, block);
    row_forward(model, unit, weight, row_at(model, in, row, linear.in_width), chunk->rows, NULL,
                NULL, row_at(model, partial, sent_row, linear.out_width));
  }
}

/* A chunk is summed while the next ones are multiplied. */
static const void *row_forward_chunks(const train_model_t *model, const train_slot_t *slot,
                                      const train_unit_view_t *unit, int weight, const void *in,
                                      void *partial, void *own) {
  const chunks_t chunks = chunks_of(model, slot);
  int width = (int)width_of(model);
  const void *sums = NULL;
  train_axis_queue(tensor_axis(model));
  for (int i = 0; i < chunks.count; i++) {
    const chunk_t chunk = chunk_at(&chunks, i);
    void *sent = row_at(model, partial, sent_row_of(&chunks, &chunk, 0), width);
    row_forward_chunk(model, unit, weight, &chunks, &chunk, in, partial);
    const void *rows = reduce_rows(model, chunk.rows, sent, row_at(model, own, chunk.first, width));
    if (i == 0) sums = rows;
  }
  train_axis_wait(tensor_axis(model));
  return sums;
}

/* Without tensor ranks bias and residual are added in the product's epilogue. */
void train_row_linear_forward(const train_model_t *model, const train_slot_t *slot,
                              const train_unit_view_t *unit, int weight, const void *in,
                              const void *residual, void *stream) {
  const void *bias = unit_parameter(unit, weight + 1), *sums;
  int rows = train_batch_rows(&slot->batch);
  if (tensor_axis(model) == NULL) {
    row_forward(model, unit, weight, in, rows, bias, residual, stream);
    return;
  }
  void *partial = train_layers_partial(model, stream);
  if (model->options.axes.tensor_overlap > 1) {
    sums = row_forward_chunks(model, slot, unit, weight, in, partial, stream);
  } else {
    row_forward(model, unit, weight, in, rows, NULL, NULL, partial);
    sums = train_layers_reduce(model, slot, partial, stream);
  }
  model->options.ops->bias_residual(&model->exec, sums, bias, residual,
                                    train_stream_rows(model, slot), (int)width_of(model), stream);
}

void train_row_linear_backward(const train_model_t *model, const train_slot_t *slot,
                               const train_unit_view_t *unit, int weight, const void *in,
                               const void *hidden, void *d_in) {
  const void *d_out = train_layers_gather(model, slot, model->activations->d_stream);
  linear_backward(model, slot, unit, weight, d_out, in, hidden, d_in);
}

void train_column_linear_backward_weight(const train_model_t *model, const train_slot_t *slot,
                                         const train_unit_view_t *unit, int weight,
                                         const void *d_out, const void *in) {
  weight_backward(model, slot, unit, weight, d_out, train_layers_gather(model, slot, in));
}

void train_row_linear_backward_weight(const train_model_t *model, const train_slot_t *slot,
                                      const train_unit_view_t *unit, int weight, const void *d_out,
                                      const void *in) {
  weight_backward(model, slot, unit, weight, train_layers_gather(model, slot, d_out), in);
}
