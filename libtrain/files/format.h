/*
 * The interface that each model file format implements, and the state of a model file that was
 * opened through it. model_file.c selects the format.
 */
#ifndef LIBTRAIN_FILES_FORMAT_H
#define LIBTRAIN_FILES_FORMAT_H

#include "libtrain/common/dtype.h"
#include "libtrain/files/flat.h"
#include "libtrain/files/io.h"
#include "libtrain/files/metadata.h"

/* An open model file. Elements are read from the disk on request, in any order, by any number of
 * processes. A read that finds corruption fails with COLL_ERROR_INVALID and names the file. */
typedef struct train_model_file {
  const struct train_format *format;
  train_metadata_t metadata; /* position and moments are empty if the format does not store them */
  train_layout_t *layout;    /* of metadata.config */
  train_flat_t flat;
  train_input_t input;
} train_model_file_t;

typedef struct train_format {
  const char *name;    /* "checkpoint", "safetensors", "llm.c model" */
  const char *pattern; /* file names to write this format to: "*.ckpt" */
  bool has_run_state;  /* stores position, moments and settings */
  bool has_tokenizer;
  bool stores[TRAIN_DTYPES]; /* element types in which parameters can be written */

  /* Whether the file is in this format; `start` holds its first bytes, nothing for a folder. */
  bool (*matches_content)(const char *path, bool folder, const uint8_t *start, size_t count);

  /* Whether a file of that name is written in this format. */
  bool (*matches_path)(const char *path);

  /* Fills *file. On entry only format and, unless `path` is a folder, input are set. close frees
   * flat.context, also after open failed; train_model_file_close frees the rest. */
  coll_status_t (*open)(const char *path, train_model_file_t *file);
  void (*close)(train_model_file_t *file);

  /* Writes a model with parameters of a type that the format stores, rounded by
   * train_dtype_narrow; files are replaced atomically. State that the format cannot store is
   * omitted. */
  coll_status_t (*write)(const char *path, const train_metadata_t *metadata,
                         const train_flat_t *flat, train_dtype_t dtype);
} train_format_t;

#endif
