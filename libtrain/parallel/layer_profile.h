/*
 * Times of the layers of a model, measured on this rank alone: one layer of each kind computes some
 * micro-batches. The partition into pipeline stages is cut by them (schedule/stages.h).
 */
#ifndef LIBTRAIN_PARALLEL_LAYER_PROFILE_H
#define LIBTRAIN_PARALLEL_LAYER_PROFILE_H

#include "libtrain/model/layout.h"
#include "libtrain/model/model_options.h"

/* Milliseconds of the forward and the backward pass of a micro-batch. */
typedef struct train_layer_times {
  double embedding, head;
  double block, experts; /* of blocks without and with experts; 0: the model has none */
} train_layer_times_t;

/* Measures whole layers, also where tensor or expert ranks cut them: that shortens all of them by
 * about the same factor. `length`: positions of a sequence on a context rank. Of the options, axes,
 * slots and slices are not used. The times are rounded to three digits, so that they can be printed
 * and given again. COLL_ERROR_MEMORY. */
coll_status_t train_layer_times_measure(const train_model_config_t *config,
                                        const train_model_options_t *options, int length,
                                        train_layer_times_t *times);

/* costs[layers + 2]: embedding, blocks, head. */
void train_layer_times_list(const train_model_config_t *config, const train_layer_times_t *times,
                            double costs[]);

#endif
