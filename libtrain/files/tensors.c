/*
 * A tensor that lies in the file as in memory is copied piece by piece. A transposed one is turned
 * as a whole on its first use, in tiles that keep both sides within the cache.
 */
#include "libtrain/files/tensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define TILE 16

/* ---- elements ---- */

size_t train_element_bytes(train_element_t element) {
  return element == TRAIN_FLOAT32 ? 4 : 2;
}

static float from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* IEEE 754: exponents are biased by 15 here and by 127 there. Below the smallest normal value the
 * exponent is that of 2^-14 without its implicit one. */
static float from_half(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = (half >> 10) & 31;
  uint32_t fraction = half & 0x3ff;
  if (exponent == 31) return from_bits(sign | 0x7f800000 | fraction << 13);
  if (exponent > 0) return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
  float value = (float)fraction * 0x1p-24f;
  return sign != 0 ? -value : value;
}

void train_element_widen(train_element_t element, const void *bytes, size_t count, float *values) {
  if (element == TRAIN_FLOAT32) {
    memcpy(values, bytes, count * sizeof *values);
    return;
  }
  const uint8_t *from = bytes;
  for (size_t i = 0; i < count; i++) {
    uint16_t bits;
    memcpy(&bits, from + i * sizeof bits, sizeof bits);
    values[i] = element == TRAIN_BFLOAT16 ? from_bits((uint32_t)bits << 16) : from_half(bits);
  }
}

/* ---- what both sides use ---- */

static size_t elements_of(const train_tensor_t *tensor) {
  return (size_t)tensor->rows * (size_t)tensor->columns;
}

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

/* to[column * to_stride + row] = from[row * from_stride + column] */
static void transpose(const float *from, size_t rows, size_t columns, size_t from_stride, float *to,
                      size_t to_stride) {
  for (size_t row = 0; row < rows; row += TILE) {
    size_t row_end = least(row + TILE, rows);
    for (size_t column = 0; column < columns; column += TILE) {
      size_t column_end = least(column + TILE, columns);
      for (size_t r = row; r < row_end; r++) {
        for (size_t c = column; c < column_end; c++) {
          to[c * to_stride + r] = from[r * from_stride + c];
        }
      }
    }
  }
}

/* How many rows of `columns` elements go through at a time. */
static size_t rows_of_piece(size_t columns) {
  return columns < TRAIN_PIECE ? TRAIN_PIECE / columns : 1;
}

/* Elements of a buffer for rows_of_piece rows of any tensor. */
static size_t piece_elements(const train_layout_t *layout) {
  size_t most = TRAIN_PIECE;
  for (int i = 0; i < layout->tensor_count; i++) {
    if ((size_t)layout->tensors[i].rows > most) most = (size_t)layout->tensors[i].rows;
  }
  return most;
}

static size_t largest_linear(const train_layout_t *layout) {
  size_t most = 0;
  for (int i = 0; i < layout->tensor_count; i++) {
    size_t elements = elements_of(&layout->tensors[i]);
    if (layout->tensors[i].linear && elements > most) most = elements;
  }
  return most;
}

/* ---- reading ---- */

struct train_tensor_reader {
  const train_input_t *input;
  const train_layout_t *layout;
  train_place_t *places;
  void *raw;     /* a piece as it is in the file */
  float *piece;  /* and as float32 */
  float *turned; /* the transposed tensor at hand, its number in `held`; -1 for none */
  int held;
};

coll_status_t train_tensor_reader_create(const train_input_t *input, const train_layout_t *layout,
                                         const train_place_t *places,
                                         train_tensor_reader_t **reader) {
  void *memory;
  size_t tensors = (size_t)layout->tensor_count, piece = piece_elements(layout);
  COLL_TRY(base_alloc(1, sizeof(train_tensor_reader_t), "a model file", &memory));
  train_tensor_reader_t *created = memory;
  created->input = input;
  created->layout = layout;
  created->held = -1;
  coll_status_t status = base_alloc(tensors, sizeof *places, "the places of tensors", &memory);
  if (status != COLL_OK) goto failed;
  created->places = memory;
  memcpy(created->places, places, tensors * sizeof *places);
  status = base_alloc(2 * piece, sizeof(float), "a piece of a model", &memory);
  if (status != COLL_OK) goto failed;
  created->piece = memory;
  created->raw = created->piece + piece;
  status = base_alloc(largest_linear(layout), sizeof(float), "a tensor", &memory);
  if (status != COLL_OK) goto failed;
  created->turned = memory;
  *reader = created;
  return COLL_OK;
failed:
  train_tensor_reader_destroy(created);
  return status;
}

void train_tensor_reader_destroy(train_tensor_reader_t *reader) {
  if (reader == NULL) return;
  free(reader->turned);
  free(reader->piece);
  free(reader->places);
  free(reader);
}

/* Elements first .. first + count - 1 of the tensor as it lies in the file. */
static coll_status_t read_straight(train_tensor_reader_t *reader, const train_place_t *place,
                                   size_t first, size_t count, float *values) {
  size_t bytes = train_element_bytes(place->element);
  while (count > 0) {
    size_t here = least(count, TRAIN_PIECE);
    uint64_t at = place->offset + first * bytes;
    if (place->element == TRAIN_FLOAT32) {
      COLL_TRY(train_input_read(reader->input, at, here * bytes, values));
    } else {
      COLL_TRY(train_input_read(reader->input, at, here * bytes, reader->raw));
      train_element_widen(place->element, reader->raw, here, values);
    }
    first += here;
    values += here;
    count -= here;
  }
  return COLL_OK;
}

/* Brings the transposed tensor to hand, the right way round. */
static coll_status_t turn(train_tensor_reader_t *reader, int index) {
  if (reader->held == index) return COLL_OK;
  reader->held = -1;
  const train_tensor_t *tensor = &reader->layout->tensors[index];
  size_t rows = (size_t)tensor->rows, columns = (size_t)tensor->columns;
  size_t step = rows_of_piece(rows);
  for (size_t column = 0; column < columns; column += step) {
    size_t here = least(step, columns - column);
    COLL_TRY(
        read_straight(reader, &reader->places[index], column * rows, here * rows, reader->piece));
    transpose(reader->piece, here, rows, rows, reader->turned + column, columns);
  }
  reader->held = index;
  return COLL_OK;
}

/* The last tensor that does not begin behind the element. */
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
    size_t here = least(count, elements_of(tensor) - skipped);
    if (reader->places[i].transposed) {
      COLL_TRY(turn(reader, i));
      memcpy(values, reader->turned + skipped, here * sizeof *values);
    } else {
      COLL_TRY(read_straight(reader, &reader->places[i], skipped, here, values));
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
  train_output_t *output;
  float *piece;
  float *whole; /* the tensor to be transposed */
};

coll_status_t train_tensor_writer_create(const train_layout_t *layout, const train_flat_t *flat,
                                         train_output_t *output, train_tensor_writer_t **writer) {
  void *memory;
  COLL_TRY(base_alloc(1, sizeof(train_tensor_writer_t), "a model file", &memory));
  train_tensor_writer_t *created = memory;
  created->flat = flat;
  created->output = output;
  coll_status_t status =
      base_alloc(piece_elements(layout), sizeof(float), "a piece of a model", &memory);
  if (status != COLL_OK) goto failed;
  created->piece = memory;
  status = base_alloc(largest_linear(layout), sizeof(float), "a tensor", &memory);
  if (status != COLL_OK) goto failed;
  created->whole = memory;
  *writer = created;
  return COLL_OK;
failed:
  train_tensor_writer_destroy(created);
  return status;
}

void train_tensor_writer_destroy(train_tensor_writer_t *writer) {
  if (writer == NULL) return;
  free(writer->whole);
  free(writer->piece);
  free(writer);
}

/* Reads the whole tensor, a piece at a time, and passes each on or keeps it. */
static coll_status_t read_whole(train_tensor_writer_t *writer, const train_tensor_t *tensor,
                                bool kept) {
  const train_flat_t *flat = writer->flat;
  size_t count = elements_of(tensor);
  for (size_t first = 0; first < count; first += TRAIN_PIECE) {
    size_t here = least(TRAIN_PIECE, count - first);
    float *to = kept ? writer->whole + first : writer->piece;
    COLL_TRY(flat->read(flat->context, TRAIN_PARAMETERS, tensor->offset + first, here, to));
    if (!kept) train_output_write(writer->output, to, here * sizeof *to);
  }
  return COLL_OK;
}

coll_status_t train_tensor_writer_add(train_tensor_writer_t *writer, const train_tensor_t *tensor,
                                      bool transposed) {
  COLL_TRY(read_whole(writer, tensor, transposed));
  if (!transposed) return COLL_OK;
  size_t rows = (size_t)tensor->rows, columns = (size_t)tensor->columns;
  size_t step = rows_of_piece(rows);
  for (size_t column = 0; column < columns; column += step) {
    size_t here = least(step, columns - column);
    transpose(writer->whole + column, rows, here, columns, writer->piece, rows);
    train_output_write(writer->output, writer->piece, here * rows * sizeof(float));
  }
  return COLL_OK;
}

void train_tensor_writer_pad(train_tensor_writer_t *writer, size_t count) {
  memset(writer->piece, 0, least(count, TRAIN_PIECE) * sizeof *writer->piece);
  for (size_t here; count > 0; count -= here) {
    here = least(count, TRAIN_PIECE);
    train_output_write(writer->output, writer->piece, here * sizeof *writer->piece);
  }
}
