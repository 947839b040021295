/*
 * The links between the hosts of a new communicator get the costs that its ranks measure, where
 * nothing else says what they are: no file (COLL_TOPO_FILE), and rank 0 measures (COLL_TUNE).
 * Splits have those of their parent.
 *
 * What was measured is divided into what the cores at both ends need (TUNE_DISTANT, TUNE_PUSH and
 * TUNE_CROSS) and the way over the links of the two hosts, so that the tuner's sum of these, for
 * ranks that exchange messages, is what was measured. Between containers of one machine there are
 * no links: the bytes of a message and the call that sends it take a core's time, which matters
 * where ranks share one.
 */
#ifndef LIFETIME_NETWORK_H
#define LIFETIME_NETWORK_H

#include "comm/settings.h"
#include "lifetime/create.h"
#include "topo/star.h"

/* With a shorter limit of the creation (COLL_TIMEOUT_MS) nothing is measured: a pair takes some 60
 * ms, or some trips of a distant host, and there are rounds of them. The first one must end within
 * a sixth of the limit (calibrate/network.c). */
#define LIFETIME_NETWORK_TIMEOUT_NS UINT64_C(30000000000)

/* By all ranks, before the first call. Does nothing where all ranks are on one host, and leaves
 * what is assumed where no host could be measured. Fails as a collective does; the communicator can
 * then only be destroyed. */
coll_status_t lifetime_network_measure(struct coll_comm *comm, const lifetime_record_t records[],
                                       const comm_settings_t *settings);

/* Sets what the ends of a message need, from the fastest of `count` hosts. is_one_machine: all are
 * containers of one. slot_bytes: of the longest message. Hosts whose hop_ps is 0 do not count. */
void lifetime_network_set_ends(tune_machine_t *costs, const comm_network_cost_t hosts[], int count,
                               bool is_one_machine, size_t slot_bytes);

/* The link of a host with these costs, less what the ends need. */
topo_star_link_t lifetime_network_link(const tune_machine_t *costs, const comm_network_cost_t *host,
                                       size_t slot_bytes);

#endif
