/*
 * What a call is, in 64 bits that travel with its messages and signals, so that ranks whose calls
 * do not fit together find out and can say how.
 */
#ifndef ENGINE_TAG_H
#define ENGINE_TAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define ENGINE_OP_NONE 254
#define ENGINE_OP_PREMUL 255

/* sequence: the call's number on this communicator (its low bits are kept); op: a builtin op or one
 * of the two above; count: elements; root: rank or 0. count and root are kept as a hash. */
uint64_t engine_tag_make(uint64_t sequence, coll_collective_t collective, coll_dtype_t dtype,
                         int op, size_t count, int root);

/* The tag, made for call 0, of that call. */
static inline uint64_t engine_tag_of_call(uint64_t tag, uint64_t sequence) {
  return tag | (sequence & 0xffff) << 48;
}

/* The low bits of the number of the tag's call. */
static inline uint32_t engine_tag_sequence(uint64_t tag) {
  return (uint32_t)(tag >> 48);
}

/* The tag with another count, for calls whose count differs from pair to pair. */
uint64_t engine_tag_recount(uint64_t tag, size_t count, int root);

/* Whether the tag is of a call before that one. */
bool engine_tag_is_older(uint64_t tag, uint64_t than);

/* COLL_ERROR_MISMATCH with a sentence that tells both calls apart. */
coll_status_t engine_tag_mismatch(int rank, uint64_t expected, int peer, uint64_t found);

#endif
