/*
 * The safetensors container format: eight bytes with the length of a JSON header, the header with
 * name, type, shape and byte range of each tensor, and the data. Files are untrusted: all header
 * fields are validated.
 */
#ifndef LIBTRAIN_FILES_SAFETENSORS_H
#define LIBTRAIN_FILES_SAFETENSORS_H

#include <stdbool.h>

#include "libtrain/files/io.h"

#define TRAIN_SAFETENSORS_DIMENSIONS 8

typedef struct train_safetensor {
  char *name;   /* owned by the list */
  char type[8]; /* "F32", "F16", "BF16" ... */
  int dimensions;
  uint64_t shape[TRAIN_SAFETENSORS_DIMENSIONS];
  uint64_t offset, bytes; /* in the file */
} train_safetensor_t;

typedef struct train_safetensors {
  train_safetensor_t *tensors; /* sorted by offset */
  size_t count;
} train_safetensors_t;

/* Whether a file that starts with these bytes may be a safetensors file. */
bool train_safetensors_matches(const uint8_t *start, size_t count);

/* Reads the header of an open file. COLL_ERROR_INVALID names the file unless the tensors cover the
 * data without gaps and overlaps up to the end of the file, and each tensor has the size that its
 * type and shape require. */
coll_status_t train_safetensors_read(const train_input_t *input, train_safetensors_t *list);
void train_safetensors_free(train_safetensors_t *list);

/* The tensor of that name; NULL if there is none. */
const train_safetensor_t *train_safetensors_find(const train_safetensors_t *list, const char *name);

/* "[768, 2304]". Returns `text`. */
const char *train_safetensor_shape(const train_safetensor_t *tensor, char text[96]);

/* Writes the header for these tensors, of which name, type, shape and bytes are used. The data must
 * follow in the same order. */
coll_status_t train_safetensors_begin(const train_safetensor_t *tensors, size_t count,
                                      train_output_t *output);

#endif
