/*
 * Model files of llm.c: 256 int32, of which the first eight are magic number, version (3: float32,
 * 5: bfloat16), context, vocabulary, layers, heads, width and padded vocabulary; then the token
 * table with padding, the position table, each kind of block tensor for all layers, and the final
 * layernorm. Reads and writes both versions.
 */
#ifndef LIBTRAIN_FILES_LLMC_H
#define LIBTRAIN_FILES_LLMC_H

#include "libtrain/files/format.h"

extern const train_format_t train_format_llmc;

#endif
