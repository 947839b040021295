/* Maps elements of a part's flat space to the whole model's. */
#include <assert.h>

#include "libtrain/model/layout.h"

/* The last tensor that begins at or before an element. */
static const train_tensor_t *tensor_before(const train_layout_t *layout, size_t element) {
  int low = 0, high = layout->tensor_count - 1;
  assert(element < layout->parameter_count);
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (layout->tensors[middle].offset <= element) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return &layout->tensors[low];
}

static bool is_padding(const train_tensor_t *before, size_t element) {
  return element >= before->offset + train_tensor_count(before);
}

const train_tensor_t *train_layout_tensor_at(const train_layout_t *layout, size_t element) {
  const train_tensor_t *tensor = tensor_before(layout, element);
  return is_padding(tensor, element) ? NULL : tensor;
}

/* Elements from `element` of the padding behind a tensor to its end. */
static size_t rest_of_padding(const train_layout_t *layout, const train_tensor_t *before,
                              size_t element) {
  bool last = before == &layout->tensors[layout->tensor_count - 1];
  return (last ? layout->parameter_count : before[1].offset) - element;
}

/* Element `at` of this part of the tensor, in the whole tensor or in the rows of its experts. Rows,
 * and elements of a vector, follow each other; columns do so within a row, queries, keys and values
 * each. */
static size_t run_of(const train_tensor_t *tensor, size_t at, size_t *full) {
  size_t count = train_tensor_count(tensor), columns = (size_t)tensor->columns;
  size_t full_count = (size_t)tensor->full_rows * (size_t)tensor->full_columns;
  size_t first = (size_t)tensor->cut_first, row_elements = tensor->full_rows == 1 ? 1 : columns;
  switch (tensor->cut) {
    case TRAIN_CUT_COLUMNS:
      *full = at / columns * (size_t)tensor->full_columns + first + at % columns;
      return columns - at % columns;
    case TRAIN_CUT_QKV: {
      size_t third = count / 3;
      *full = at / third * (full_count / 3) + first * row_elements + at % third;
      return third - at % third;
    }
    default: *full = first * row_elements + at; return count - at;
  }
}

size_t train_layout_run(const train_layout_t *layout, size_t local, size_t *full) {
  assert(local < layout->parameter_count);
  if (layout->whole) {
    *full = local;
    return layout->parameter_count - local;
  }
  const train_tensor_t *tensor = tensor_before(layout, local);
  if (is_padding(tensor, local)) {
    *full = TRAIN_LAYOUT_PADDING;
    return rest_of_padding(layout, tensor, local);
  }
  size_t run = run_of(tensor, local - tensor->offset, full);
  *full += tensor->full_offset + (size_t)tensor->first_row * (size_t)tensor->full_columns;
  return run;
}
