/* Factors 2 and 1/2 keep the scale a power of two: scaling changes exponents only, and is exact. */
#include "libtrain/loss_scale.h"

void train_loss_scale_update(train_loss_scale_t *loss_scale, bool finite) {
  double scale = loss_scale->scale;
  if (finite) {
    if (++loss_scale->good_steps < TRAIN_LOSS_SCALE_GOOD_STEPS) return;
    if (scale < TRAIN_LOSS_SCALE_MAX) loss_scale->scale = scale * 2;
  } else if (scale > TRAIN_LOSS_SCALE_MIN) {
    loss_scale->scale = scale / 2;
  }
  loss_scale->good_steps = 0;
}
