/*
 * Memory of frames that are kept until they are acknowledged, and of messages that nobody waits for
 * yet. Large calls need and free much of it again and again. malloc would return it to the system
 * and get it back as new pages each time, so some blocks are held for the next frame; the one that
 * was freed last, which caches hold, is used first.
 */
#include <stdlib.h>

#include "transport/tcp/end.h"

#define POOLED_BYTES_MIN 4096 /* smaller ones are malloc's */
#define POOLED_BYTES (TCP_SLOT_BYTES + 128)
#define FREE_MAX 32 /* 2 MiB */

struct tcp_block {
  tcp_block_t *next;
};

static bool is_pooled(size_t bytes) {
  return bytes >= POOLED_BYTES_MIN && bytes <= POOLED_BYTES;
}

void *tcp_block_get(tcp_t *end, size_t bytes) {
  tcp_block_t *block = end->blocks;
  if (!is_pooled(bytes)) return malloc(bytes);
  if (block == NULL) return malloc(POOLED_BYTES);
  end->blocks = block->next;
  end->block_count--;
  return block;
}

void tcp_block_put(tcp_t *end, void *memory, size_t bytes) {
  tcp_block_t *block = memory;
  if (!is_pooled(bytes) || end->block_count == FREE_MAX) {
    free(memory);
    return;
  }
  block->next = end->blocks;
  end->blocks = block;
  end->block_count++;
}

void tcp_blocks_free(tcp_t *end) {
  for (tcp_block_t *block = end->blocks, *next; block != NULL; block = next) {
    next = block->next;
    free(block);
  }
  end->blocks = NULL;
}
