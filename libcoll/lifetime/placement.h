/*
 * Where the ranks of a communicator are: from the file that COLL_TOPO_FILE names
 * (topo/load.h), from the parent of a split, or else from the hosts of the ranks, or as they are
 * bound on the only host. Each rank
 * puts the package and NUMA node that its cpus are in into its record, and all derive the same
 * layout from the records of all. The graph of the machine itself is not sent: of one host, plans
 * need groups of ranks only, as the costs of its memory are measured (calibrate/costs.h),
 * and cpus are known to each rank alone. If the packages or NUMA nodes do not divide the ranks into
 * groups of two and more, or a rank is bound to none, all ranks are taken to be equally near.
 */
#ifndef LIFETIME_PLACEMENT_H
#define LIFETIME_PLACEMENT_H

#include "topo/home.h"
#include "topo/layout.h"
#include "topo/map.h"

struct coll_comm;
struct lifetime_record;

/* *layout: of `size` ranks on the hosts of the file, in the order of the map; NULL if file_name is
 * "". Rank 0 reports what the file's reader leaves out on standard error. Owned by the caller.
 * COLL_ERROR_INVALID names the file and line. */
coll_status_t lifetime_placement_read(const char *file_name, topo_map_t map, int rank, int size,
                                      topo_layout_t **layout);

/* The home of this rank, for its record; none if the layout comes from a file. */
topo_home_t lifetime_placement_home(const char *file_name);

/* Replaces *layout, if it is NULL, by the layout of the records' hosts, or on one host by that of
 * their homes if there is one. Divides its mapping domains where ranks share no memory. Owned by
 * the caller. COLL_ERROR_MEMORY. */
coll_status_t lifetime_placement_of_records(int size, const struct lifetime_record *records,
                                            topo_layout_t **layout);

/* Reports on standard error what this machine is and how the ranks are grouped, if the communicator
 * reports such things (COLL_DEBUG) and this is rank 0. */
void lifetime_placement_report(const struct coll_comm *comm);

/* Gives the communicator the layout and takes it over, less what its transport cannot map. Before
 * its first call. paced: its messages
 * take as long as the links of the layout's fabric do. On failure the communicator can only be
 * destroyed. COLL_ERROR_INVALID: the layout has no links to pace. */
coll_status_t lifetime_placement_set(struct coll_comm *comm, topo_layout_t *layout, bool paced);

/* By which ranks compare layout and pacing. */
uint64_t lifetime_placement_digest(const topo_layout_t *layout, bool paced);

#endif
