/*
 * Which device and which address of it: pure functions of what the system says.
 */
#ifndef TRANSPORT_NET_WIRE_VERBS_CHOOSE_H
#define TRANSPORT_NET_WIRE_VERBS_CHOOSE_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the text is a list of devices as COLL_IB_HCA takes it: "mlx5_0:1,^mlx5_1". Each element
 * is a prefix of a device's name and perhaps a port. "=" before it asks for the whole name; "^"
 * before it excludes what it matches. Either at the beginning of the list is for all elements, as
 * in NCCL_IB_HCA. */
bool verbs_hca_is_list(const char *list);

/* Whether a port may be used: it is not excluded, and is matched if any element asks for something.
 * The empty list allows all. */
bool verbs_hca_allows(const char *list, const char *device, int port);

/* An address of a port (GID), as in the table of the port. */
typedef struct verbs_gid {
  uint8_t bytes[16];
  bool is_v2; /* RoCE version 2, over UDP */
} verbs_gid_t;

/* The index of the address to be used on Ethernet: version 2 before 1; of those IPv4 before other
 * IPv6 before link-local ones; of those the first. -1: there is none. */
int verbs_gid_choose(const verbs_gid_t gids[], int count);

#endif
