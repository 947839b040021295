/* Elements of every type, and tensors stored in every order and orientation. */
#include "libtrain/files/tensors.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/common/random.h"
#include "libtrain/folder.h"
#include "sample.h"

static folder_t folder;

static void setup(void) {
  folder_make(&folder);
}

static void teardown(void) {
  folder_remove(&folder);
}

TestSuite(tensors, .init = setup, .fini = teardown);

/* The value of a floating-point number with these field sizes, computed from the IEEE 754
 * definition. */
static double defined(uint16_t bits, int exponent_bits, int fraction_bits) {
  int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
  int fraction = bits & ((1 << fraction_bits) - 1), bias = (1 << (exponent_bits - 1)) - 1;
  double sign = bits & 0x8000 ? -1 : 1, part = ldexp(fraction, -fraction_bits);
  if (exponent == (1 << exponent_bits) - 1) return fraction > 0 ? NAN : sign * INFINITY;
  return sign * (exponent > 0 ? ldexp(1 + part, exponent - bias) : ldexp(part, 1 - bias));
}

Test(tensors, widens_every_16_bit_number_exactly) {
  static const struct {
    train_element_t element;
    int exponent_bits, fraction_bits;
  } types[] = {{TRAIN_FLOAT16, 5, 10}, {TRAIN_BFLOAT16, 8, 7}};
  for (int type = 0; type < 2; type++) {
    for (int i = 0; i < 65536; i++) {
      uint16_t bits = (uint16_t)i;
      float value;
      train_element_widen(types[type].element, &bits, 1, &value);
      double expected = defined(bits, types[type].exponent_bits, types[type].fraction_bits);
      if (isnan(expected)) {
        cr_assert(isnan(value), "%04x", i);
      } else {
        cr_assert_eq((double)value, expected, "%04x is %g, not %g", i, (double)value, expected);
        cr_assert_eq(signbit(value) != 0, signbit(expected) != 0, "%04x", i);
      }
    }
  }
}

/* A layout whose largest tensors span several chunks and are not multiples of a tile. */
static train_layout_t *wide_layout(void) {
  const train_model_config_t config = {
      .vocabulary = 5, .context = 3, .layers = 1, .heads = 1, .width = 523};
  train_layout_t *layout;
  cr_assert_eq(train_layout_create(&config, &layout), COLL_OK);
  return layout;
}

/* The index in the tensor of element i of its transposed form. */
static size_t transposed_index(const train_tensor_t *tensor, size_t i) {
  size_t rows = (size_t)tensor->rows, columns = (size_t)tensor->columns;
  return i % rows * columns + i / rows;
}

Test(tensors, writes_tensors_plain_and_transposed) {
  train_layout_t *layout = wide_layout();
  sample_t sample = sample_of_size(1, &layout->config);
  const train_flat_t flat = sample_flat(&sample);
  const char *path = folder_path(&folder, "tensors");
  train_output_t output;
  train_tensor_writer_t *writer;
  train_output_open(path, &output);
  cr_assert_eq(train_tensor_writer_create(layout, &flat, &output, &writer), COLL_OK);
  for (int i = 0; i < layout->tensor_count; i++) {
    const train_tensor_t *tensor = &layout->tensors[i];
    cr_assert_eq(train_tensor_writer_add(writer, tensor, tensor->linear), COLL_OK);
    train_tensor_writer_pad(writer, (size_t)i);
  }
  train_tensor_writer_destroy(writer);
  cr_assert_eq(train_output_commit(&output), COLL_OK);
  size_t count, at = 0;
  float *file = folder_read(path, &count);
  for (int i = 0; i < layout->tensor_count; i++) {
    const train_tensor_t *tensor = &layout->tensors[i];
    size_t elements = (size_t)tensor->rows * (size_t)tensor->columns;
    for (size_t j = 0; j < elements; j++) {
      float value =
          sample_element(&sample, TRAIN_PARAMETERS,
                         tensor->offset + (tensor->linear ? transposed_index(tensor, j) : j));
      cr_assert_eq(memcmp(&file[at + j], &value, sizeof value), 0, "%s %zu", tensor->name, j);
    }
    at += elements;
    for (int j = 0; j < i; j++) cr_assert_eq(file[at++], 0);
  }
  cr_assert_eq(count, at * sizeof(float));
  free(file);
  train_layout_destroy(layout);
}

/* A number for element `index` that every type represents exactly; its bits in *bits. */
static float short_number(train_element_t element, size_t index, uint16_t *bits) {
  uint64_t draw = train_random_bits(6, TRAIN_RANDOM_WEIGHTS, index);
  uint16_t chosen = (uint16_t)(draw % 0x7000 + (draw >> 63 << 15));
  bool half = element == TRAIN_FLOAT16;
  *bits = chosen;
  return (float)defined(chosen, half ? 5 : 8, half ? 10 : 7);
}

/* Writes a file with the tensors in reverse order, every second linear one transposed, with
 * alternating element types; fills locations[]. */
static const char *write_mixed(const train_layout_t *layout, train_tensor_location_t *locations) {
  char *bytes = malloc(layout->parameter_count * sizeof(float) + 64);
  size_t at = 7; /* tensors need no alignment */
  memset(bytes, 0, at);
  for (int i = layout->tensor_count - 1; i >= 0; i--) {
    const train_tensor_t *tensor = &layout->tensors[i];
    train_element_t element = (train_element_t)(i % 3);
    locations[i] = (train_tensor_location_t){
        .offset = at, .element = element, .transposed = tensor->linear && i % 2 == 0};
    size_t elements = (size_t)tensor->rows * (size_t)tensor->columns;
    for (size_t j = 0; j < elements; j++) {
      uint16_t bits;
      size_t from = tensor->offset + (locations[i].transposed ? transposed_index(tensor, j) : j);
      float value = short_number(element, from, &bits);
      const void *provider = element == TRAIN_FLOAT32 ? (const void *)&value : &bits;
      memcpy(bytes + at, provider, train_element_bytes(element));
      at += train_element_bytes(element);
    }
  }
  const char *path = folder_write(&folder, "mixed", bytes, at);
  free(bytes);
  return path;
}

static void check_range(const train_flat_t *flat, const train_layout_t *layout, size_t first,
                        size_t count, float *values) {
  cr_assert_eq(flat->read(flat->context, TRAIN_PARAMETERS, first, count, values), COLL_OK, "%s",
               base_last_error());
  int tensor = layout->tensor_count - 1;
  for (size_t i = first + count; i-- > first;) {
    uint16_t bits;
    while (layout->tensors[tensor].offset > i) tensor--;
    float expected = short_number((train_element_t)(tensor % 3), i, &bits);
    cr_assert_eq(values[i - first], expected, "element %zu of %s", i, layout->tensors[tensor].name);
  }
}

Test(tensors, reads_mixed_tensors_as_one_flat_space) {
  train_layout_t *layout = wide_layout();
  train_tensor_location_t *locations = malloc((size_t)layout->tensor_count * sizeof *locations);
  const char *path = write_mixed(layout, locations);
  train_input_t input;
  train_tensor_reader_t *reader;
  cr_assert_eq(train_input_open(path, &input), COLL_OK);
  cr_assert_eq(train_tensor_reader_create(&input, layout, locations, &reader), COLL_OK);
  const train_flat_t flat = train_tensor_reader_flat(reader);
  size_t all = layout->parameter_count;
  float *values = malloc(all * sizeof *values);
  check_range(&flat, layout, 0, all, values);
  for (uint64_t i = 0; i < 60; i++) {
    size_t first = (size_t)train_random_below(7, TRAIN_RANDOM_BATCHES, 2 * i, all);
    size_t max_count = all - first < 5000 ? all - first : 5000;
    check_range(&flat, layout, first,
                (size_t)train_random_below(7, TRAIN_RANDOM_BATCHES, 2 * i + 1, max_count) + 1,
                values);
  }
  memset(values, 1, all * sizeof *values);
  cr_assert_eq(flat.read(flat.context, TRAIN_SECOND_MOMENTS, 0, all, values), COLL_OK);
  for (size_t i = 0; i < all; i++) cr_assert_eq(values[i], 0);
  free(values);
  train_tensor_reader_destroy(reader);
  train_input_close(&input);
  free(locations);
  train_layout_destroy(layout);
}
