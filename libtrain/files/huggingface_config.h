/* config.json of a GPT-2: what transformers wants to know of a model beside its tensors. */
#ifndef LIBTRAIN_FILES_HUGGINGFACE_CONFIG_H
#define LIBTRAIN_FILES_HUGGINGFACE_CONFIG_H

#include "libtrain/files/io.h"
#include "libtrain/files/record.h"

/* The sizes in the config.json at `path`. COLL_ERROR_INVALID names what is missing, or what it asks
 * for that this GPT-2 does otherwise. */
coll_status_t train_huggingface_config_read(const char *path, train_model_config_t *config);

/* Writes the config of the record's model. Its end of text is the token "<|endoftext|>" of the
 * tokenizer; without one, the last token of GPT-2's vocabulary, or 0 of a vocabulary of bytes. */
coll_status_t train_huggingface_config_write(const train_record_t *record, train_output_t *output);

/* COLL_ERROR_INVALID when there is a file at `path` that is no config.json of a GPT-2: it is
 * somebody else's and must not be replaced. */
coll_status_t train_huggingface_config_guard(const char *path);

#endif
