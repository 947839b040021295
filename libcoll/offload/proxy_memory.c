/*
 * Pinned memory of a proxy: a block with the slots and the words, and blocks for groups of sends
 * and receives that are larger than a slot. Such a group is in memory as a whole: its messages must
 * not wait for each other, and only a stream that has nothing to wait for can copy all of them in.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "offload/proxy_state.h"
#include "transport/memory.h"

#define PAGE_BYTES 4096
#define WORD_STRIDE 64 /* a cache line */

_Static_assert((PROXY_SLOTS + 1) * WORD_STRIDE <= PAGE_BYTES, "the words are in a page");

/* Puts a block in front of the list. On failure it may be there, unpinned. */
static coll_status_t add_block(offload_proxy_t *proxy, size_t bytes) {
  proxy_block_t *block;
  COLL_TRY(base_alloc(1, sizeof *block, "pinned memory", (void **)&block));
  block->bytes = bytes;
  coll_status_t status = transport_memory_alloc(bytes, &block->memory);
  if (status != COLL_OK) {
    free(block);
    return status;
  }
  block->next = proxy->blocks;
  proxy->blocks = block;
  COLL_TRY(PROXY_CALL(proxy, cuMemHostRegister, block->memory, bytes,
                      CUDA_REGISTER_PORTABLE | CUDA_REGISTER_MAPPED));
  block->is_pinned = true;
  return COLL_OK;
}

static void set_word(proxy_slot_t *slot, char *memory, cuda_ptr_t address, size_t index) {
  slot->done = (uint32_t *)(void *)(memory + index * WORD_STRIDE);
  slot->done_address = address + index * WORD_STRIDE;
}

coll_status_t proxy_memory_init(offload_proxy_t *proxy) {
  cuda_ptr_t address = 0;
  COLL_TRY(add_block(proxy, PAGE_BYTES + 2 * PROXY_SLOTS * PROXY_SLOT_BYTES));
  char *memory = proxy->blocks->memory;
  COLL_TRY(PROXY_CALL(proxy, cuMemHostGetDevicePointer, &address, memory, 0));
  for (size_t i = 0; i < PROXY_SLOTS; i++) {
    proxy_slot_t *slot = &proxy->slots[i];
    set_word(slot, memory, address, i);
    slot->in = memory + PAGE_BYTES + 2 * i * PROXY_SLOT_BYTES;
    slot->out = slot->in + PROXY_SLOT_BYTES;
  }
  set_word(&proxy->large, memory, address, PROXY_SLOTS);
  return COLL_OK;
}

void proxy_memory_unpin(offload_proxy_t *proxy) {
  for (proxy_block_t *block = proxy->blocks; block != NULL; block = block->next) {
    if (block->is_pinned) (void)proxy->driver->cuMemHostUnregister(block->memory);
    block->is_pinned = false;
  }
}

void proxy_memory_free(offload_proxy_t *proxy) {
  while (proxy->blocks != NULL) {
    proxy_block_t *block = proxy->blocks;
    proxy->blocks = block->next;
    (void)transport_memory_free(block->memory);
    free(block);
  }
}

/* Earlier calls may still use what there was, so it is freed with the proxy. Sizes at least double,
 * so it is less than what there is. */
coll_status_t proxy_memory_find(offload_proxy_t *proxy, size_t in_bytes, size_t out_bytes,
                                const proxy_slot_t **slot) {
  size_t in = base_round_up(in_bytes, PAGE_BYTES),
         bytes = in + base_round_up(out_bytes, PAGE_BYTES);
  *slot = &proxy->slots[0];
  if (in_bytes <= PROXY_SLOT_BYTES && out_bytes <= PROXY_SLOT_BYTES) return COLL_OK;
  bool has_large = proxy->blocks->next != NULL;
  if (!has_large || proxy->blocks->bytes < bytes) {
    size_t doubled = has_large ? 2 * proxy->blocks->bytes : 0;
    COLL_TRY(add_block(proxy, bytes > doubled ? bytes : doubled));
  }
  proxy->large.in = proxy->blocks->memory;
  proxy->large.out = proxy->large.in + in;
  *slot = &proxy->large;
  return COLL_OK;
}
