/*
 * Arrays, and the passes over the operators. Where all experts are here, the slots of the route are
 * those of the experts, and nothing is exchanged.
 */
#include "libtrain/model/experts.h"

#include <string.h>

#include "base/alloc.h"
#include "libtrain/model/expert_exchange.h"
#include "libtrain/parallel/axis.h"

/* ---- sizes ---- */

train_router_t train_experts_router(const train_router_t *router, int expert_ranks) {
  train_router_t result = *router;
  result.align = expert_ranks > 1 ? 1 : TRAIN_EXPERT_ALIGN;
  return result;
}

static size_t slots_of(const train_router_t *router, const train_experts_sizes_t *sizes) {
  return train_router_slots(router, sizes->sequences, sizes->rows, sizes->length);
}

/* Slots of own experts for the rows of all expert ranks. */
static size_t expert_slots_of(const train_router_t *router, const train_experts_sizes_t *sizes) {
  int ranks = sizes->expert_ranks, rows = ranks * train_router_part_rows(router, sizes->rows);
  train_router_t own = *router;
  if (ranks <= 1) return slots_of(router, sizes);
  own.parts = 0;
  own.experts = router->experts / ranks;
  own.top_k = router->top_k < own.experts ? router->top_k : own.experts;
  own.align = TRAIN_EXPERT_ALIGN;
  /* The capacity is that of all experts. */
  own.capacity_factor = router->capacity_factor * router->top_k * own.experts / own.top_k /
                        router->experts * (1 + 1e-9);
  return train_router_slots(&own, ranks * sizes->sequences, rows, sizes->length);
}

typedef struct carver {
  char *memory; /* NULL while the size is computed */
  size_t used;  /* bytes */
} carver_t;

static void *carve(carver_t *carver, size_t count, size_t bytes) {
  void *array = carver->memory != NULL ? carver->memory + carver->used : NULL;
  carver->used += base_round_up(count * bytes, BASE_CACHE_LINE);
  return array;
}

static void carve_counts(carver_t *carver, const train_router_t *router,
                         const train_experts_sizes_t *sizes, train_experts_activations_t *a) {
  size_t experts = (size_t)router->experts;
  a->starts = a->route.starts;
  a->counts = a->route.counts;
  a->arrived = NULL;
  if (sizes->expert_ranks <= 1) return;
  size_t own = experts / (size_t)sizes->expert_ranks;
  a->arrived = carve(carver, experts, sizeof *a->arrived);
  a->starts = carve(carver, own + 1, sizeof *a->starts);
  a->counts = carve(carver, own, sizeof *a->counts);
}

size_t train_experts_carve_route(const train_router_t *router, const train_experts_sizes_t *sizes,
                                 void *memory, train_experts_activations_t *activations) {
  size_t rows = (size_t)sizes->rows, sequences = (size_t)sizes->sequences;
  size_t experts = (size_t)router->experts, top_k = (size_t)router->top_k;
  size_t counters = sequences * top_k * experts, here = counters * (size_t)router->segments;
  carver_t carver = {.memory = memory};
  train_experts_activations_t a = {.sorted = NULL};
  train_route_t *route = &a.route;
  if (memory != NULL) a = *activations;
  route->sums = carve(&carver, TRAIN_ROUTE_SUMS * sequences, sizeof *route->sums);
  route->probabilities = carve(&carver, rows * experts, sizeof *route->probabilities);
  route->log_sums = carve(&carver, rows, sizeof *route->log_sums);
  route->choices = carve(&carver, rows * top_k, sizeof *route->choices);
  route->weights = carve(&carver, rows * top_k, sizeof *route->weights);
  route->slots = carve(&carver, rows * top_k, sizeof *route->slots);
  route->own = carve(&carver, here, sizeof *route->own);
  route->before = carve(&carver, here, sizeof *route->before);
  route->totals = carve(&carver, counters, sizeof *route->totals);
  route->kept = carve(&carver, sequences * experts, sizeof *route->kept);
  route->starts = carve(&carver, experts + 1, sizeof *route->starts);
  route->counts = carve(&carver, experts, sizeof *route->counts);
  carve_counts(&carver, router, sizes, &a);
  if (memory != NULL) *activations = a;
  return carver.used;
}

size_t train_experts_carve(const train_router_t *router, const train_experts_sizes_t *sizes,
                           void *memory, train_experts_activations_t *activations) {
  carver_t carver = {.memory = memory};
  size_t slots = expert_slots_of(router, sizes), width = (size_t)router->width,
         hidden = (size_t)sizes->hidden_width, bytes = train_dtype_bytes(sizes->dtype);
  train_experts_activations_t a = {.sorted = NULL};
  if (memory != NULL) a = *activations;
  a.sorted = carve(&carver, slots * width, bytes);
  a.hidden = carve(&carver, slots * hidden, bytes);
  a.active = carve(&carver, slots * hidden, bytes);
  size_t returned = slots_of(router, sizes);
  if (sizes->splits && slots > returned) returned = slots;
  a.returned = carve(&carver, returned * width, bytes);
  if (memory != NULL) *activations = a;
  return carver.used;
}

size_t train_experts_carve_buffers(const train_router_t *router, const train_experts_sizes_t *sizes,
                                   void *memory, train_experts_buffers_t *buffers) {
  carver_t carver = {.memory = memory};
  size_t slots = expert_slots_of(router, sizes), width = (size_t)router->width,
         rows = (size_t)sizes->rows, ranks = (size_t)sizes->expert_ranks,
         bytes = train_dtype_bytes(sizes->dtype);
  bool exchanges = sizes->expert_ranks > 1;
  train_experts_buffers_t b = {.own = NULL};
  if (exchanges || sizes->training) b.d_sorted = carve(&carver, slots * width, bytes);
  b.own = b.d_sorted;
  if (exchanges) {
    b.own = carve(&carver, slots_of(router, sizes) * width, bytes);
    b.staged = carve(&carver, slots * width, bytes);
    b.exchanged = carve(&carver, 4 * ranks, sizeof *b.exchanged);
  }
  if (sizes->training) {
    b.d_hidden = carve(&carver, slots * (size_t)sizes->hidden_width, bytes);
    b.d_weights = carve(&carver, rows * (size_t)router->top_k, sizeof *b.d_weights);
  }
  if (memory != NULL) *buffers = b;
  return carver.used;
}

/* ---- routing ---- */

/* The numbers of a context rank's segments in the whole sequence: the first, and how far the second
 * is from it. Rank r of p has segment r, and with two segments also 2 p - 1 - r. */
typedef struct segments {
  int first, step;
} segments_t;

static segments_t segments_of(int rank, int ranks, int segments) {
  return (segments_t){.first = rank, .step = segments > 1 ? 2 * (ranks - rank) - 1 : 0};
}

/* Adds the counts of a rank to the totals, and to those before the segments here. */
static void add_counts(const train_router_counts_t *counts, const int32_t *theirs, int rank,
                       int here, int ranks) {
  const segments_t from = segments_of(rank, ranks, counts->segments),
                   own = segments_of(here, ranks, counts->segments);
  int of_segment = counts->top_k * counts->experts;
  for (int i = 0; i < counts->sequences * counts->segments * of_segment; i++) {
    int sequence = i / of_segment / counts->segments, segment = i / of_segment % counts->segments;
    int number = from.first + segment * from.step, which = i % of_segment;
    counts->totals[sequence * of_segment + which] += theirs[i];
    for (int other = 0; other < counts->segments; other++) {
      if (number >= own.first + other * own.step) continue;
      counts->before[(sequence * counts->segments + other) * of_segment + which] += theirs[i];
    }
  }
}

/* Context of complete(). */
typedef struct completion {
  train_axis_t *axis;
  int32_t *all; /* [context ranks, own counts] */
} completion_t;

/* For train_router_complete_t: the counts of all context ranks. */
static void complete(void *context, const train_router_counts_t *counts) {
  const completion_t *completion = context;
  train_axis_t *axis = completion->axis;
  int of_sequence = counts->top_k * counts->experts;
  size_t own = (size_t)(counts->sequences * counts->segments * of_sequence);
  /* Counts are 32 bits wide, as float32 is; an all-gather does not look at them. */
  train_axis_allgather(axis, TRAIN_FLOAT32, counts->own, completion->all, own);
  for (size_t i = 0; i < own; i++) counts->before[i] = 0;
  for (int i = 0; i < counts->sequences * of_sequence; i++) counts->totals[i] = 0;
  bool failed = train_axis_status(axis) != COLL_OK;
  for (int rank = 0; rank < axis->group.size; rank++) {
    const int32_t *theirs = failed ? counts->own : completion->all + (size_t)rank * own;
    add_counts(counts, theirs, rank, axis->group.rank, axis->group.size);
  }
}

size_t train_experts_scratch(const train_router_t *router, const train_experts_sizes_t *sizes) {
  size_t counts = (size_t)(sizes->sequences * router->segments * router->top_k * router->experts);
  size_t forward = sizes->context_ranks > 1 ? (size_t)sizes->context_ranks * counts : 0;
  size_t backward = sizes->training ? train_router_scratch(router, sizes->rows, sizes->dtype) : 0;
  return forward > backward ? forward : backward;
}

static bool exchanges(const train_experts_t *layer) {
  return layer->experts != NULL;
}

train_router_result_t train_experts_route(const train_experts_t *layer, const void *in,
                                          const train_experts_activations_t *activations) {
  completion_t completion = {.axis = layer->context, .all = (int32_t *)layer->exec->scratch};
  const train_router_result_t result = train_router_forward(
      layer->exec, &layer->router, &layer->batch, in, layer->gate,
      layer->context != NULL ? complete : NULL, &completion, &activations->route);
  if (exchanges(layer)) train_expert_exchange_counts(layer, activations);
  return result;
}

/* ---- passes ---- */

static train_linear_t to_hidden(const train_experts_t *layer) {
  return (train_linear_t){.in_width = layer->router.width, .out_width = layer->hidden_width};
}

static train_linear_t from_hidden(const train_experts_t *layer) {
  return (train_linear_t){.in_width = layer->hidden_width, .out_width = layer->router.width};
}

static train_expert_slots_t route_slots(const train_experts_t *layer,
                                        const train_experts_activations_t *a) {
  return train_expert_slots(&layer->router, &a->route, train_batch_rows(&layer->batch));
}

static train_expert_rows_t own_rows(const train_experts_t *layer,
                                    const train_experts_activations_t *a) {
  int ranks = exchanges(layer) ? layer->experts->group.size : 1;
  return (train_expert_rows_t){
      .experts = layer->router.experts / ranks, .starts = a->starts, .counts = a->counts};
}

void train_experts_forward(const train_experts_t *layer, const void *in,
                           const train_experts_activations_t *activations,
                           const train_experts_buffers_t *buffers) {
  const train_experts_activations_t *a = activations;
  const train_expert_slots_t slots = route_slots(layer, a);
  const train_expert_rows_t rows = own_rows(layer, a);
  const train_linear_t hidden = to_hidden(layer), output = from_hidden(layer);
  void *results = exchanges(layer) ? buffers->d_sorted : a->returned;
  train_experts_dispatch(layer->exec, &slots, in, exchanges(layer) ? buffers->own : a->sorted);
  if (exchanges(layer)) train_expert_exchange_send(layer, a, buffers, buffers->own, a->sorted);
  train_experts_linear_forward(layer->exec, &hidden, &rows, a->sorted, layer->hidden_weight,
                               layer->hidden_bias, a->hidden, a->active);
  train_experts_linear_forward(layer->exec, &output, &rows, a->active, layer->output_weight,
                               layer->output_bias, results, NULL);
  if (exchanges(layer)) train_expert_exchange_return(layer, a, buffers, results, a->returned);
}

void train_experts_combine_forward(const train_experts_t *layer,
                                   const train_experts_activations_t *activations,
                                   const void *residual, void *out) {
  const train_expert_slots_t slots = route_slots(layer, activations);
  train_experts_combine(layer->exec, &slots, activations->returned, residual, out);
}

/* Copies the gradients of slots to activations that nothing reads again. */
static void keep_gradients(const train_experts_t *layer, const train_expert_rows_t *rows,
                           const train_experts_activations_t *a, const train_experts_buffers_t *b) {
  size_t slots = (size_t)rows->starts[rows->experts] * train_dtype_bytes(layer->exec->dtype);
  memcpy(a->returned, b->d_sorted, slots * (size_t)layer->router.width);
  memcpy(a->hidden, b->d_hidden, slots * (size_t)layer->hidden_width);
}

void train_experts_backward(const train_experts_t *layer, const void *d_out, bool overwrite,
                            const train_experts_activations_t *activations,
                            const train_experts_buffers_t *buffers) {
  const train_experts_activations_t *a = activations;
  const train_experts_buffers_t *b = buffers;
  const train_expert_slots_t slots = route_slots(layer, a);
  const train_expert_rows_t rows = own_rows(layer, a);
  const train_linear_t hidden = to_hidden(layer), output = from_hidden(layer);
  size_t choices = (size_t)slots.rows * (size_t)slots.top_k;
  train_experts_combine_backward(layer->exec, &slots, d_out, a->returned, b->own, b->d_weights);
  if (layer->tensor != NULL) {
    train_axis_allreduce(layer->tensor, TRAIN_FLOAT32, b->d_weights, choices);
  }
  if (exchanges(layer)) train_expert_exchange_send(layer, a, b, b->own, b->d_sorted);
  train_experts_linear_backward(layer->exec, &output, &rows, b->d_sorted, a->active,
                                layer->output_weight, a->hidden, overwrite, b->d_hidden,
                                layer->d_output_weight, layer->d_output_bias);
  if (layer->d_output_weight == NULL) keep_gradients(layer, &rows, a, b);
  train_experts_linear_backward(layer->exec, &hidden, &rows, b->d_hidden, a->sorted,
                                layer->hidden_weight, NULL, overwrite, b->d_sorted,
                                layer->d_hidden_weight, layer->d_hidden_bias);
  if (exchanges(layer)) train_expert_exchange_return(layer, a, b, b->d_sorted, b->own);
}

void train_experts_input_backward(const train_experts_t *layer, const void *in, float scale,
                                  bool overwrite, const train_experts_activations_t *activations,
                                  const train_experts_buffers_t *buffers, bool add, void *d_in,
                                  float *d_gate) {
  const train_expert_slots_t slots = route_slots(layer, activations);
  train_experts_dispatch_backward(layer->exec, &slots, buffers->own, add, d_in);
  train_router_backward(layer->exec, &layer->router, &layer->batch, &activations->route, in,
                        layer->gate, buffers->d_weights, scale, overwrite,
                        layer->first_tensor_rank ? d_in : NULL, d_gate);
}

void train_experts_backward_weight(const train_experts_t *layer, bool overwrite,
                                   const train_experts_activations_t *activations) {
  const train_experts_activations_t *a = activations;
  const train_expert_rows_t rows = own_rows(layer, a);
  const train_linear_t hidden = to_hidden(layer), output = from_hidden(layer);
  train_experts_linear_backward(layer->exec, &output, &rows, a->returned, a->active, NULL, NULL,
                                overwrite, NULL, layer->d_output_weight, layer->d_output_bias);
  train_experts_linear_backward(layer->exec, &hidden, &rows, a->hidden, a->sorted, NULL, NULL,
                                overwrite, NULL, layer->d_hidden_weight, layer->d_hidden_bias);
}

void train_experts_gate_backward_weight(const train_experts_t *layer, const void *in,
                                        bool overwrite,
                                        const train_experts_activations_t *activations,
                                        float *d_gate) {
  train_router_backward_weight(layer->exec, &layer->router, &layer->batch, &activations->route, in,
                               overwrite, d_gate);
}
