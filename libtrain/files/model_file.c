/* The table of formats, searched by content or by name. */
#include "libtrain/files/model_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "libtrain/files/checkpoint.h"
#include "libtrain/files/huggingface.h"
#include "libtrain/files/llmc.h"

#define START_BYTES 16

static const train_format_t *const formats[] = {&train_format_checkpoint, &train_format_huggingface,
                                                &train_format_llmc};

#define FORMATS (sizeof formats / sizeof formats[0])

/* "checkpoint (*.ckpt), ..." */
static const char *all_formats(char text[256]) {
  size_t used = 0;
  for (size_t i = 0; i < FORMATS && used < 256; i++) {
    const char *before = i == 0 ? "" : i + 1 < FORMATS ? ", " : " or ";
    used += (size_t)snprintf(text + used, 256 - used, "%s%s (%s)", before, formats[i]->name,
                             formats[i]->pattern);
  }
  return text;
}

static coll_status_t fail_dtype(const char *path, const train_format_t *format,
                                train_dtype_t dtype) {
  char text[128] = "";
  size_t used = 0;
  for (int i = 0; i < TRAIN_DTYPES && used < sizeof text; i++) {
    if (!format->stores[i]) continue;
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? " or " : "",
                             train_dtype_name((train_dtype_t)i));
  }
  return base_fail(COLL_ERROR_INVALID, "cannot write %s in %s: a %s stores %s", path,
                   train_dtype_name(dtype), format->name, text);
}

coll_status_t train_format_for_path(const char *path, train_dtype_t dtype,
                                    const train_format_t **format) {
  char text[256];
  for (size_t i = 0; i < FORMATS; i++) {
    if (!formats[i]->matches_path(path)) continue;
    if (!formats[i]->stores[dtype]) return fail_dtype(path, formats[i], dtype);
    *format = formats[i];
    return COLL_OK;
  }
  return base_fail(COLL_ERROR_INVALID, "the name %s does not say which format to write: give a %s",
                   path, all_formats(text));
}

static coll_status_t detect_format(const char *path, bool folder, train_model_file_t *file) {
  uint8_t start[START_BYTES];
  char text[256];
  size_t count = 0;
  if (!folder) {
    count = file->input.bytes < START_BYTES ? (size_t)file->input.bytes : START_BYTES;
    COLL_TRY(train_input_read(&file->input, 0, count, start));
  }
  for (size_t i = 0; i < FORMATS; i++) {
    if (formats[i]->matches_content(path, folder, start, count)) {
      file->format = formats[i];
      return COLL_OK;
    }
  }
  return base_fail(COLL_ERROR_INVALID, "%s is not a %s", path, all_formats(text));
}

coll_status_t train_model_file_open(const char *path, train_model_file_t **file) {
  struct stat found;
  void *memory;
  if (stat(path, &found) != 0) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot read %s", path);
  COLL_TRY(base_alloc(1, sizeof(train_model_file_t), "a model file", &memory));
  train_model_file_t *opened = memory;
  opened->input.file = -1;
  bool folder = S_ISDIR(found.st_mode);
  coll_status_t status = folder ? COLL_OK : train_input_open(path, &opened->input);
  if (status == COLL_OK) status = detect_format(path, folder, opened);
  if (status == COLL_OK) status = opened->format->open(path, opened);
  if (status != COLL_OK) {
    train_model_file_close(opened);
    return status;
  }
  *file = opened;
  return COLL_OK;
}

void train_model_file_close(train_model_file_t *file) {
  if (file == NULL) return;
  if (file->format != NULL) file->format->close(file);
  train_layout_destroy(file->layout);
  train_metadata_free(&file->metadata);
  if (file->input.file >= 0) train_input_close(&file->input);
  free(file);
}

static coll_status_t read_runs(const train_model_file_t *file, const train_layout_t *part,
                               train_dtype_t dtype, float *buffer, void *parameters) {
  for (size_t at = 0, full; at < part->parameter_count;) {
    size_t run = train_layout_run(part, at, &full);
    if (full != TRAIN_LAYOUT_PADDING) {
      COLL_TRY(train_flat_read_as(&file->flat, TRAIN_PARAMETERS, full, run, dtype,
                                  train_dtype_at(dtype, parameters, at), buffer));
    }
    at += run;
  }
  return COLL_OK;
}

coll_status_t train_model_file_read_part(const train_model_file_t *file, const train_layout_t *part,
                                         train_dtype_t dtype, void **parameters) {
  void *buffer, *memory;
  COLL_TRY(base_alloc(TRAIN_CHUNK, sizeof(float), "the buffer of a file", &buffer));
  coll_status_t status =
      base_alloc(part->parameter_count, train_dtype_bytes(dtype), "the parameters", &memory);
  if (status == COLL_OK) {
    status = read_runs(file, part, dtype, buffer, memory);
    if (status != COLL_OK) free(memory);
  }
  free(buffer);
  if (status == COLL_OK) *parameters = memory;
  return status;
}

coll_status_t train_model_file_read_parameters(const train_model_file_t *file, train_dtype_t dtype,
                                               void **parameters) {
  return train_model_file_read_part(file, file->layout, dtype, parameters);
}
