/*
 * GPT-2 as Hugging Face's transformers keeps it: a folder with model.safetensors, config.json and,
 * where there is one, tokenizer.json. Weights of linear layers lie transposed in it ("Conv1D").
 * Names with and without the prefix "transformer." are read, in float32, float16 and bfloat16;
 * float32 without the prefix is written, like the published gpt2.
 */
#ifndef LIBTRAIN_FILES_HUGGINGFACE_H
#define LIBTRAIN_FILES_HUGGINGFACE_H

#include "libtrain/files/file.h"

/* A path is the folder, or the safetensors file with config.json beside it. What a config asks for
 * that this GPT-2 has not (another activation, untied embeddings ...), tensors that are missing,
 * unknown or of another shape: COLL_ERROR_INVALID names them. */
extern const train_format_t train_format_huggingface;

#endif
