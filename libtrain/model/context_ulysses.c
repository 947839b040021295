/*
 * Ulysses. An all-to-all turns [sequences, length, parts, all heads of this tensor rank] into
 * [sequences, p * length, parts, heads / p], where ordinary attention is computed, and another one
 * turns the result back. Queries, keys and values stay as attention needs them, so that backward
 * only exchanges gradients.
 *
 * Before the all-to-all a buffer has one block per rank, after it one block of each rank, always of
 * [sequences, length, parts, features / p]. Whole sequences are these blocks with the sequences
 * outermost, so that pieces of [length, parts, features / p] are copied.
 */
#include <string.h>

#include "libtrain/model/context.h"
#include "libtrain/parallel/axis.h"

typedef struct exchange {
  train_axis_t *axis;
  train_dtype_t dtype;
  size_t ranks, sequences, length; /* of a rank */
  size_t parts;                    /* 3: queries, keys and values; 1: the result */
  size_t own;                      /* bytes of the heads of one rank in a row of a part */
} exchange_t;

static exchange_t exchange_of(const train_model_t *model, const train_slot_t *slot, size_t parts) {
  train_axis_t *axis = model->options.axes.context;
  size_t ranks = (size_t)axis->group.size;
  return (exchange_t){.axis = axis,
                      .dtype = model->exec.dtype,
                      .ranks = ranks,
                      .sequences = (size_t)slot->batch.sequences,
                      .length = (size_t)slot->batch.length,
                      .parts = parts,
                      .own = model->activations->sizes.head_features / ranks *
                             train_dtype_bytes(model->exec.dtype)};
}

static size_t block_bytes(const exchange_t *x) {
  return x->sequences * x->length * x->parts * x->own;
}

/* ---- copies ---- */

/* Copies between rows[rows, parts, ranks, own] and blocks[ranks, rows, parts, own]. */
static void copy_heads(const exchange_t *x, char *rows, char *blocks, bool to_blocks) {
  for (size_t line = 0; line < x->sequences * x->length * x->parts; line++) {
    for (size_t rank = 0; rank < x->ranks; rank++) {
      char *in_rows = rows + (line * x->ranks + rank) * x->own;
      char *in_block = blocks + rank * block_bytes(x) + line * x->own;
      memcpy(to_blocks ? in_block : in_rows, to_blocks ? in_rows : in_block, x->own);
    }
  }
}

/* Copies between whole[sequences, ranks, piece] and blocks[ranks, sequences, piece]. */
static void copy_pieces(const exchange_t *x, char *whole, char *blocks, bool to_blocks) {
  size_t piece = x->length * x->parts * x->own;
  for (size_t sequence = 0; sequence < x->sequences; sequence++) {
    for (size_t rank = 0; rank < x->ranks; rank++) {
      char *in_whole = whole + (sequence * x->ranks + rank) * piece;
      char *in_block = blocks + (rank * x->sequences + sequence) * piece;
      memcpy(to_blocks ? in_block : in_whole, to_blocks ? in_whole : in_block, piece);
    }
  }
}

/* ---- exchanges ---- */

static void exchange_blocks(const exchange_t *x, char *blocks) {
  train_axis_alltoall(x->axis, x->dtype, blocks, blocks,
                      block_bytes(x) / train_dtype_bytes(x->dtype));
}

/* From some positions of all heads to all positions of some heads. */
static void scatter_heads(const exchange_t *x, const void *rows, void *blocks, void *whole) {
  copy_heads(x, (char *)rows, blocks, true);
  exchange_blocks(x, blocks);
  copy_pieces(x, whole, blocks, false);
}

/* Back. */
static void gather_heads(const exchange_t *x, const void *whole, void *blocks, void *rows) {
  copy_pieces(x, (char *)whole, blocks, true);
  exchange_blocks(x, blocks);
  copy_heads(x, rows, blocks, false);
}

/* ---- attention ---- */

/* Whole sequences. */
static train_batch_t whole_batch(const exchange_t *x) {
  return (train_batch_t){.sequences = (int)x->sequences, .length = (int)(x->ranks * x->length)};
}

static int own_heads(const train_model_t *model, const exchange_t *x) {
  return (int)(model->activations->sizes.heads / x->ranks);
}

static int own_features(const train_model_t *model, const exchange_t *x) {
  return (int)(model->activations->sizes.head_features / x->ranks);
}

void train_context_ulysses_forward(const train_model_t *model, const train_slot_t *slot,
                                   const block_activations_t *b) {
  void *const *moving = model->activations->context.moving;
  const exchange_t qkv = exchange_of(model, slot, 3), result = exchange_of(model, slot, 1);
  const train_batch_t batch = whole_batch(&qkv);
  scatter_heads(&qkv, moving[0], moving[1], b->qkv);
  model->options.ops->attention_forward(&model->exec, &batch, b->qkv, own_heads(model, &qkv),
                                        own_features(model, &qkv), b->exchanged, b->log_sums);
  gather_heads(&result, b->exchanged, moving[0], b->attended);
}

void train_context_ulysses_backward(const train_model_t *model, const train_slot_t *slot,
                                    const block_activations_t *b, const void *d_attended,
                                    void *d_qkv) {
  void *const *moving = model->activations->context.moving;
  const exchange_t qkv = exchange_of(model, slot, 3), result = exchange_of(model, slot, 1);
  const train_batch_t batch = whole_batch(&qkv);
  scatter_heads(&result, d_attended, moving[0], moving[1]);
  model->options.ops->attention_backward(&model->exec, &batch, moving[1], b->qkv, b->exchanged,
                                         b->log_sums, own_heads(model, &qkv),
                                         own_features(model, &qkv), moving[0]);
  gather_heads(&qkv, moving[0], moving[1], d_qkv);
}
