/*
 * The variants of limit_net: how to wait, how many sockets of a pair carry the data, and how much
 * one system call moves. The fastest one is the limit of a call.
 */
#ifndef BENCH_LIMIT_VARIANTS_H
#define BENCH_LIMIT_VARIANTS_H

#include <coll.h>

#include <stdbool.h>
#include <stddef.h>

enum { LIMIT_VARIANT_NAME_BYTES = 32, LIMIT_VARIANTS_MAX = 32 };

typedef struct limit_variant {
  char name[LIMIT_VARIANT_NAME_BYTES]; /* as spin-2-64K: two sockets, 64 KiB in a system call */
  bool spins;                          /* tries again and again, else sleeps in poll */
  int first_socket, sockets;
  size_t call_bytes; /* of one send or recv, at most */
  size_t min_bytes;  /* of calls for which it differs from other variants */
} limit_variant_t;

typedef struct limit_variants {
  limit_variant_t list[LIMIT_VARIANTS_MAX];
  int count;
  const char *choice; /* not owned */
} limit_variants_t;

/* choice: the variants of each call, as "allreduce/65536/poll sendrecv/4/spin"; calls that it does
 * not name are not measured. NULL: all. It must stay valid. Fails if it names an unknown variant.
 */
coll_status_t limit_variants_make(const char *choice, limit_variants_t *variants);

/* Whether the variant is tried for calls of that collective and size in bytes. */
bool limit_variants_tries(const limit_variants_t *variants, const limit_variant_t *variant,
                          const char *collective, size_t bytes);

#endif
