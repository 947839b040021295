/*
 * The mixture of experts of a block: each row passes through the one or two experts that the router
 * chooses, which are MLPs like a dense block's. What they return is added to the residual stream;
 * a shared expert, if there is one, is the block's dense MLP (DeepSeekMoE, Dai et al. 2024).
 *
 * Experts may be divided among the ranks of an axis (GShard, Lepikhin et al. 2020): every rank
 * routes its own rows, sends each row to the ranks that have its experts, and gets the results back
 * (model/expert_exchange.h). Their hidden layers may also be cut over the tensor ranks, as those of
 * a dense MLP: all tensor ranks route alike, and each returns a part of the result, to be summed.
 * Or experts are whole on each tensor rank: then each gives slots to its part of the rows only
 * (router.h), its result is zero for the others, and the same sums make the result complete.
 * Where sequences are cut over the context ranks, these complete the counts of choices.
 */
#ifndef LIBTRAIN_MODEL_EXPERTS_H
#define LIBTRAIN_MODEL_EXPERTS_H

#include "libtrain/ops/experts.h"

struct train_axis;

/* What forward stores for backward. */
typedef struct train_experts_activations {
  train_route_t route;
  int32_t *arrived;      /* [expert ranks, own experts]: rows from each rank; NULL if all experts
                          * are here */
  int32_t *starts;       /* [own experts + 1]: rows of own experts, as in train_expert_rows_t; */
  int32_t *counts;       /* the route's if all experts are here */
  void *sorted;          /* [expert_slots, width]: inputs of own experts, sorted by expert */
  void *hidden, *active; /* [expert_slots, hidden_width]: before and after the GELU */
  void *returned;        /* [slots, width]: results for own rows, in the slots of the route. Between
                          * the two parts of a split backward pass it has the gradients of own
                          * experts' results [expert_slots, width], and `hidden` its own ones */
} train_experts_activations_t;

/* What the passes use while they run; blocks share it. */
typedef struct train_experts_buffers {
  void *d_sorted;    /* [expert_slots, width] */
  void *d_hidden;    /* [expert_slots, hidden_width] */
  float *d_weights;  /* [rows, top_k] */
  void *own;         /* [slots, width]: rows to send, gradients of own rows; between
                      * train_experts_backward and train_experts_input_backward it must not
                      * change */
  void *staged;      /* [expert_slots, width]: rows in the order in which they arrive; NULL if all
                      * experts are here */
  size_t *exchanged; /* [4, expert ranks]: counts and offsets of an exchange; NULL likewise */
} train_experts_buffers_t;

/* Sizes on this rank, at most. */
typedef struct train_experts_sizes {
  int rows, sequences; /* own rows, of that many sequences */
  int length;          /* of a whole sequence */
  int expert_ranks, context_ranks;
  int hidden_width; /* of this tensor rank's experts */
  train_dtype_t dtype;
  bool training;
  bool splits; /* backward passes come in two parts (model.h) */
} train_experts_sizes_t;

/* A layer in use. Its router has align 1 if expert_ranks > 1, otherwise TRAIN_EXPERT_ALIGN. */
typedef struct train_experts {
  const train_exec_t *exec;
  train_router_t router; /* of all experts */
  train_batch_t batch;   /* own rows */
  int hidden_width;
  bool first_tensor_rank;                        /* which adds the router's gradient of `in` */
  struct train_axis *experts, *context, *tensor; /* NULL: not cut */
  const void *gate;
  const void *hidden_weight, *hidden_bias, *output_weight; /* of own experts */
  const void *output_bias; /* NULL where another tensor rank adds it */
  float *d_hidden_weight, *d_hidden_bias, *d_output_weight, *d_output_bias;
} train_experts_t;

train_router_t train_experts_router(const train_router_t *router, int expert_ranks);

/* Bytes of activations or buffers of a layer with that router. If `memory`, aligned to a cache
 * line, is not NULL, assigns the arrays in it. Routes and other activations are separate, since
 * recomputation repeats only the latter. */
size_t train_experts_carve_route(const train_router_t *router, const train_experts_sizes_t *sizes,
                                 void *memory, train_experts_activations_t *activations);
size_t train_experts_carve(const train_router_t *router, const train_experts_sizes_t *sizes,
                           void *memory, train_experts_activations_t *activations);
size_t train_experts_carve_buffers(const train_router_t *router, const train_experts_sizes_t *sizes,
                                   void *memory, train_experts_buffers_t *buffers);

/* Floats of exec->scratch that the layer uses. */
size_t train_experts_scratch(const train_router_t *router, const train_experts_sizes_t *sizes);

/* Chooses experts for in[rows, width], and counts the rows that go to each. */
train_router_result_t train_experts_route(const train_experts_t *layer, const void *in,
                                          const train_experts_activations_t *activations);

/* Computes activations->returned. */
void train_experts_forward(const train_experts_t *layer, const void *in,
                           const train_experts_activations_t *activations,
                           const train_experts_buffers_t *buffers);

/* out[rows, width] = residual + the weighted results, or this tensor rank's part of them. residual
 * may be NULL. */
void train_experts_combine_forward(const train_experts_t *layer,
                                   const train_experts_activations_t *activations,
                                   const void *residual, void *out);

/* The first half of a backward pass, with the parameters of experts and their gradients: from
 * d_out[rows, width] to buffers->own and buffers->d_weights. If the gradients are NULL, keeps in
 * the activations what train_experts_backward_weight needs to compute them. */
void train_experts_backward(const train_experts_t *layer, const void *d_out, bool overwrite,
                            const train_experts_activations_t *activations,
                            const train_experts_buffers_t *buffers);

/* The second half, with the gate: d_in[rows, width], or this tensor rank's part of it, is
 * overwritten, or added to if `add`. Includes the gradients of scale * (balance and z losses of the
 * router's result with their factors). */
void train_experts_input_backward(const train_experts_t *layer, const void *in, float scale,
                                  bool overwrite, const train_experts_activations_t *activations,
                                  const train_experts_buffers_t *buffers, bool add, void *d_in,
                                  float *d_gate);

/* The gradients of experts and of the gate, after the above were called without them: `in` and
 * d_gate NULL there. Need no parameters. */
void train_experts_backward_weight(const train_experts_t *layer, bool overwrite,
                                   const train_experts_activations_t *activations);
void train_experts_gate_backward_weight(const train_experts_t *layer, const void *in,
                                        bool overwrite,
                                        const train_experts_activations_t *activations,
                                        float *d_gate);

#endif
