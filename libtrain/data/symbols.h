/*
 * A word as a sequence of tokens during merging: an array with one entry per byte, without links. A
 * token is identified by the position of its first byte. Its length is stored there and at its last
 * byte, so that both neighbours can be reached.
 */
#ifndef LIBTRAIN_DATA_SYMBOLS_H
#define LIBTRAIN_DATA_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

#define TRAIN_SYMBOL_NONE UINT32_MAX /* inside a token, or between two words */

typedef struct train_symbol {
  uint32_t id;
  uint32_t length; /* in bytes; 0 between two words */
} train_symbol_t;

/* Merges the token at `left` with the adjacent token at `right`. */
static inline void train_symbols_merge(train_symbol_t *symbols, size_t left, size_t right,
                                       uint32_t id) {
  uint32_t length = symbols[left].length + symbols[right].length;
  symbols[right].id = TRAIN_SYMBOL_NONE;
  symbols[left] = (train_symbol_t){id, length};
  symbols[left + length - 1].length = length;
}

#endif
