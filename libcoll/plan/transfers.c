/* Goes through the spans of a step that are in different ranks' memory. */
#include "plan/transfers.h"

static coll_status_t visit_one(plan_transfer_t transfer, plan_transfer_visit_t *visit,
                               void *context) {
  return transfer.from == transfer.to ? COLL_OK : visit(context, &transfer);
}

coll_status_t plan_visit_step(const plan_t *plan, int32_t rank, const plan_step_t *step,
                              plan_transfer_visit_t *visit, void *context) {
  const plan_span_t *dst = &step->copy.dst, *source = &step->copy.src;
  int32_t sources = 1;
  if (step->kind == PLAN_SEND) {
    return visit_one((plan_transfer_t){rank, rank, step->send.peer, step->send.src.count}, visit,
                     context);
  }
  if (step->kind != PLAN_COPY && step->kind != PLAN_REDUCE) return COLL_OK;
  if (step->kind == PLAN_REDUCE) {
    dst = &step->reduce.dst;
    source = &plan->programs[rank].sources[step->reduce.first_source];
    sources = step->reduce.source_count;
  }
  for (int32_t i = 0; i < sources; i++) {
    COLL_TRY(visit_one((plan_transfer_t){rank, source[i].rank, rank, dst->count}, visit, context));
  }
  return visit_one((plan_transfer_t){rank, rank, dst->rank, dst->count}, visit, context);
}

coll_status_t plan_visit_transfers(const plan_t *plan, plan_transfer_visit_t *visit,
                                   void *context) {
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    for (int32_t lane = 0; lane < plan->lanes; lane++) {
      const plan_lane_t *steps = &plan->programs[rank].lanes[lane];
      for (size_t i = 0; i < steps->count; i++) {
        COLL_TRY(plan_visit_step(plan, rank, &steps->steps[i], visit, context));
      }
    }
  }
  return COLL_OK;
}
