/* A rank runs the forward passes of a layer in the order of its micro-batches, whatever the
 * schedule: counting sequences tells which ones a pass has. */
#include "libtrain/layouts/routing.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

layout_routing_t *layout_routing_create(const train_model_config_t *config, int steps,
                                        int sequences) {
  if (config->experts == 0) return NULL;
  assert(config->layers <= LAYOUT_ROUTING_LAYERS_MAX);
  layout_routing_t *routing = malloc(sizeof *routing);
  *routing = (layout_routing_t){.steps = steps,
                                .layers = config->layers,
                                .sequences = sequences,
                                .length = config->context,
                                .top_k = config->top_k};
  size_t count = (size_t)(steps * config->layers) * (size_t)(sequences * config->context);
  routing->choices = calloc(count * (size_t)config->top_k, sizeof *routing->choices);
  return routing;
}

void layout_routing_destroy(layout_routing_t *routing) {
  if (routing == NULL) return;
  free(routing->choices);
  free(routing);
}

/* The choices of a sequence at a position. */
static int32_t *choices_at(const layout_routing_t *routing, int step, int layer, int sequence,
                           int position) {
  size_t at = (size_t)(step * routing->layers + layer) * (size_t)routing->sequences;
  at = (at + (size_t)sequence) * (size_t)routing->length + (size_t)position;
  return routing->choices + at * (size_t)routing->top_k;
}

static void record(const layout_routing_t *routing, const int32_t *own, int32_t *recorded) {
  for (int i = 0; i < routing->top_k; i++) recorded[i] = own[i];
}

static void replay(layout_router_t *router, int step, const int32_t *given, int32_t *own) {
  for (int i = 0; i < router->replayed->top_k; i++) {
    bool differs = own[i] != given[i];
    router->choices++;
    router->differing += differs;
    router->first_differing += differs && step == 0;
    own[i] = given[i];
  }
}

static void choose(void *context, int layer, const train_batch_t *batch, int32_t *choices) {
  layout_router_t *router = context;
  const layout_routing_t *routing = router->replayed != NULL ? router->replayed : router->recorded;
  if (routing == NULL) return;
  int in_step = routing->sequences / router->shares;
  for (int row = 0; row < train_batch_rows(batch); row++) {
    int routed = router->routed[layer] + row / batch->length;
    int step = routed / in_step, sequence = router->share * in_step + routed % in_step;
    int32_t *own = choices + (size_t)row * (size_t)routing->top_k;
    assert(step < routing->steps);
    int32_t *whole = choices_at(routing, step, layer, sequence, train_batch_position(batch, row));
    if (router->replayed != NULL) {
      replay(router, step, whole, own);
    } else {
      record(routing, own, whole);
    }
  }
  router->routed[layer] += batch->sequences;
}

void layout_router_replay_first(layout_router_t *router, const layout_routing_t *routing) {
  router->replayed = routing;
  memset(router->routed, 0, sizeof router->routed);
}

train_router_replay_t layout_router_replay(layout_router_t *router) {
  return (train_router_replay_t){.choose = choose, .context = router};
}
