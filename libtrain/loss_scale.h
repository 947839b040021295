/*
 * Dynamic loss scaling (Micikevicius et al. 2018, section 3.2), with the defaults of PyTorch's
 * GradScaler and the upper limit of NVIDIA Apex. The loss is multiplied by a power of two before
 * the backward pass, so that small gradients of activations do not underflow in float16, and the
 * gradients of parameters are divided by it before they are used. A scale that is too large shows
 * as gradients that are not finite: that step is not applied and the scale is halved. After many
 * good steps it is doubled.
 */
#ifndef LIBTRAIN_LOSS_SCALE_H
#define LIBTRAIN_LOSS_SCALE_H

#include <stdbool.h>
#include <stdint.h>

#define TRAIN_LOSS_SCALE_MIN 1.0
#define TRAIN_LOSS_SCALE_MAX 0x1p24
#define TRAIN_LOSS_SCALE_GOOD_STEPS 2000 /* with the same scale before it is doubled */

typedef struct train_loss_scale {
  double scale;        /* a power of two from TRAIN_LOSS_SCALE_MIN to TRAIN_LOSS_SCALE_MAX */
  uint64_t good_steps; /* consecutive steps with finite gradients since the scale was last set */
} train_loss_scale_t;

/* The state at the beginning of a run: with loss scaling, and without it. */
#define TRAIN_LOSS_SCALE_INIT \
  { 65536.0, 0 }
#define TRAIN_LOSS_SCALE_NONE \
  { 1.0, 0 }

/* Updates the state after a step whose loss and gradients were finite, or not. */
void train_loss_scale_update(train_loss_scale_t *loss_scale, bool finite);

#endif
