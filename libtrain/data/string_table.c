/* Linear probing. A slot stores half of the hash, so that most mismatches are found without
 * comparing bytes. */
#include "libtrain/data/string_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define MIN_SLOTS 1024

/* Multiplicative hash, eight bytes at a time. The high half is returned because it is mixed
 * better. */
static uint32_t string_hash(const uint8_t *string, size_t count) {
  const uint64_t odd = 0x9e3779b97f4a7c15u;
  uint64_t hash = count * odd, block;
  for (; count >= sizeof block; string += sizeof block, count -= sizeof block) {
    memcpy(&block, string, sizeof block);
    hash = (hash ^ block) * odd;
    hash ^= hash >> 32;
  }
  block = 0;
  for (size_t i = 0; i < count; i++) block |= (uint64_t)string[i] << (8 * i);
  hash = (hash ^ block) * odd;
  return (uint32_t)((hash ^ (hash >> 29)) * odd >> 32);
}

const uint8_t *train_string_table_get(const train_string_table_t *table, uint32_t index,
                                      size_t *count) {
  assert(index < table->count);
  uint64_t start = index > 0 ? table->ends[index - 1] : 0;
  *count = (size_t)(table->ends[index] - start);
  return table->bytes + start;
}

size_t train_string_table_bytes(const train_string_table_t *table) {
  return table->count > 0 ? (size_t)table->ends[table->count - 1] : 0;
}

/* The slot of the string, or the empty slot where it would be inserted. */
static train_string_slot_t *slot_of(const train_string_table_t *table, const uint8_t *string,
                                    size_t count, uint32_t hash) {
  size_t mask = table->slot_count - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    train_string_slot_t *slot = &table->slots[at];
    if (slot->index == 0) return slot;
    if (slot->hash != hash) continue;
    size_t length;
    const uint8_t *other = train_string_table_get(table, slot->index - 1, &length);
    if (length == count && memcmp(other, string, count) == 0) return slot;
  }
}

uint32_t train_string_table_find(const train_string_table_t *table, const void *string,
                                 size_t count) {
  if (table->slot_count == 0) return TRAIN_STRING_NONE;
  const train_string_slot_t *slot = slot_of(table, string, count, string_hash(string, count));
  return slot->index > 0 ? slot->index - 1 : TRAIN_STRING_NONE;
}

static coll_status_t double_slots(train_string_table_t *table) {
  size_t new_count = table->slot_count > 0 ? 2 * table->slot_count : MIN_SLOTS;
  void *memory;
  COLL_TRY(base_alloc(new_count, sizeof *table->slots, "a string table", &memory));
  train_string_slot_t *slots = memory;
  for (size_t i = 0; i < table->slot_count; i++) {
    if (table->slots[i].index == 0) continue;
    size_t at = table->slots[i].hash & (new_count - 1);
    while (slots[at].index != 0) at = (at + 1) & (new_count - 1);
    slots[at] = table->slots[i];
  }
  free(table->slots);
  table->slots = slots;
  table->slot_count = new_count;
  return COLL_OK;
}

static coll_status_t append(train_string_table_t *table, const uint8_t *string, size_t count) {
  size_t used = train_string_table_bytes(table);
  void *bytes = table->bytes, *ends = table->ends;
  COLL_TRY(base_grow(&bytes, &table->byte_capacity, used + count, 1, "strings"));
  table->bytes = bytes;
  COLL_TRY(
      base_grow(&ends, &table->end_capacity, table->count + 1, sizeof *table->ends, "strings"));
  table->ends = ends;
  memcpy(table->bytes + used, string, count);
  table->ends[table->count++] = used + count;
  return COLL_OK;
}

coll_status_t train_string_table_add(train_string_table_t *table, const void *string, size_t count,
                                     uint32_t *index) {
  if (2 * (table->count + 1) > table->slot_count) COLL_TRY(double_slots(table));
  uint32_t hash = string_hash(string, count);
  train_string_slot_t *slot = slot_of(table, string, count, hash);
  if (slot->index == 0) {
    if (table->count >= TRAIN_STRING_NONE - 1) {
      return base_fail(COLL_ERROR_UNSUPPORTED, "more than %zu different strings", table->count);
    }
    COLL_TRY(append(table, string, count));
    *slot = (train_string_slot_t){hash, (uint32_t)table->count};
  }
  *index = slot->index - 1;
  return COLL_OK;
}

void train_string_table_free(train_string_table_t *table) {
  free(table->bytes);
  free(table->ends);
  free(table->slots);
  *table = (train_string_table_t){0};
}
