/*
 * Memory of frames that are kept until they are acknowledged, and of messages that nobody waits for
 * yet. Calls need and free much of it again and again. malloc would return large blocks to the
 * system and get them back as new pages each time, so blocks of a few sizes are held for the next
 * frame; the one that was freed last, which caches hold, is used first.
 */
#include <stdlib.h>

#include "transport/net/channel/state.h"

#define HEAD_BYTES 256 /* at least what stands before a payload */

static const struct {
  size_t bytes;
  int held_max;
} kinds[NET_BLOCK_KINDS] = {{512 + HEAD_BYTES, 256},
                            {8192 + HEAD_BYTES, 64},
                            {65536 + HEAD_BYTES, 32},
                            {262144 + HEAD_BYTES, 32},
                            {NET_SLOT_BYTES + HEAD_BYTES, 16}};

typedef struct net_block {
  struct net_block *next;
} net_block_t;

/* NET_BLOCK_KINDS: of no kind. */
static int kind_of(size_t bytes) {
  int kind = 0;
  while (kind < NET_BLOCK_KINDS && bytes > kinds[kind].bytes) kind++;
  return kind;
}

void *net_block_get(net_channels_t *channels, size_t bytes) {
  int kind = kind_of(bytes);
  if (kind == NET_BLOCK_KINDS) return malloc(bytes);
  net_block_t *block = channels->blocks[kind].first;
  if (block == NULL) return malloc(kinds[kind].bytes);
  channels->blocks[kind].first = block->next;
  channels->blocks[kind].count--;
  return block;
}

void net_block_put(net_channels_t *channels, void *memory, size_t bytes) {
  net_block_t *block = memory;
  int kind = kind_of(bytes);
  if (kind == NET_BLOCK_KINDS || channels->blocks[kind].count == kinds[kind].held_max) {
    free(memory);
    return;
  }
  block->next = channels->blocks[kind].first;
  channels->blocks[kind].first = block;
  channels->blocks[kind].count++;
}

void net_blocks_free(net_channels_t *channels) {
  for (int kind = 0; kind < NET_BLOCK_KINDS; kind++) {
    for (net_block_t *block = channels->blocks[kind].first, *next; block != NULL; block = next) {
      next = block->next;
      free(block);
    }
    channels->blocks[kind].first = NULL;
  }
}
