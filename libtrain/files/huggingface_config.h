/* config.json of a GPT-2, the model description that transformers reads in addition to the
 * tensors. */
#ifndef LIBTRAIN_FILES_HUGGINGFACE_CONFIG_H
#define LIBTRAIN_FILES_HUGGINGFACE_CONFIG_H

#include "libtrain/common/dtype.h"
#include "libtrain/files/io.h"
#include "libtrain/files/metadata.h"

/* Reads the sizes from the config.json at `path`; its torch_dtype is ignored, because each tensor
 * has its own type. COLL_ERROR_INVALID names what is missing or not supported by this GPT-2. */
coll_status_t train_huggingface_config_read(const char *path, train_model_config_t *config);

/* Writes the config of the metadata's model with torch_dtype `dtype`. The end-of-text id is that of
 * "<|endoftext|>" in the tokenizer; without a tokenizer the last id of GPT-2's vocabulary, or 0 for
 * a byte vocabulary. */
coll_status_t train_huggingface_config_write(const train_metadata_t *metadata, train_dtype_t dtype,
                                             train_output_t *output);

/* COLL_ERROR_INVALID if there is a file at `path` that is not the config.json of a GPT-2 and
 * therefore must not be replaced. */
coll_status_t train_huggingface_config_check_replaceable(const char *path);

#endif
