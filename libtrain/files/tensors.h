/*
 * The tensors of a model where a foreign format puts them: each at a place of its own in the file,
 * as float32, float16 or bfloat16, and perhaps transposed. Reading makes a flat space of a file
 * whose places are known; writing appends one tensor after the other.
 */
#ifndef LIBTRAIN_FILES_TENSORS_H
#define LIBTRAIN_FILES_TENSORS_H

#include "libtrain/files/flat.h"
#include "libtrain/files/io.h"
#include "libtrain/model/layout.h"

typedef enum train_element { TRAIN_FLOAT32, TRAIN_FLOAT16, TRAIN_BFLOAT16 } train_element_t;

size_t train_element_bytes(train_element_t element);

/* count elements in `bytes` as float32, which holds every value of the others. */
void train_element_widen(train_element_t element, const void *bytes, size_t count, float *values);

/* Where a tensor is in a file. Transposed: it is there as [columns, rows]. */
typedef struct train_place {
  uint64_t offset;
  train_element_t element;
  bool transposed;
} train_place_t;

/* ---- reading */

typedef struct train_tensor_reader train_tensor_reader_t;

/* A reader of the file whose tensor i (of layout->tensors) is at places[i]; it takes a copy of the
 * places. The file and the layout must outlive it. */
coll_status_t train_tensor_reader_create(const train_input_t *input, const train_layout_t *layout,
                                         const train_place_t *places,
                                         train_tensor_reader_t **reader);
void train_tensor_reader_destroy(train_tensor_reader_t *reader);

/* The file as a flat space whose moments are zeros. One transposed tensor at a time is held in
 * memory; everything else goes through in pieces. */
train_flat_t train_tensor_reader_flat(train_tensor_reader_t *reader);

/* ---- writing */

typedef struct train_tensor_writer train_tensor_writer_t;

/* A writer of tensors of the layout, with room for the largest that is transposed. */
coll_status_t train_tensor_writer_create(const train_layout_t *layout, const train_flat_t *flat,
                                         train_output_t *output, train_tensor_writer_t **writer);
void train_tensor_writer_destroy(train_tensor_writer_t *writer);

/* Appends the tensor as float32, as [columns, rows] when transposed. */
coll_status_t train_tensor_writer_add(train_tensor_writer_t *writer, const train_tensor_t *tensor,
                                      bool transposed);

/* Appends `count` elements of 0. */
void train_tensor_writer_pad(train_tensor_writer_t *writer, size_t count);

#endif
