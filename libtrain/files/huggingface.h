/*
 * GPT-2 in the format of Hugging Face's transformers: a folder with model.safetensors, config.json
 * and optionally tokenizer.json. Weights of linear layers are stored transposed ("Conv1D"). Reads
 * names with and without the prefix "transformer." and writes them without it, like the published
 * gpt2; reads and writes float32, float16 and bfloat16.
 */
#ifndef LIBTRAIN_FILES_HUGGINGFACE_H
#define LIBTRAIN_FILES_HUGGINGFACE_H

#include "libtrain/files/format.h"

/* A path is the folder, or the safetensors file with config.json next to it. COLL_ERROR_INVALID
 * names unsupported features in config.json (another activation, untied embeddings ...) and tensors
 * that are missing, unknown or of the wrong shape. */
extern const train_format_t train_format_huggingface;

#endif
