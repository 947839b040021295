/*
 * Words as tokens that grow together: one position per byte, and no links. A token is found by the
 * position of its first byte; its length stands there and at its last byte, which is enough to step
 * to its neighbours on both sides.
 */
#ifndef LIBTRAIN_DATA_SYMBOLS_H
#define LIBTRAIN_DATA_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

#define TRAIN_SYMBOL_NONE UINT32_MAX /* within a token, or between two words */

typedef struct train_symbol {
  uint32_t id;
  uint32_t length; /* bytes; 0 between two words */
} train_symbol_t;

/* Makes one token of those that begin at `left` and, right after it, at `right`. */
static inline void train_symbols_merge(train_symbol_t *symbols, size_t left, size_t right,
                                       uint32_t id) {
  uint32_t length = symbols[left].length + symbols[right].length;
  symbols[right].id = TRAIN_SYMBOL_NONE;
  symbols[left] = (train_symbol_t){id, length};
  symbols[left + length - 1].length = length;
}

#endif
