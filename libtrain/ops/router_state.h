/* What the forward and the backward pass of the router share. */
#ifndef LIBTRAIN_OPS_ROUTER_STATE_H
#define LIBTRAIN_OPS_ROUTER_STATE_H

#include "libtrain/ops/router.h"

#define ROUTER_ROWS_PER_TASK 64

static inline int router_min(int a, int b) {
  return a < b ? a : b;
}

static inline int router_divide_up(int a, int b) {
  return (a + b - 1) / b;
}

/* The first choices of the whole sequence, also of the rows that are elsewhere, by expert. */
static inline const int32_t *router_first_choices(const train_router_t *router,
                                                  const train_route_t *route, int sequence) {
  return route->totals + (size_t)(sequence * router->top_k) * (size_t)router->experts;
}

/* The length of the whole sequence. */
static inline int router_whole_length(const train_router_t *router, const train_route_t *route,
                                      int sequence) {
  const int32_t *first_choices = router_first_choices(router, route, sequence);
  int length = 0;
  for (int i = 0; i < router->experts; i++) length += first_choices[i];
  return length;
}

#endif
