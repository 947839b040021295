/* The arrays of a forward and a backward pass. */
#ifndef LIBTRAIN_MODEL_ACTIVATIONS_H
#define LIBTRAIN_MODEL_ACTIVATIONS_H

#include "base/status.h"
#include "libtrain/model/experts.h"
#include "libtrain/model/layout.h"
#include "libtrain/model/model_options.h"

/* The sizes of arrays on this rank. */
typedef struct train_sizes {
  size_t rows;          /* maximum of a pass */
  size_t stream_rows;   /* of the residual stream: fewer with sequence parallelism */
  size_t sequence_rows; /* of whole sequences: more than rows with slices */
  size_t width;         /* of the residual stream */
  int tensor_ranks;
  size_t heads, head_features, hidden; /* of this tensor rank: heads, all their columns, and those
                                        * of the MLP's hidden layer */
  size_t expert_hidden;                /* columns of an expert's hidden layer here */
  size_t tokens;                       /* rows of the token table */
  int layers, first_layer;             /* of the chunk */
  int length;                          /* of a sequence's part on this rank */
  bool exchanges_heads;                /* attention is Ulysses */
} train_sizes_t;

/* The router of blocks with experts. */
train_router_t train_router_of(const train_layout_t *layout, const train_model_options_t *options);

train_sizes_t train_sizes_of(const train_layout_t *layout, const train_model_options_t *options);

/* The activations that a block's forward pass stores for its backward pass. Activations that are
 * recomputed, or not needed again, share one buffer among all blocks. Void pointers have the
 * element type of activations, here and below. */
typedef struct block_activations {
  void *normed1;         /* [stream_rows, width] */
  float *mean1, *rstd1;  /* [stream_rows] */
  void *qkv;             /* [rows, 3 * head_features] */
  void *attended;        /* [rows, head_features] */
  float *log_sums;       /* [rows, heads] */
  void *exchanged;       /* [rows, head_features]: attended, in the order of qkv; only with Ulysses,
                          * where these two and log_sums have all positions of some heads */
  void *mid_stream;      /* [stream_rows, width]: the residual stream between attention and MLP */
  void *normed2;         /* [stream_rows, width] */
  float *mean2, *rstd2;  /* [stream_rows] */
  void *hidden, *active; /* [rows, hidden]: before and after the GELU */
  void *out;             /* [stream_rows, width]: the residual stream after the block */
  train_experts_activations_t experts; /* of a block with experts; its hidden and active belong to
                                        * the shared expert */
  float *d_norm1, *d_norm2; /* [2, width]: gradients of the layernorms' weight and bias; NULL unless
                             * the block's backward pass is split. Its other results take the places
                             * of arrays of their size: out, mid_stream, hidden and qkv contain
                             * their own gradients between the two parts, and a router's
                             * probabilities those of its logits */
} block_activations_t;

/* A micro-batch in flight, or one slice of it: those of a micro-batch follow each other. */
typedef struct train_slot {
  train_batch_t batch; /* of the latest forward pass */
  int slice;           /* 0 without slices */
  bool drops;          /* experts may drop choices: false where a sequence is extended */
  int32_t *tokens;     /* [rows]: its input */
  void *embedded;      /* [stream_rows, width]: the residual stream before the first block, and its
                        * gradient between the parts of a split backward pass */
  block_activations_t *blocks; /* [layers] */
} train_slot_t;

/* What attention needs to send and receive with context ranks. The second and third line share
 * memory: forward passes need the former, backward passes the latter. */
typedef struct train_context_buffers {
  void *moving[2]; /* ring: [rows, 2 * head_features], both in d_wide unless forward_only;
                    * Ulysses: [rows, 3 * head_features], the first in d_wide */
  float *running;  /* ring: train_attention_running_floats */
  float *gradients[3], *d_query, *d_sums; /* ring: [2, rows * head_features] each,
                                           * [rows, head_features], [rows, heads] */
} train_context_buffers_t;

/* What attention needs for slices. Forward passes need `running`; d_query and d_sums, of backward
 * passes, share its memory. */
typedef struct train_slice_buffers {
  float *running;          /* train_attention_running_floats */
  float *d_query, *d_sums; /* [rows, head_features], [rows, heads] */
  float *d_keys;           /* [layers, 2, sequence_rows * head_features]: of keys and values */
} train_slice_buffers_t;

typedef struct train_activations {
  train_sizes_t sizes;
  train_slot_t *slots;
  int slot_count;           /* micro-batches times slices */
  void *normed;             /* [stream_rows, width]: the final layernorm's output */
  float *mean, *rstd;       /* [stream_rows] */
  void *d_stream;           /* [stream_rows, width] */
  void *d_narrow;           /* [rows, width] */
  void *d_wide;             /* [rows, hidden] */
  void *gathered, *partial; /* [rows, width]: with sequence parallelism, the rows of all ranks, and
                             * a result before it is reduced, which is also d_narrow */
  train_context_buffers_t context; /* only with context ranks */
  train_slice_buffers_t slices;    /* only with slices */
  train_experts_buffers_t experts; /* if blocks have experts */
  void *combined; /* [rows, width]: results of experts, before they are summed over the
                   * tensor ranks */
  float *scratch; /* for the operators */
  void *arena;    /* contains all arrays above except tokens */
  block_activations_t *all_blocks; /* [slots, layers] */
  int32_t *all_tokens;             /* [slots, rows of each] */
} train_activations_t;

coll_status_t train_activations_create(const train_layout_t *layout,
                                       const train_model_options_t *options,
                                       train_activations_t **activations);
void train_activations_destroy(train_activations_t *activations);

/* Bytes of the arena, which are whole huge pages. */
size_t train_activations_bytes(const train_layout_t *layout, const train_model_options_t *options);

#endif
