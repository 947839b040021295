/* 16 bits of sequence, 8 each of collective, dtype and op, 24 of hash. Never 0: a tag of 0 stands
 * for "not known". */
#include "engine/tag.h"

#include <stdio.h>

#include "base/names.h"

#define HASH_BITS 24
#define HASH_MASK (((uint64_t)1 << HASH_BITS) - 1)

/* Fibonacci hashing; the lowest bit is set so that no tag is 0. */
static uint64_t hash(size_t count, int root) {
  uint64_t mixed = ((uint64_t)count * 4096u + (uint64_t)root) * 0x9e3779b97f4a7c15u;
  return ((mixed >> (64 - HASH_BITS)) & HASH_MASK) | 1;
}

uint64_t engine_tag_make(uint64_t sequence, coll_collective_t collective, coll_dtype_t dtype,
                         int op, size_t count, int root) {
  return (sequence & 0xffff) << 48 | (uint64_t)(collective & 0xff) << 40 |
         (uint64_t)(dtype & 0xff) << 32 | (uint64_t)(op & 0xff) << HASH_BITS | hash(count, root);
}

uint64_t engine_tag_recount(uint64_t tag, size_t count, int root) {
  return (tag & ~HASH_MASK) | hash(count, root);
}

bool engine_tag_is_older(uint64_t tag, uint64_t than) {
  uint64_t calls = ((than >> 48) - (tag >> 48)) & 0xffff;
  return calls > 0 && calls < 0x8000;
}

static const char *or_unknown(const char *name) {
  return name != NULL ? name : "?";
}

static void describe(uint64_t tag, char *text, size_t bytes) {
  coll_collective_t collective = (coll_collective_t)((tag >> 40) & 0xff);
  coll_dtype_t dtype = (coll_dtype_t)((tag >> 32) & 0xff);
  int op = (int)((tag >> HASH_BITS) & 0xff);
  const char *op_name = op == ENGINE_OP_PREMUL ? "premul_sum" : base_op_name((coll_op_t)op);
  const char *verb =
      collective == COLL_SENDRECV ? "send/recv" : or_unknown(base_collective_name(collective));
  snprintf(text, bytes, "call %u, %s(%s%s%s)", (unsigned)(tag >> 48), verb,
           or_unknown(base_dtype_name(dtype)), op == ENGINE_OP_NONE ? "" : ", ",
           op == ENGINE_OP_NONE ? "" : or_unknown(op_name));
}

coll_status_t engine_tag_mismatch(int rank, uint64_t expected, int peer, uint64_t found) {
  char here[96], there[96];
  describe(expected, here, sizeof here);
  describe(found, there, sizeof there);
  bool same_words = (expected & ~HASH_MASK) == (found & ~HASH_MASK);
  return base_fail(COLL_ERROR_MISMATCH,
                   "rank %d is in %s, but rank %d is in %s%s: all ranks must make the same calls "
                   "in the same order",
                   rank, here, peer, there, same_words ? " with another count or root" : "");
}
