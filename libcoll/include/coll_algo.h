/*
 * coll_algo.h: the part of coll.h for choosing an algorithm. The library chooses one for every
 * call. A benchmark or a test may force one, load a plan of its own, or ask for the estimates.
 */
#ifndef COLL_ALGO_H
#define COLL_ALGO_H

#include <coll.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The collectives. */
typedef enum coll_collective {
  COLL_ALLREDUCE = 0,
  COLL_REDUCE,
  COLL_REDUCE_SCATTER,
  COLL_ALLGATHER,
  COLL_BROADCAST,
  COLL_GATHER,
  COLL_SCATTER,
  COLL_ALLTOALL,
  COLL_ALLTOALLV,
  COLL_BARRIER,
  COLL_SENDRECV, /* a ring shift: a group of one send to rank+1 and one receive from rank-1 */
  COLL_ALLGATHERV,
  COLL_REDUCE_SCATTERV,
  COLL_GATHERV,
  COLL_SCATTERV,
  COLL_COLLECTIVE_COUNT
} coll_collective_t;

/* Name of the collective ("allreduce"), or NULL past the end. */
COLL_API const char *coll_collective_name(coll_collective_t collective);
/* Name of the collective's index-th algorithm ("ring"), or NULL past the end. */
COLL_API const char *coll_algo_name(coll_collective_t collective, int index);
/* Forces the algorithm for all later calls of the collective on this communicator; NULL: the
 * library chooses again. All ranks must force the same one. COLL_ERROR_INVALID if the collective
 * has no algorithm of that name (the text suggests the nearest name), or if the communicator is
 * reproducible and the algorithm's order is not. For calls that the algorithm does not support the
 * library chooses; these include averages of narrow floats, and on a reproducible communicator any
 * reductions of them, that the algorithm would round more than once. */
COLL_API coll_status_t coll_comm_algo_set(coll_comm_t comm, coll_collective_t collective,
                                          const char *name);
/* The algorithm of the communicator's latest call of this collective, or "" if there was none. */
COLL_API const char *coll_comm_algo_used(coll_comm_t comm, coll_collective_t collective);

/* *bytes: the payload that this rank has moved between ranks in collectives, sends and receives of
 * this communicator since it was made, counted by the engine when the messages are sent. A
 * message counts at its sender, a multicast message once per receiver. Where algorithms access
 * other ranks' memory instead, the bytes count at the rank that reads or writes them. Headers,
 * signals, addresses and what stays in the rank's own memory do not count, nor do calls that GPUs
 * carry out among themselves. The sum over the ranks is the traffic of the completed calls; one
 * rank's value is valid when its own calls are complete (coll_stream_sync). Callable from any
 * thread. */
COLL_API coll_status_t coll_comm_bytes_sent(coll_comm_t comm, uint64_t *bytes);

/* What coll_comm_plan_load has loaded. */
#define COLL_PLAN_NAME_BYTES 64
typedef struct coll_plan_info {
  size_t struct_bytes;             /* sizeof(coll_plan_info_t) */
  char name[COLL_PLAN_NAME_BYTES]; /* of its algorithm, as the file states it */
  coll_collective_t collective;
  int root;                   /* 0 if the collective has none */
  int out_of_place, in_place; /* not 0: it is right for such calls */
  int any_order;              /* not 0: it reduces in an order that differs between ranks
                                 (`collplan import --any-order`), which may hold different bits */
} coll_plan_info_t;

#define COLL_PLAN_INFO_INIT \
  { sizeof(coll_plan_info_t), "", COLL_ALLREDUCE, 0, 0, 0, 0 }

/* Loads a plan from a file in the form that `collplan show` and `collplan import` print. It is used
 * for all later calls of its collective, and of its root if it has one, on this communicator, until
 * another is loaded or coll_comm_algo_set is called for the collective. Collective: every rank
 * calls it, with the same file. The plan is verified first. On failure all ranks get an error and
 * none uses the plan; the communicator still works. *info is from COLL_PLAN_INFO_INIT; info may be
 * NULL. COLL_ERROR_INVALID: the file is no right plan for as many ranks (the text says where and
 * why), reduces in an order that a reproducible communicator does not allow, or another rank could
 * not load it. COLL_ERROR_MISMATCH: the ranks' files differ. COLL_ERROR_SYSTEM: it cannot be read.
 * COLL_ERROR_UNSUPPORTED: its messages do not fit.
 * A plan for calls in place serves others too, by a copy of the input. A plan of reduce_scatter or
 * scatter may be right for one kind of calls only; calls of the other kind then fail (a call of 0
 * elements is not in place). For calls that it does not support otherwise (coll_comm_algo_set) the
 * library chooses. */
COLL_API coll_status_t coll_comm_plan_load(coll_comm_t comm, const char *path,
                                           coll_plan_info_t *info);

/* The estimated time of a call with one of the algorithms, and its parts: counts of operations in
 * the algorithm's plan times their costs on this machine (COLL_TUNE). Between several hosts, and
 * where links are known (COLL_TOPO_FILE), the call is simulated over the links, and the one that is
 * busy for longest is named. */
#define COLL_ESTIMATE_TERMS 9
#define COLL_ESTIMATE_LINK_BYTES 160
#define COLL_ESTIMATE_NETWORK_BYTES 128
typedef struct coll_estimate {
  size_t struct_bytes; /* sizeof(coll_estimate_t) */
  const char *algo;
  const char *ruled_out; /* why the algorithm does not support such a call, else NULL */
  int chosen;            /* not 0: the library chooses it */
  double time_us;        /* the sum of the terms; 0 if it is ruled out */
  double term_us[COLL_ESTIMATE_TERMS];
  char link[COLL_ESTIMATE_LINK_BYTES];       /* "host0/nic0 to leaf0"; "" where no link is known */
  double link_bytes, link_busy_us;           /* what it carries during the call, and for how long */
  char network[COLL_ESTIMATE_NETWORK_BYTES]; /* how the costs of links were measured: "measured 5.1
                                                us a hop, 1.9 GB/s between 2 hosts, 12 minutes ago";
                                                "" if they were not */
} coll_estimate_t;

#define COLL_ESTIMATE_INIT \
  { sizeof(coll_estimate_t), NULL, NULL, 0, 0, {0}, "", 0, 0, "" }

/* Name of the index-th term ("call", "hops", "shared"), or NULL past the end. */
COLL_API const char *coll_estimate_term(int index);

/* Estimates a call of the collective with its index-th algorithm (see coll_algo_name). *estimate is
 * from COLL_ESTIMATE_INIT. mapped:
 * whether all ranks' buffers are memory that their peers can map. The result is the same on every
 * rank. COLL_ERROR_INVALID if there is no such collective, dtype or algorithm. */
COLL_API coll_status_t coll_comm_estimate(coll_comm_t comm, coll_collective_t collective,
                                          size_t count, coll_dtype_t dtype, int mapped, int index,
                                          coll_estimate_t *estimate);

#ifdef __cplusplus
}
#endif

#endif
