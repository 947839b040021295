/* Elements come from the counter-based generator, one by one. */
#include "sample.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/common/random.h"

sample_t sample_of(uint64_t seed) {
  const train_model_config_t config = {
      .vocabulary = 37, .context = 11, .layers = 2, .heads = 3, .width = 21};
  return sample_of_size(seed, &config);
}

sample_t sample_of_size(uint64_t seed, const train_model_config_t *config) {
  train_layout_t *layout;
  cr_assert_eq(train_layout_create(config, &layout), COLL_OK);
  sample_t sample = {.seed = seed,
                     .metadata = {.config = *config, .moments = true},
                     .elements = layout->parameter_count,
                     .in_order = true};
  train_layout_destroy(layout);
  return sample;
}

float sample_element(const sample_t *sample, train_array_t array, size_t index) {
  uint64_t draw =
      train_random_bits(sample->seed * TRAIN_ARRAYS + array, TRAIN_RANDOM_WEIGHTS, index);
  uint32_t bits = (uint32_t)draw;
  if ((bits >> 23 & 0xff) == 0xff) bits ^= 1u << 30; /* avoid infinities and NaNs */
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static coll_status_t read_sample(void *context, train_array_t array, size_t first, size_t count,
                                 float *values) {
  sample_t *sample = context;
  size_t at = array * sample->elements + first;
  sample->in_order = sample->in_order && at == sample->next && count <= TRAIN_CHUNK;
  sample->next = at + count;
  sample->reads++;
  for (size_t i = 0; i < count; i++) values[i] = sample_element(sample, array, first + i);
  return COLL_OK;
}

train_flat_t sample_flat(sample_t *sample) {
  return (train_flat_t){.context = sample, .read = read_sample};
}

bool sample_is_in(const sample_t *sample, const train_flat_t *flat, train_array_t array) {
  float *values = malloc(sample->elements * sizeof *values);
  cr_assert_eq(flat->read(flat->context, array, 0, sample->elements, values), COLL_OK, "%s",
               base_last_error());
  bool same = true;
  for (size_t i = 0; i < sample->elements && same; i++) {
    float expected = sample_element(sample, array, i);
    same = memcmp(&values[i], &expected, sizeof expected) == 0;
  }
  free(values);
  return same;
}

bool sample_is_zero(const sample_t *sample, const train_flat_t *flat, train_array_t array) {
  float *values = malloc(sample->elements * sizeof *values);
  cr_assert_eq(flat->read(flat->context, array, 0, sample->elements, values), COLL_OK);
  bool zero = true;
  for (size_t i = 0; i < sample->elements; i++) zero = zero && values[i] == 0;
  free(values);
  return zero;
}
