/*
 * Which experts the rows of a run go to, recorded in one run and replayed in others. Between two
 * experts that are nearly equal a rounding decides, and then models differ by what a token does;
 * with the same routing they differ by rounding, as models without experts do.
 */
#ifndef TESTS_LIBTRAIN_LAYOUTS_ROUTING_H
#define TESTS_LIBTRAIN_LAYOUTS_ROUTING_H

#include "libtrain/model/layout.h"
#include "libtrain/ops/router.h"

#define LAYOUT_ROUTING_LAYERS_MAX 8

typedef struct layout_routing {
  int steps, layers, sequences, length, top_k;
  int32_t *choices; /* [steps, layers, sequences, length, top_k] */
} layout_routing_t;

/* Of the steps of a run, each of so many sequences. NULL: the model has no experts. */
layout_routing_t *layout_routing_create(const train_model_config_t *config, int steps,
                                        int sequences);
void layout_routing_destroy(layout_routing_t *routing);

/* A rank's share of the sequences of each step, which it routes in order. */
typedef struct layout_router {
  const layout_routing_t *replayed; /* NULL: records */
  layout_routing_t *recorded;       /* NULL: does not record */
  int share, shares;
  int routed[LAYOUT_ROUTING_LAYERS_MAX]; /* sequences so far */
  int64_t choices, differing; /* choices so far, and those that this rank would have made otherwise;
                               * the first step's are in `first_differing` */
  int64_t first_differing;
} layout_router_t;

/* Lets the next pass, and those after it, replay the routing from the first step on. */
void layout_router_replay_first(layout_router_t *router, const layout_routing_t *routing);

/* The hook of the rank's models. The router must outlive them. */
train_router_replay_t layout_router_replay(layout_router_t *router);

#endif
