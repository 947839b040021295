/*
 * TCP connections between all ranks of limit_net, without any library: several sockets per pair,
 * and the barrier and maximum that timing needs.
 */
#ifndef BENCH_LIMIT_LINKS_H
#define BENCH_LIMIT_LINKS_H

#include <coll.h>

enum {
  LIMIT_LINKS_RANKS_MAX = 64,
  LIMIT_LINKS_HOSTS_MAX = 16,
  LIMIT_SOCKETS = 3, /* per pair: two with the kernel's sizes of buffers, one with large buffers */
  LIMIT_LARGE_SOCKET = 2
};

/* The ranks of a host have consecutive numbers, and every host has equally many. */
typedef struct limit_links {
  int rank, ranks, hosts, per_host;
  int sockets[LIMIT_LINKS_RANKS_MAX][LIMIT_SOCKETS]; /* to each other rank; -1 to this one */
} limit_links_t;

/* Connects this rank to all others. addresses: the IPv4 addresses of the hosts, with commas. Rank r
 * listens at port + r. Fails after 20 s. Close the links also after a failure. */
coll_status_t limit_links_open(const char *addresses, int port, int rank, int ranks,
                               limit_links_t *links);
void limit_links_close(limit_links_t *links);

/* Through rank 0, on the first socket of each pair, which must carry no other data at that time. */
coll_status_t limit_links_max(const limit_links_t *links, double *values, int count);

/* Sends or receives all bytes, and blocks. */
coll_status_t limit_links_send(int fd, const void *data, size_t bytes);
coll_status_t limit_links_receive(int fd, void *data, size_t bytes);

#endif
