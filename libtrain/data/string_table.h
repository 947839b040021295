/*
 * A string interning table: assigns consecutive indexes to distinct byte strings in the order of
 * insertion. Used for vocabularies and for the distinct words of a text. The strings are
 * concatenated in one buffer; a hash table maps them to indexes.
 */
#ifndef LIBTRAIN_DATA_STRING_TABLE_H
#define LIBTRAIN_DATA_STRING_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define TRAIN_STRING_NONE UINT32_MAX

typedef struct train_string_slot {
  uint32_t hash, index; /* index + 1; 0 for an empty slot */
} train_string_slot_t;

/* All zero is the empty table. */
typedef struct train_string_table {
  size_t count;
  uint8_t *bytes; /* the strings, concatenated */
  size_t byte_capacity;
  uint64_t *ends; /* [count]: end offset of each string in bytes */
  size_t end_capacity;
  train_string_slot_t *slots; /* [slot_count], a power of two, at most half full */
  size_t slot_count;
} train_string_table_t;

/* The index of a string, or TRAIN_STRING_NONE. */
uint32_t train_string_table_find(const train_string_table_t *table, const void *string,
                                 size_t count);

/* Finds the string or adds it with index table->count. */
coll_status_t train_string_table_add(train_string_table_t *table, const void *string, size_t count,
                                     uint32_t *index);

/* The string with this index. The pointer is valid until the next insertion. */
const uint8_t *train_string_table_get(const train_string_table_t *table, uint32_t index,
                                      size_t *count);

/* Total bytes of all strings. */
size_t train_string_table_bytes(const train_string_table_t *table);

void train_string_table_free(train_string_table_t *table);

#endif
