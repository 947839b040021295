/*
 * The costs of the network between hosts, which the tuner uses: measured by one rank of each host,
 * pair by pair, and cached on disk (topo/cost_cache.h) by the lower rank of a pair. Pairs are of
 * hosts whose numbers differ in one bit, the lowest first: in every round a host is in one pair at
 * most, and the number of rounds grows with the logarithm of the number of hosts. So 64 hosts need
 * six rounds of about 2 ms, or of 0.2 ms where the cache has what still holds; and of 10 ms more
 * over another wire than sockets, which has that time to connect.
 *
 * Nothing of it is a call of the communicator (network_link.h).
 */
#ifndef CALIBRATE_NETWORK_H
#define CALIBRATE_NETWORK_H

#include <stdbool.h>

#include "calibrate/network_link.h"

/* The costs of a host are those of its fastest pair, so that one slow host makes no other slow. */
comm_measure_network_t calibrate_network_measure;

/* ---- which pairs are measured (network.c) ---------------------------------------------------*/

int calibrate_network_rounds(int hosts);

/* The host with which `host` is measured in this round; -1: with none. Containers of one machine
 * are no pair where there are other machines, of which they would be faster. */
int calibrate_network_partner(const comm_network_host_t hosts[], int count, int host, int round);

/* ---- one pair (network_pair.c) --------------------------------------------------------------*/

/* No long message of a pair is begun that is expected to end later than this after the first one,
 * but for the first two, and what held one of two up. */
#define CALIBRATE_NETWORK_PAIR_NS UINT64_C(50000000)

/* Called by the ranks of both hosts at the same time; *cost is the same on both. link: to the other
 * one. Measures if the cache of the lower rank has nothing that still holds. *cost is that of the
 * cache, or its hop_ps is 0, where the ends are too busy for that, or while a process of theirs
 * measures for another communicator, too: the two share the network. */
coll_status_t calibrate_network_pair(const network_link_t *link, const comm_network_host_t *own,
                                     const comm_network_host_t *other, comm_network_cost_t *cost);

/* What lasts while this process measures for a communicator (network_alone.c): is_alone is true as
 * long as it does so for no other. */
void calibrate_network_begin(const struct coll_comm *comm);
bool calibrate_network_is_alone(void);
void calibrate_network_end(void);

/* ---- its time, and the cache (network_cache.c) ----------------------------------------------*/

/* By which factor times of undisturbed ends may differ: of half of the trips from the shortest one,
 * and of long messages both ways from those of one way. */
#define CALIBRATE_NETWORK_STEADY 3

/* The time of a hop, from those of count >= 1 round trips, which are reordered: half of the
 * shortest one. 0: they differ so much that an end has other work. */
uint64_t calibrate_network_hop_ps(uint64_t trips_ns[], int count);

/* Whether no other work has disturbed the long messages: both ways at once they take from as long
 * as one way to twice as long, or somewhat more. */
bool calibrate_network_is_plausible(const comm_network_cost_t *cost);

/* What the costs of a pair hold for: the kernels of both hosts, their interfaces, how many hosts
 * share these, and what messages go over; the same in either order. 0: a kernel is unknown, nothing
 * is cached. */
uint64_t calibrate_network_key(const comm_network_host_t *one, const comm_network_host_t *other,
                               const char *route);

/* Whether cached costs hold at now_s: for an hour, while a hop takes less than twice and more than
 * half as long as then. hop_ps: what it takes now; 0: unknown. */
bool calibrate_network_holds(const comm_network_cost_t *cost, uint64_t hop_ps, int64_t now_s);

/* False, and *cost stays as it is, if the cache has nothing plausible. */
bool calibrate_network_load(uint64_t key, comm_network_cost_t *cost);
void calibrate_network_save(uint64_t key, const comm_network_cost_t *cost);

#endif
