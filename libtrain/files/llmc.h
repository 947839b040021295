/*
 * Model files of llm.c: 256 int32, of which the first eight are a magic number, a version (3:
 * float32, 5: bfloat16), context, vocabulary, layers, heads, width and padded vocabulary; then
 * the token table with its padding, the position table, each kind of tensor of a block for all
 * layers, and the final layernorm. Both versions are read, version 3 is written.
 */
#ifndef LIBTRAIN_FILES_LLMC_H
#define LIBTRAIN_FILES_LLMC_H

#include "libtrain/files/file.h"

extern const train_format_t train_format_llmc;

#endif
