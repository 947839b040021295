/* Ranks of the transport between hosts, as processes that meet over the loopback interface. */
#ifndef TESTS_TRANSPORT_NET_RANKS_H
#define TESTS_TRANSPORT_NET_RANKS_H

#include "transport/kit.h"
#include "transport/net/net.h"

typedef struct ranks_net {
  bool is_tree;         /* most connections are made when they are first used */
  int rails;            /* of connections that recover, by 127.0.0.1 and on; 0: one that does not */
  wire_t *wire;         /* this rank's, which is taken over; NULL: it has none */
  const bool *has_wire; /* of net_group_t */
  const net_name_t *of_3; /* where this rank is told that rank 3 is; NULL: where it is */
} ranks_net_t;

/* The slot join of transport_fixture_t. */
coll_status_t ranks_join(int rank, int size, void *board, const ranks_net_t *net,
                         transport_t **end);

/* A fixture of ranks without memory that others can map. */
#define RANKS_FIXTURE(...)                                               \
  {                                                                      \
    .size_max = HARNESS_RANKS_MAX, .alloc = transport_kit_private_alloc, \
    .release = transport_kit_private_release, __VA_ARGS__                \
  }

#endif
