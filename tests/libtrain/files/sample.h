/*
 * A sample model for save and load tests. Every element of its arrays is a function of a seed, so
 * expected values need not be stored.
 */
#ifndef TESTS_LIBTRAIN_FILES_SAMPLE_H
#define TESTS_LIBTRAIN_FILES_SAMPLE_H

#include <stdint.h>

#include "libtrain/files/flat.h"
#include "libtrain/files/metadata.h"

typedef struct sample {
  uint64_t seed;
  train_metadata_t metadata; /* a small model with moments, without settings and tokenizer */
  size_t elements;           /* per array */
  size_t reads;              /* calls of the flat space's read */
  size_t next;               /* expected start of the next read, counted over all arrays */
  bool in_order;             /* every read started where the previous one ended */
} sample_t;

/* A model with 2 layers and odd sizes. */
sample_t sample_of(uint64_t seed);

/* The same with another config. */
sample_t sample_of_size(uint64_t seed, const train_model_config_t *config);

/* Any finite number; all bits are used. */
float sample_element(const sample_t *sample, train_array_t array, size_t index);

/* The sample as a flat space that counts reads. */
train_flat_t sample_flat(sample_t *sample);

/* Whether the array in the flat space equals the sample's bit by bit. */
bool sample_is_in(const sample_t *sample, const train_flat_t *flat, train_array_t array);

/* Whether the array reads as zeros. */
bool sample_is_zero(const sample_t *sample, const train_flat_t *flat, train_array_t array);

#endif
