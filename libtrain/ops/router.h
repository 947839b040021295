/*
 * The router of a mixture of experts: chooses one expert (Switch Transformer, Fedus et al. 2021) or
 * two (GShard, Lepikhin et al. 2020) for each row, and gives each choice that is kept a slot in
 * arrays whose rows are sorted by expert (experts.h).
 *
 * logits = in * gate^T and what follows from them are float32 whatever the element type. A choice
 * is weighted by its probability with one choice per row, and with two by its share of the sum of
 * both probabilities, as GShard does also where one of them is dropped. GShard's random omission of
 * second choices is not done. Equal logits choose the lower expert.
 *
 * Everything that is counted is counted per sequence, so that it does not matter which rank has
 * which sequence. An expert accepts capacity = ceil(capacity_factor * top_k * length / experts)
 * choices of a sequence: first choices in order of position, then second choices in order of
 * position. Others are dropped. The balance loss of a sequence is experts * sum over experts of f *
 * P, where f is the share of rows whose first choice is the expert, dropped or not, and P the mean
 * of its probability (Fedus et al. 2021, equation 4). The z loss of a row is the square of the
 * logarithm of its softmax's sum (ST-MoE, Zoph et al. 2022, equation 5).
 *
 * Where the rows of a sequence are on several ranks, only counts of choices have to be completed:
 * the losses are sums over rows with completed counts as factors, so their local parts add up.
 */
#ifndef LIBTRAIN_OPS_ROUTER_H
#define LIBTRAIN_OPS_ROUTER_H

#include "libtrain/ops/ops.h"

#define TRAIN_TOP_K_MAX 2
#define TRAIN_ROUTE_SUMS 3

/* Choices that do not follow from the logits, but from another run: two runs whose logits differ by
 * rounding then differ by rounding only, where otherwise a row may go to another expert. Capacity
 * and losses follow from the choices; probabilities are always those of the logits. */
typedef struct train_router_replay {
  /* May replace choices[rows, top_k], which are of the largest logits; those of a row must differ.
   * `layer` is the router's. Called in the calling thread, once per forward pass. */
  void (*choose)(void *context, int layer, const train_batch_t *batch, int32_t *choices);
  void *context;
} train_router_replay_t;

typedef struct train_router {
  int width, experts;
  int top_k;              /* choices of a row: 1 or 2, at most `experts` */
  double capacity_factor; /* 0: no choice is dropped */
  float balance, z;       /* factors of the two losses */
  int segments; /* parts of consecutive positions, of equal length, of which the rows of a sequence
                 * consist here, in order of position: 1 if the sequence is whole */
  int align;    /* the first slot of each expert is a multiple of it */
  int part,
      parts; /* only rows of that part get slots, where the rows are divided into `parts` equal
              * parts, the last ones fewer; 0 parts: all rows. Everything else is of all rows */
  const train_router_replay_t *replay; /* NULL: the largest logits are chosen */
  int layer;                           /* for `replay` */
} train_router_t;

/* Counts of choices. `own` has those of the rows here; completing them fills the others. */
typedef struct train_router_counts {
  int sequences, segments, top_k, experts;
  const int32_t *own; /* [sequences, segments, top_k, experts] */
  int32_t *before; /* the same shape: choices of the same rank among the top_k, of the same expert,
                    * at the positions of the sequence before the segment */
  int32_t *totals; /* [sequences, top_k, experts]: choices of the whole sequence */
} train_router_counts_t;

/* Called in the calling thread, once per forward pass. */
typedef void train_router_complete_t(void *context, const train_router_counts_t *counts);

/* What the forward pass decides, for the backward pass and for the operators of experts.h. rows =
 * sequences * length of the batch. The arrays belong to the caller. */
typedef struct train_route {
  float *probabilities;  /* [rows, experts] */
  float *log_sums;       /* [rows]: logarithms of softmax sums */
  int32_t *choices;      /* [rows, top_k]: experts */
  float *weights;        /* [rows, top_k] */
  int32_t *slots;        /* [rows, top_k]; -1: dropped, or of a row of another part */
  int32_t *own, *before; /* [sequences, segments, top_k, experts]; `before` is used as a scratch */
  int32_t *totals;       /* [sequences, top_k, experts] */
  int32_t *kept;         /* [sequences, experts]: scratch */
  double *sums;          /* [sequences, TRAIN_ROUTE_SUMS]: scratch */
  int32_t *starts;       /* [experts + 1]: first slot of each expert; the last is the end */
  int32_t *counts;       /* [experts]: slots in use of each expert, from its first on */
} train_route_t;

/* Sums over the rows here. */
typedef struct train_router_result {
  double balance;        /* the balance loss of each sequence, times its length */
  double z;              /* the z loss of each row */
  int64_t kept, dropped; /* choices */
} train_router_result_t;

/* The choices of a sequence that an expert accepts; `length` if nothing is dropped. */
int train_router_capacity(const train_router_t *router, int length);

/* The most rows of a part of `rows` rows. */
int train_router_part_rows(const train_router_t *router, int rows);

/* An upper bound of starts[experts], for `rows` rows that are parts of `sequences` sequences of
 * `length` positions each. */
size_t train_router_slots(const train_router_t *router, int sequences, int rows, int length);

/* Floats of exec->scratch that the backward pass uses. */
size_t train_router_scratch(const train_router_t *router, int rows, train_dtype_t dtype);

/* in[rows, width], gate[experts, width]. `complete` may be NULL: every sequence is whole. */
train_router_result_t train_router_forward(const train_exec_t *exec, const train_router_t *router,
                                           const train_batch_t *batch, const void *in,
                                           const void *gate, train_router_complete_t *complete,
                                           void *context, const train_route_t *route);

/* d_weights[rows, top_k] are the gradients of `weights`, 0 for dropped choices. Adds to d_in the
 * gradient of what used the weights and of scale * (router->balance * balance + router->z * z), and
 * computes d_gate[experts, width]. d_in may be NULL. If d_gate is NULL, `in` may be, too, and
 * route->probabilities become the gradients of the logits, for train_router_backward_weight. */
void train_router_backward(const train_exec_t *exec, const train_router_t *router,
                           const train_batch_t *batch, const train_route_t *route, const void *in,
                           const void *gate, const float *d_weights, float scale, bool overwrite,
                           void *d_in, float *d_gate);

/* Computes d_gate after the above. */
void train_router_backward_weight(const train_exec_t *exec, const train_router_t *router,
                                  const train_batch_t *batch, const train_route_t *route,
                                  const void *in, bool overwrite, float *d_gate);

#endif
