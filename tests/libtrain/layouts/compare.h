/* Compares what layouts compute with what one rank computes. */
#ifndef TESTS_LIBTRAIN_LAYOUTS_COMPARE_H
#define TESTS_LIBTRAIN_LAYOUTS_COMPARE_H

#include "libtrain/layouts/job.h"

/* Fails the test unless losses are equal to 1e-5 relative at every step and in evaluation, norms of
 * the gradient to 1e-5 (of the first step 1e-6), gradients of the first step to 1e-6 of their
 * tensor's norm, and weights to 1e-4 at the end, without the key biases: their gradients are zero
 * but for rounding, which AdamW blows up. */
void layout_compare(const layout_trial_t *trial, const layout_outcome_t *got,
                    const layout_outcome_t *expected);

/* Trains the model on one rank and in all layouts, and compares each. Layouts replay the rank's
 * choices of experts (routing.h). */
void layout_compare_all(const train_model_config_t *config, const layout_trial_t *trials,
                        size_t count);

#endif
