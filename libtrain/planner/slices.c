/*
 * Without a cost per slice the sum of their times is the same for all slices, so the best ones have
 * the least longest time, whatever the number of stages and micro-batches.
 */
#include "libtrain/planner/slices.h"

#include "libtrain/schedule/slices.h"

/* Forward and backward of `length` tokens after `prefix` others, on all stages together: each token
 * attends to itself and to those before it. */
static double flops_of(const void *context, int length, int prefix) {
  const train_model_config_t *config = context;
  double width = config->width, layers = config->layers;
  double products = 6 * (12 * layers * width * width + config->vocabulary * width);
  return length * (products + 12 * layers * width * (prefix + (length + 1) * 0.5));
}

/* The smallest multiple that divides the context into as few units as the search takes; 0: none. */
static int unit_of(int context, int multiple) {
  for (int unit = multiple; unit <= context; unit += multiple) {
    if (context % unit == 0 && context / unit <= TRAIN_SLICES_MAX_UNITS) return unit;
  }
  return 0;
}

coll_status_t train_plan_slices(const train_model_config_t *config, int count, int multiple,
                                train_slices_t *slices) {
  int lengths[TRAIN_SLICES_MAX], unit = unit_of(config->context, multiple);
  if (count < 1 || count > TRAIN_SLICES_MAX) {
    return base_fail(COLL_ERROR_INVALID, "--slices %d: give 1 to %d", count, TRAIN_SLICES_MAX);
  }
  if (unit == 0) {
    return base_fail(COLL_ERROR_INVALID,
                     "no multiple of %d divides a context of %d tokens into slices: give another "
                     "--context",
                     multiple, (int)config->context);
  }
  const train_slices_request_t request = {.tokens = config->context,
                                          .unit = unit,
                                          .slices = count,
                                          .stages = 2,
                                          .micro_batches = 1,
                                          .cost = flops_of,
                                          .context = config};
  *slices = (train_slices_t){0};
  COLL_TRY(train_slices_choose(&request, lengths, &slices->count, NULL));
  for (int i = 0; i < count; i++) slices->lengths[i] = lengths[i];
  return COLL_OK;
}
