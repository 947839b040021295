/*
 * The safetensors container: eight bytes with the length of a JSON header, the header, which gives
 * each tensor a name, a type, a shape and a range of bytes, and the bytes. What it knows of tensors
 * ends there. Files may come from anywhere: nothing in a header is believed before it is checked.
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
  train_safetensor_t *tensors; /* in the order of their offsets */
  size_t count;
} train_safetensors_t;

/* Whether a file that begins so may be a safetensors file. */
bool train_safetensors_recognizes(const uint8_t *start, size_t count);

/* The header of an opened file. COLL_ERROR_INVALID, with a sentence that names the file, unless the
 * tensors' bytes follow one another without gaps and overlaps from the header to the file's end,
 * and each tensor has as many as its type and shape ask for. */
coll_status_t train_safetensors_read(const train_input_t *input, train_safetensors_t *list);
void train_safetensors_free(train_safetensors_t *list);

/* The tensor of that name, NULL when there is none. */
const train_safetensor_t *train_safetensors_find(const train_safetensors_t *list, const char *name);

/* "[768, 2304]". Returns `text`. */
const char *train_safetensor_shape(const train_safetensor_t *tensor, char text[96]);

/* Starts a file with the header of these tensors (name, type, shape and bytes are used), whose
 * bytes are to follow in this order. */
coll_status_t train_safetensors_begin(const train_safetensor_t *tensors, size_t count,
                                      train_output_t *output);

#endif
