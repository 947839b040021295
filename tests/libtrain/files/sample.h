/*
 * A model to be saved and found again: every element of its arrays is a function of a seed, so that
 * nothing needs to be kept to know what has to come back.
 */
#ifndef TESTS_LIBTRAIN_FILES_SAMPLE_H
#define TESTS_LIBTRAIN_FILES_SAMPLE_H

#include <stdint.h>

#include "libtrain/files/flat.h"
#include "libtrain/files/record.h"

typedef struct sample {
  uint64_t seed;
  train_record_t record; /* a small model, with moments and nothing else */
  size_t elements;       /* of an array */
  size_t reads;          /* calls of the flat space's read */
  size_t next;           /* where the next one has to begin, counted over all arrays */
  bool in_order;         /* every read began where the one before it ended */
} sample_t;

/* A model with 2 layers whose sizes are no multiples of anything. */
sample_t sample_of(uint64_t seed);

/* The same with another config. */
sample_t sample_of_size(uint64_t seed, const train_model_config_t *config);

/* Any finite number, with all its bits in use. */
float sample_element(const sample_t *sample, train_array_t array, size_t index);

/* The sample as a flat space that counts reads. */
train_flat_t sample_flat(sample_t *sample);

/* Whether the array reads from the flat space bit for bit as the sample's. */
bool sample_is_in(const sample_t *sample, const train_flat_t *flat, train_array_t array);

/* Whether it reads as zeros. */
bool sample_is_zero(const sample_t *sample, const train_flat_t *flat, train_array_t array);

#endif
