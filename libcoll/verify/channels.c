/* A hash table of linked lists. */
#include "verify/channels.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"

#define TABLE_MIN 256 /* a power of two */
#define NUMBERS (PLAN_CHANNELS_MAX > PLAN_LANES_MAX ? PLAN_CHANNELS_MAX : PLAN_LANES_MAX)

coll_status_t verify_channels_create(verify_channels_t *channels) {
  *channels = (verify_channels_t){.size = TABLE_MIN};
  return base_alloc(TABLE_MIN, sizeof *channels->table, "channels", (void **)&channels->table);
}

void verify_channels_free(verify_channels_t *channels) {
  for (size_t i = 0; channels->table != NULL && i < channels->size; i++) {
    verify_channel_t *channel = &channels->table[i];
    while (channel->head != NULL) free(verify_channel_pop(channel));
  }
  free(channels->table);
}

/* Never 0. */
static uint64_t key_of(bool signal, int32_t source, int32_t destination, int32_t number) {
  uint64_t pair = (uint64_t)source * PLAN_RANKS_MAX + (uint64_t)destination;
  return 1 + (pair * NUMBERS + (uint64_t)number) * 2 + (signal ? 1 : 0);
}

static verify_channel_t *slot_of(verify_channel_t *table, size_t size, uint64_t key) {
  size_t i = (size_t)(key * 0x9e3779b97f4a7c15u >> 20) & (size - 1);
  while (table[i].key != 0 && table[i].key != key) i = (i + 1) & (size - 1);
  return &table[i];
}

/* Doubles the table before it is half full_peer. */
static coll_status_t keep_sparse(verify_channels_t *channels) {
  if (channels->used * 2 < channels->size) return COLL_OK;
  verify_channel_t *table = NULL;
  size_t size = channels->size * 2;
  COLL_TRY(base_alloc(size, sizeof *table, "channels", (void **)&table));
  for (size_t i = 0; i < channels->size; i++) {
    const verify_channel_t *channel = &channels->table[i];
    if (channel->key != 0) *slot_of(table, size, channel->key) = *channel;
  }
  free(channels->table);
  channels->table = table;
  channels->size = size;
  return COLL_OK;
}

coll_status_t verify_channel_find(verify_channels_t *channels, bool signal, int32_t source,
                                  int32_t destination, int32_t number, verify_channel_t **channel) {
  COLL_TRY(keep_sparse(channels));
  uint64_t key = key_of(signal, source, destination, number);
  verify_channel_t *slot = slot_of(channels->table, channels->size, key);
  if (slot->key == 0) {
    slot->key = key;
    slot->source_lane = slot->destination_lane = -1;
    channels->used++;
  }
  *channel = slot;
  return COLL_OK;
}

coll_status_t verify_channel_push(verify_channel_t *channel, int32_t count,
                                  verify_message_t **message) {
  verify_message_t *made = NULL;
  COLL_TRY(base_alloc(1, sizeof *made + (size_t)count * sizeof made->values[0], "a message",
                      (void **)&made));
  made->count = count;
  if (channel->tail != NULL) {
    channel->tail->next = made;
  } else {
    channel->head = made;
  }
  channel->tail = made;
  channel->pushed++;
  *message = made;
  return COLL_OK;
}

verify_message_t *verify_channel_pop(verify_channel_t *channel) {
  verify_message_t *message = channel->head;
  assert(message != NULL);
  channel->head = message->next;
  if (channel->head == NULL) channel->tail = NULL;
  channel->popped++;
  return message;
}

const verify_channel_t *verify_channels_leftover(const verify_channels_t *channels) {
  for (size_t i = 0; i < channels->size; i++) {
    if (channels->table[i].head != NULL) return &channels->table[i];
  }
  return NULL;
}
