/*
 * A tensor stored in row-major order is read in chunks. A transposed tensor is read and transposed
 * completely on first use, in tiles that fit the cache in both directions.
 */
#include "libtrain/files/tensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define TILE 16

/* ---- common ---- */

static size_t elements_of(const train_tensor_t *tensor) {
  return (size_t)tensor->rows * (size_t)tensor->columns;
}

static size_t min_size(size_t a, size_t b) {
  return a < b ? a : b;
}

/* to[column * to_stride + row] = from[row * from_stride + column] */
static void transpose(const float *from, size_t rows, size_t columns, size_t from_stride, float *to,
                      size_t to_stride) {
  for (size_t row = 0; row < rows; row += TILE) {
    size_t row_end = min_size(row + TILE, rows);
    for (size_t column = 0; column < columns; column += TILE) {
      size_t column_end = min_size(column + TILE, columns);
      for (size_t r = row; r < row_end; r++) {
        for (size_t c = column; c < column_end; c++) {
          to[c * to_stride + r] = from[r * from_stride + c];
        }
      }
    }
  }
}

/* Number of rows of `columns` elements that fit into a chunk. */
static size_t rows_per_chunk(size_t columns) {
  return columns < TRAIN_CHUNK ? TRAIN_CHUNK / columns : 1;
}

/* Elements of a buffer for rows_per_chunk rows of any tensor. */
static size_t chunk_elements(const train_layout_t *layout) {
  size_t max = TRAIN_CHUNK;
  for (int i = 0; i < layout->tensor_count; i++) {
    if ((size_t)layout->tensors[i].rows > max) max = (size_t)layout->tensors[i].rows;
  }
  return max;
}

static size_t largest_linear(const train_layout_t *layout) {
  size_t max = 0;
  for (int i = 0; i < layout->tensor_count; i++) {
    size_t elements = elements_of(&layout->tensors[i]);
    if (layout->tensors[i].linear && elements > max) max = elements;
  }
  return max;
}

/* ---- reading ---- */

struct train_tensor_reader {
  const train_input_t *input;
  const train_layout_t *layout;
  train_tensor_location_t *locations;
  void *raw;       /* a chunk as stored in the file */
  float *chunk;    /* the same as float32 */
  float *restored; /* a transposed tensor in the model's layout; its index is in `loaded`, -1 for
                    * none */
  int loaded;
};

coll_status_t train_tensor_reader_create(const train_input_t *input, const train_layout_t *layout,
                                         const train_tensor_location_t *locations,
                                         train_tensor_reader_t **reader) {
  void *memory;
  size_t tensors = (size_t)layout->tensor_count, chunk = chunk_elements(layout);
  COLL_TRY(base_alloc(1, sizeof(train_tensor_reader_t), "a model file", &memory));
  train_tensor_reader_t *created = memory;
  created->input = input;
  created->layout = layout;
  created->loaded = -1;
  coll_status_t status = base_alloc(tensors, sizeof *locations, "the tensor locations", &memory);
  if (status != COLL_OK) goto failed;
  created->locations = memory;
  memcpy(created->locations, locations, tensors * sizeof *locations);
  status = base_alloc(2 * chunk, sizeof(float), "a chunk of a model", &memory);
  if (status != COLL_OK) goto failed;
  created->chunk = memory;
  created->raw = created->chunk + chunk;
  status = base_alloc(largest_linear(layout), sizeof(float), "a tensor", &memory);
  if (status != COLL_OK) goto failed;
  created->restored = memory;
  *reader = created;
  return COLL_OK;
failed:
  train_tensor_reader_destroy(created);
  return status;
}

void train_tensor_reader_destroy(train_tensor_reader_t *reader) {
  if (reader == NULL) return;
  free(reader->restored);
  free(reader->chunk);
  free(reader->locations);
  free(reader);
}

/* Reads elements first .. first + count - 1 of the tensor in the file's order. */
static coll_status_t read_contiguous(train_tensor_reader_t *reader,
                                     const train_tensor_location_t *location, size_t first,
                                     size_t count, float *values) {
  size_t bytes = train_dtype_bytes(location->dtype);
  while (count > 0) {
    size_t here = min_size(count, TRAIN_CHUNK);
    uint64_t at = location->offset + first * bytes;
    if (location->dtype == TRAIN_FLOAT32) {
      COLL_TRY(train_input_read(reader->input, at, here * bytes, values));
    } else {
      COLL_TRY(train_input_read(reader->input, at, here * bytes, reader->raw));
      train_dtype_widen(location->dtype, reader->raw, here, values);
    }
    first += here;
    values += here;
    count -= here;
  }
  return COLL_OK;
}

/* Loads and transposes the tensor unless it is already loaded. */
static coll_status_t load_transposed(train_tensor_reader_t *reader, int index) {
  if (reader->loaded == index) return COLL_OK;
  reader->loaded = -1;
  const train_tensor_t *tensor = &reader->layout->tensors[index];
  size_t rows = (size_t)tensor->rows, columns = (size_t)tensor->columns;
  size_t step = rows_per_chunk(rows);
  for (size_t column = 0; column < columns; column += step) {
    size_t here = min_size(step, columns - column);
    COLL_TRY(read_contiguous(reader, &reader->locations[index], column * rows, here * rows,
                             reader->chunk));
    transpose(reader->chunk, here, rows, rows, reader->restored + column, columns);
  }
  reader->loaded = index;
  return COLL_OK;
}

/* The tensor that contains the element. */
static int tensor_at(const train_layout_t *layout, size_t element) {
  int low = 0, high = layout->tensor_count - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (layout->tensors[middle].offset <= element) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

static coll_status_t read_tensors(void *context, train_array_t array, size_t first, size_t count,
                                  float *values) {
  train_tensor_reader_t *reader = context;
  if (array != TRAIN_PARAMETERS) {
    memset(values, 0, count * sizeof *values);
    return COLL_OK;
  }
  for (int i = tensor_at(reader->layout, first); count > 0; i++) {
    const train_tensor_t *tensor = &reader->layout->tensors[i];
    size_t skipped = first - tensor->offset;
    size_t here = min_size(count, elements_of(tensor) - skipped);
    if (reader->locations[i].transposed) {
      COLL_TRY(load_transposed(reader, i));
      memcpy(values, reader->restored + skipped, here * sizeof *values);
    } else {
      COLL_TRY(read_contiguous(reader, &reader->locations[i], skipped, here, values));
    }
    first += here;
    values += here;
    count -= here;
  }
  return COLL_OK;
}

train_flat_t train_tensor_reader_flat(train_tensor_reader_t *reader) {
  return (train_flat_t){.context = reader, .read = read_tensors};
}

/* ---- writing ---- */

struct train_tensor_writer {
  const train_flat_t *flat;
  train_dtype_t dtype;
  train_output_t *output;
  float *chunk;
  float *full; /* the tensor to be transposed */
};

coll_status_t train_tensor_writer_create(const train_layout_t *layout, const train_flat_t *flat,
                                         train_dtype_t dtype, train_output_t *output,
                                         train_tensor_writer_t **writer) {
  void *memory;
  COLL_TRY(base_alloc(1, sizeof(train_tensor_writer_t), "a model file", &memory));
  train_tensor_writer_t *created = memory;
  created->flat = flat;
  created->dtype = dtype;
  created->output = output;
  coll_status_t status =
      base_alloc(chunk_elements(layout), sizeof(float), "a chunk of a model", &memory);
  if (status != COLL_OK) goto failed;
  created->chunk = memory;
  status = base_alloc(largest_linear(layout), sizeof(float), "a tensor", &memory);
  if (status != COLL_OK) goto failed;
  created->full = memory;
  *writer = created;
  return COLL_OK;
failed:
  train_tensor_writer_destroy(created);
  return status;
}

void train_tensor_writer_destroy(train_tensor_writer_t *writer) {
  if (writer == NULL) return;
  free(writer->full);
  free(writer->chunk);
  free(writer);
}

/* Appends the first `count` elements of writer->chunk. */
static void write_chunk(train_tensor_writer_t *writer, size_t count) {
  train_dtype_narrow(writer->dtype, writer->chunk, count, writer->chunk);
  train_output_write(writer->output, writer->chunk, count * train_dtype_bytes(writer->dtype));
}

/* Reads the tensor in chunks. With `buffered` it is stored in writer->full, otherwise each chunk is
 * written. */
static coll_status_t read_tensor(train_tensor_writer_t *writer, const train_tensor_t *tensor,
                                 bool buffered) {
  const train_flat_t *flat = writer->flat;
  size_t count = elements_of(tensor);
  for (size_t first = 0; first < count; first += TRAIN_CHUNK) {
    size_t here = min_size(TRAIN_CHUNK, count - first);
    float *to = buffered ? writer->full + first : writer->chunk;
    COLL_TRY(flat->read(flat->context, TRAIN_PARAMETERS, tensor->offset + first, here, to));
    if (!buffered) write_chunk(writer, here);
  }
  return COLL_OK;
}

coll_status_t train_tensor_writer_add(train_tensor_writer_t *writer, const train_tensor_t *tensor,
                                      bool transposed) {
  COLL_TRY(read_tensor(writer, tensor, transposed));
  if (!transposed) return COLL_OK;
  size_t rows = (size_t)tensor->rows, columns = (size_t)tensor->columns;
  size_t step = rows_per_chunk(rows);
  for (size_t column = 0; column < columns; column += step) {
    size_t here = min_size(step, columns - column);
    transpose(writer->full + column, rows, here, columns, writer->chunk, rows);
    write_chunk(writer, here * rows);
  }
  return COLL_OK;
}

void train_tensor_writer_pad(train_tensor_writer_t *writer, size_t count) {
  size_t bytes = train_dtype_bytes(writer->dtype); /* all of a zero's are 0 */
  memset(writer->chunk, 0, min_size(count, TRAIN_CHUNK) * bytes);
  for (size_t here; count > 0; count -= here) {
    here = min_size(count, TRAIN_CHUNK);
    train_output_write(writer->output, writer->chunk, here * bytes);
  }
}
