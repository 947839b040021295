/*
 * Reads and writes model tensors in other programs' formats, in which each tensor has its own
 * offset and element type (float32, float16 or bfloat16) and may be transposed. The reader presents
 * such a file as a flat space; the writer appends tensors one by one.
 */
#ifndef LIBTRAIN_FILES_TENSORS_H
#define LIBTRAIN_FILES_TENSORS_H

#include "libtrain/common/dtype.h"
#include "libtrain/files/flat.h"
#include "libtrain/files/io.h"
#include "libtrain/model/layout.h"

/* Location of a tensor in a file. Transposed: stored as [columns, rows]. */
typedef struct train_tensor_location {
  uint64_t offset;
  train_dtype_t dtype;
  bool transposed;
} train_tensor_location_t;

/* ---- reading */

typedef struct train_tensor_reader train_tensor_reader_t;

/* A reader for a file that stores tensor i of layout->tensors at locations[i], which is copied. The
 * file and the layout must outlive the reader. */
coll_status_t train_tensor_reader_create(const train_input_t *input, const train_layout_t *layout,
                                         const train_tensor_location_t *locations,
                                         train_tensor_reader_t **reader);
void train_tensor_reader_destroy(train_tensor_reader_t *reader);

/* The file as a flat space with zero moments. The reader buffers one transposed tensor at a time;
 * all other data is read in chunks. */
train_flat_t train_tensor_reader_flat(train_tensor_reader_t *reader);

/* ---- writing */

typedef struct train_tensor_writer train_tensor_writer_t;

/* Creates a writer for tensors of the layout, with a buffer for the largest transposed one. All
 * elements are written as `dtype`, rounded by train_dtype_narrow. */
coll_status_t train_tensor_writer_create(const train_layout_t *layout, const train_flat_t *flat,
                                         train_dtype_t dtype, train_output_t *output,
                                         train_tensor_writer_t **writer);
void train_tensor_writer_destroy(train_tensor_writer_t *writer);

/* Appends the tensor; as [columns, rows] if transposed. */
coll_status_t train_tensor_writer_add(train_tensor_writer_t *writer, const train_tensor_t *tensor,
                                      bool transposed);

/* Appends `count` zero elements. */
void train_tensor_writer_pad(train_tensor_writer_t *writer, size_t count);

#endif
