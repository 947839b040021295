/* Tensors stored in every type, order and orientation. */
#include "libtrain/files/tensors.h"

#include <criterion/criterion.h>
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

/* Checks a file with the tensors of write_tensors. */
static void check_written(const sample_t *sample, const train_layout_t *layout, train_dtype_t dtype,
                          const char *path) {
  size_t count, at = 0, bytes = train_dtype_bytes(dtype);
  char *file = folder_read(path, &count);
  const float zero = 0;
  for (int i = 0; i < layout->tensor_count; i++) {
    const train_tensor_t *tensor = &layout->tensors[i];
    size_t elements = (size_t)tensor->rows * (size_t)tensor->columns;
    for (size_t j = 0; j < elements; j++, at += bytes) {
      float expected;
      float value =
          sample_element(sample, TRAIN_PARAMETERS,
                         tensor->offset + (tensor->linear ? transposed_index(tensor, j) : j));
      train_dtype_narrow(dtype, &value, 1, &expected);
      cr_assert_eq(memcmp(file + at, &expected, bytes), 0, "%s %zu", tensor->name, j);
    }
    for (int j = 0; j < i; j++, at += bytes) cr_assert_eq(memcmp(file + at, &zero, bytes), 0);
  }
  cr_assert_eq(count, at);
  free(file);
}

/* Writes tensor i followed by i zeros; linear ones transposed. */
static void write_tensors(sample_t *sample, const train_layout_t *layout, train_dtype_t dtype,
                          const char *path) {
  const train_flat_t flat = sample_flat(sample);
  train_output_t output;
  train_tensor_writer_t *writer;
  train_output_open(path, &output);
  cr_assert_eq(train_tensor_writer_create(layout, &flat, dtype, &output, &writer), COLL_OK);
  for (int i = 0; i < layout->tensor_count; i++) {
    const train_tensor_t *tensor = &layout->tensors[i];
    cr_assert_eq(train_tensor_writer_add(writer, tensor, tensor->linear), COLL_OK);
    train_tensor_writer_pad(writer, (size_t)i);
  }
  train_tensor_writer_destroy(writer);
  cr_assert_eq(train_output_commit(&output), COLL_OK);
}

Test(tensors, writes_tensors_plain_and_transposed_in_every_type) {
  train_layout_t *layout = wide_layout();
  sample_t sample = sample_of_size(1, &layout->config);
  const char *path = folder_path(&folder, "tensors");
  for (int dtype = 0; dtype < TRAIN_DTYPES; dtype++) {
    write_tensors(&sample, layout, (train_dtype_t)dtype, path);
    check_written(&sample, layout, (train_dtype_t)dtype, path);
  }
  train_layout_destroy(layout);
}

/* A finite number for element `index` that the type represents exactly; for the narrow types its
 * bits in *bits. */
static float short_number(train_dtype_t dtype, size_t index, uint16_t *bits) {
  uint64_t draw = train_random_bits(6, TRAIN_RANDOM_WEIGHTS, index);
  float value;
  *bits = (uint16_t)(draw % 0x7000 + (draw >> 63 << 15));
  train_dtype_widen(dtype == TRAIN_FLOAT16 ? TRAIN_FLOAT16 : TRAIN_BFLOAT16, bits, 1, &value);
  return value;
}

/* Writes a file with the tensors in reverse order, every second linear one transposed, with
 * alternating element types; fills locations[]. */
static const char *write_mixed(const train_layout_t *layout, train_tensor_location_t *locations) {
  char *bytes = malloc(layout->parameter_count * sizeof(float) + 64);
  size_t at = 7; /* tensors need no alignment */
  memset(bytes, 0, at);
  for (int i = layout->tensor_count - 1; i >= 0; i--) {
    const train_tensor_t *tensor = &layout->tensors[i];
    train_dtype_t dtype = (train_dtype_t)(i % 3);
    locations[i] = (train_tensor_location_t){
        .offset = at, .dtype = dtype, .transposed = tensor->linear && i % 2 == 0};
    size_t elements = (size_t)tensor->rows * (size_t)tensor->columns;
    for (size_t j = 0; j < elements; j++) {
      uint16_t bits;
      size_t from = tensor->offset + (locations[i].transposed ? transposed_index(tensor, j) : j);
      float value = short_number(dtype, from, &bits);
      const void *provider = dtype == TRAIN_FLOAT32 ? (const void *)&value : &bits;
      memcpy(bytes + at, provider, train_dtype_bytes(dtype));
      at += train_dtype_bytes(dtype);
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
    float expected = short_number((train_dtype_t)(tensor % 3), i, &bits);
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
