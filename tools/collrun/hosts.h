/* The hosts of a job: --hosts a:4,b:4, or a file as launchers of MPI and batch systems write it. */
#ifndef COLLRUN_HOSTS_H
#define COLLRUN_HOSTS_H

#include "base/status.h"

#define COLLRUN_RANKS_MAX 4096
#define COLLRUN_HOST_BYTES 128 /* as long as COLL_HOST_ID may be */

typedef struct collrun_host {
  char name[COLLRUN_HOST_BYTES];
  int first, ranks; /* its ranks are [first, first + ranks) */
} collrun_host_t;

typedef struct collrun_hosts {
  collrun_host_t *list;
  int count; /* 0: the job runs on this machine */
  int ranks; /* of all hosts */
} collrun_hosts_t;

/* Reads "a:4,b:4"; without a number a host has one slot, and each time that it is named it has
 * more. All slots get a rank. Owned by the caller: collrun_hosts_free. COLL_ERROR_INVALID names the
 * wrong part. */
coll_status_t collrun_hosts_parse(const char *text, collrun_hosts_t *hosts);

/* Reads a file with hosts on its lines, as "a", "a:4", "a,b" or "a slots=4 max_slots=8"; # begins a
 * comment. Without slots a host has max_slots, else one. COLL_ERROR_INVALID names the line and the
 * word. COLL_ERROR_SYSTEM: the file cannot be read. */
coll_status_t collrun_hosts_read(const char *file_name, collrun_hosts_t *hosts);

/* Gives ranks to the hosts in order, each up to its slots; hosts without a rank are dropped. More
 * ranks than slots are given to the hosts in turn. */
void collrun_hosts_fill(collrun_hosts_t *hosts, int ranks);

/* Gives each host so many slots. COLL_ERROR_INVALID: that is more than COLLRUN_RANKS_MAX. */
coll_status_t collrun_hosts_set_slots(collrun_hosts_t *hosts, int slots);

void collrun_hosts_free(collrun_hosts_t *hosts);

#endif
