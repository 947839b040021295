/*
 * Model files in any supported format: checkpoints of this program, Hugging Face's safetensors, and
 * the model files of llm.c. The format is detected by the content of a file that is read, and by
 * the name of a file that is written.
 */
#ifndef LIBTRAIN_FILES_MODEL_FILE_H
#define LIBTRAIN_FILES_MODEL_FILE_H

#include "libtrain/common/dtype.h"
#include "libtrain/files/format.h"

/* Opens the model at `path`, a file or a folder. COLL_ERROR_INVALID says what is wrong with it. */
coll_status_t train_model_file_open(const char *path, train_model_file_t **file);
void train_model_file_close(train_model_file_t *file);

/* Reads the parameters of a part of the file's model, converted to `dtype`, into memory that the
 * caller frees: [parameter_count of the part]. */
coll_status_t train_model_file_read_part(const train_model_file_t *file, const train_layout_t *part,
                                         train_dtype_t dtype, void **parameters);

/* The same of the whole model. */
coll_status_t train_model_file_read_parameters(const train_model_file_t *file, train_dtype_t dtype,
                                               void **parameters);

/* The format in which to write a model with parameters of type `dtype` to `path`.
 * COLL_ERROR_INVALID lists the supported names, or the types that the named format stores. */
coll_status_t train_format_for_path(const char *path, train_dtype_t dtype,
                                    const train_format_t **format);

#endif
