/*
 * coll.h: collective communication between ranks. This is the whole public interface of libcoll;
 * it includes coll_config.h, coll_algo.h and coll_gpu.h.
 *
 * A rank is a process or a thread. A communicator is an ordered set of ranks. All ranks of a
 * communicator make the same calls in the same order. The interface is close to NCCL's on purpose:
 * the same verbs, the same rules for in-place calls, the same groups. Every function returns a
 * status; its outputs are its last arguments.
 */
#ifndef COLL_H
#define COLL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(COLL_BUILDING)
#define COLL_API __attribute__((visibility("default")))
#else
#define COLL_API
#endif

#define COLL_VERSION_MAJOR 0
#define COLL_VERSION_MINOR 1
#define COLL_VERSION_PATCH 0

/* The result of a call. If it is an error, the outputs of the call are undefined, and
 * coll_last_error describes what happened, at which rank or file, and what to do. A communicator
 * that has failed has done so for good, on all ranks: its calls return errors, and each rank should
 * destroy it. */
typedef enum coll_status {
  COLL_OK = 0,
  COLL_ERROR_INVALID, /* an argument is wrong; nothing was sent, and the communicator still works */
  COLL_ERROR_MISMATCH,  /* the ranks' calls do not match (see below); the communicator has failed */
  COLL_ERROR_RANK_LOST, /* a rank died or aborted; the communicator has failed */
  COLL_ERROR_TIMEOUT,   /* ranks did not arrive in time, or a call took too long */
  COLL_ERROR_SYSTEM,    /* a system call failed */
  COLL_ERROR_MEMORY,    /* out of memory */
  COLL_ERROR_UNSUPPORTED, /* this build or machine cannot do it */
  COLL_ERROR_INTERNAL,    /* a bug in libcoll */
  COLL_IN_PROGRESS,       /* no error: the work is not done yet (coll_stream_query, and what is not
                             blocking: coll_config.h) */
  COLL_STATUS_COUNT
} coll_status_t;

/* Element types. Those that NCCL has too have its numbers; 16-bit integers follow them. The float8
 * types are those of the OCP 8-bit floating point specification: e4m3 has no infinity and
 * saturates, e5m2 follows the IEEE rules. */
typedef enum coll_dtype {
  COLL_INT8 = 0,
  COLL_UINT8,
  COLL_INT32,
  COLL_UINT32,
  COLL_INT64,
  COLL_UINT64,
  COLL_FLOAT16,
  COLL_FLOAT32,
  COLL_FLOAT64,
  COLL_BFLOAT16,
  COLL_FLOAT8_E4M3,
  COLL_FLOAT8_E5M2,
  COLL_INT16,
  COLL_UINT16,
  COLL_DTYPE_COUNT
} coll_dtype_t;

/* Reductions. Those that NCCL has too have its numbers. Integers wrap around. AVG divides the sum
 * by the number of ranks; integers are rounded towards zero. MIN and MAX of a NaN and a number are
 * NaN. BAND, BOR and BXOR combine the bits of integers; with a floating-point dtype they are
 * refused with COLL_ERROR_INVALID. Values from COLL_OP_CREATED_MIN on are made by
 * coll_op_create_premul_sum; no later version will have a built-in op there. */
typedef enum coll_op {
  COLL_SUM = 0,
  COLL_PROD,
  COLL_MAX,
  COLL_MIN,
  COLL_AVG,
  COLL_BAND,
  COLL_BOR,
  COLL_BXOR,
  COLL_OP_BUILTIN_COUNT,
  COLL_OP_CREATED_MIN = 256,
  COLL_OP_LIMIT = 0x7fffffff
} coll_op_t;

typedef struct coll_comm *coll_comm_t;
typedef struct coll_stream *coll_stream_t;
typedef struct coll_registration *coll_registration_t;

#define COLL_UNIQUE_ID_BYTES 128

/* The address of a rendezvous, through which the ranks of a new communicator find each other. One
 * rank creates it, and the program copies its bytes to all other ranks, by any means. It can be
 * used for one communicator only. */
typedef struct coll_unique_id {
  char internal[COLL_UNIQUE_ID_BYTES];
} coll_unique_id_t;

/* Settings of a communicator: coll_config.h. NULL stands for the defaults. */
typedef struct coll_comm_config coll_comm_config_t;

/* ---- communicators ------------------------------------------------------------------------------
 * Creation, splitting and destruction are collective: every rank calls them. The caller owns a
 * communicator until it calls coll_comm_destroy. Calls on one communicator run in the order in
 * which they were made, also from several threads or streams; but sends and receives that follow
 * each other run at once. If the soft limit of open files may be too low, creation raises it. */

/* Creates a unique id, which the program sends to all ranks and must not show to strangers, and
 * starts its rendezvous server: a thread of this process that listens on a TCP port. The ranks
 * connect to COLL_INTERFACE_ADDRESS, if that is set, else to the addresses of this host that the
 * config's `interfaces` allow; with "=lo" only ranks on this host can. config may be NULL; its
 * `create_timeout_ms` limits how long the call waits until the host has an address. The thread ends
 * when all ranks have the communicator, or have been told why they cannot; until then the process
 * must not exit. */
COLL_API coll_status_t coll_unique_id_create(const coll_comm_config_t *config,
                                             coll_unique_id_t *id);

/* Makes this process or thread rank `rank` of `size`. config may be NULL. Returns COLL_OK once all
 * ranks have made their part of the communicator. COLL_ERROR_TIMEOUT names the ranks that did not
 * call in time. COLL_ERROR_RANK_LOST names, within 2 s, a rank that called and then died or failed.
 * A rank that dies before it has reached the server is indistinguishable from one that was never
 * started, so it is detected by the timeout. In a group, or with config.blocking = 0, it is made
 * later (see there). */
COLL_API coll_status_t coll_comm_create(const coll_unique_id_t *id, int rank, int size,
                                        const coll_comm_config_t *config, coll_comm_t *comm);

/* Like coll_comm_create, with rank, size and server address from the launcher: the user's variables
 * COLL_RANK, COLL_SIZE and COLL_ADDRESS, else collrun, torchrun, Open MPI's mpirun, MPICH's mpiexec
 * or srun (docs/launch.md). Every rank of the job calls it, equally often. If no launcher has
 * started this process, it is the only rank. */
COLL_API coll_status_t coll_comm_create_env(const coll_comm_config_t *config, coll_comm_t *comm);

/* Makes a communicator whose ranks are threads of this process: comms[i] belongs to rank i, of
 * `size`. One thread may make the calls of several ranks in one group. */
COLL_API coll_status_t coll_comm_create_local(int size, const coll_comm_config_t *config,
                                              coll_comm_t comms[]);

/* Ranks that pass the same color (>= 0) form a new communicator, ordered by key, then by their rank
 * in `comm`. A rank that passes a negative color takes part in the call and gets *new_comm = NULL.
 * config NULL: the settings of `comm`; else `reproducible` must be 0 or as `comm` is, and
 * `blocking` need not be the same on all ranks. If a rank fails or dies, the call fails on all
 * ranks with an error text that names that rank. coll_comm_error shows whether `comm` has
 * failed then. In a group, or if the new communicator's `blocking` is 0, the call returns before it
 * is made (see there). */
COLL_API coll_status_t coll_comm_split(coll_comm_t comm, int color, int key,
                                       const coll_comm_config_t *config, coll_comm_t *new_comm);

COLL_API coll_status_t coll_comm_rank(coll_comm_t comm, int *rank);
COLL_API coll_status_t coll_comm_size(coll_comm_t comm, int *size);

/* What messages to the rank `peer` go over: "self", "shm" (shared memory), "tcp", "verbs" (RDMA) or
 * "ucx". *route is valid until the communicator is destroyed. COLL_ERROR_INVALID: there is no such
 * rank. */
COLL_API coll_status_t coll_comm_route(coll_comm_t comm, int peer, const char **route);

/* COLL_OK while the communicator works; COLL_IN_PROGRESS while it is being made, split or finalized
 * in the background; else why it or its creation has failed. Does not block. */
COLL_API coll_status_t coll_comm_error(coll_comm_t comm);

/* The rank because of which the communicator failed: the one that died, aborted or had an error,
 * after COLL_ERROR_TIMEOUT the lowest missing one; -1: it has not failed, or calls did not match.
 * Does not block. Returns the failure of one that could not be made. */
COLL_API coll_status_t coll_comm_failed_rank(coll_comm_t comm, int *rank);

/* Fails the communicator at once: calls under way on all of its ranks return
 * COLL_ERROR_RANK_LOST with a text that names this rank. So does the creation of one that is still
 * being made; if that is a split, the communicator that is split fails too. Callable from any
 * thread. The caller must still destroy the communicator. */
COLL_API coll_status_t coll_comm_abort(coll_comm_t comm);

/* Writes a table to the file `path`, or to standard error if `path` is "-". The table has one line
 * per rank, for this communicator and all others of this process: the rank's process and its state,
 * the number of collectives completed, the current or latest call, and the ranks that it waits for.
 * Callable from any thread, also during calls. It waits for no rank, and shows stopped and dead
 * ranks as well. A regular file is replaced atomically. COLL_ERROR_SYSTEM if it cannot be written.
 */
COLL_API coll_status_t coll_comm_dump(coll_comm_t comm, const char *path);

/* Sets a function for the program's own progress, such as that of another library. While a thread
 * of this rank waits in a collective, send or receive of the communicator, it calls
 * callback(context) at least every 100 us, if the kernel gives it a core as often: it wakes up more
 * than 10,000 times per second. For a call on a stream, the stream's worker does. Of several
 * threads that wait, one calls it at a time. A wait during which the callback is set notices it
 * within some 10 ms. NULL removes the callback; on return, no other thread still runs the former
 * one. A communicator made by coll_comm_split has none.
 * - The callback must not wait for the calls that wait for it.
 * - It may use other communicators. If it uses one in whose call its thread waits, every function
 *   that might wait returns COLL_ERROR_INVALID. coll_comm_error, coll_comm_abort, coll_comm_dump
 *   and coll_comm_set_progress work. */
COLL_API coll_status_t coll_comm_set_progress(coll_comm_t comm, void (*callback)(void *context),
                                              void *context);

/* Waits until the calls queued on this rank are done, and makes the checks of coll_comm_destroy.
 * With blocking = 0 it returns COLL_IN_PROGRESS, and does so in the background; coll_comm_error
 * says when it is done, and what was found. Afterwards only coll_comm_error, coll_comm_abort and
 * coll_comm_destroy can be called. It need not be called. */
COLL_API coll_status_t coll_comm_finalize(coll_comm_t comm);

/* Waits until the calls queued on this rank are done, and frees the communicator, also if an error
 * is returned for it. Does not wait for other ranks; between hosts, until theirs have received what
 * this rank has sent, at most a minute. COLL_ERROR_MISMATCH: a message was never received, or calls
 * did not match and no earlier call on this rank returned that. It also returns what
 * coll_comm_finalize found in the background, unless coll_comm_error has returned it. No
 * coll_comm_abort of this communicator may still be running. If the communicator is still being
 * made, its creation is aborted first, as by coll_comm_abort; a split of it that goes on in the
 * background is waited for.
 */
COLL_API coll_status_t coll_comm_destroy(coll_comm_t comm);

/* ---- creation that does not block -----------------------------------------------------------
 * With config.blocking = 0, coll_comm_create and coll_comm_split set their last argument to
 * a handle and return COLL_IN_PROGRESS, or an error if an argument is wrong. A thread of the
 * library then makes the communicator. coll_comm_error(handle) returns COLL_IN_PROGRESS until it is
 * done, then COLL_OK, or the failure with its text. Until then, coll_comm_abort and
 * coll_comm_destroy work on the handle, and all other functions return COLL_ERROR_INVALID and leave
 * it alone. A handle whose communicator could not be made must be destroyed too; all other
 * functions return its failure.
 * While a communicator is being split in this way, the same holds for itself: coll_comm_error
 * returns COLL_IN_PROGRESS, also on a rank that gets no new communicator; coll_comm_abort and
 * coll_comm_destroy work, and all other functions return COLL_ERROR_INVALID. Calls queued before on
 * streams are not affected. A split whose config is NULL does not block if `comm` was made with
 * blocking = 0.
 * Ranks of one communicator may differ in `blocking`. Collectives, sends and receives are the same
 * on either kind of communicator. Do not change COLL_* variables while a thread reads them. */

/* ---- fork ---- Communicators, streams and open groups belong to the process that made them: in a
 * child, calls on them return COLL_ERROR_INVALID and disturb nothing; coll_comm_rank and
 * coll_comm_size answer, coll_comm_destroy, coll_stream_destroy and coll_window_destroy do nothing.
 * Memory of coll_mem_alloc is shared, and each frees it. A child may make communicators of its own
 * by an id of its own. It must not return from a progress callback in which it was forked. */

/* ---- calls that match ------------------------------------------------------------------------
 * The collectives of a communicator, including coll_comm_split, are numbered. The sends and
 * receives of each ordered pair of ranks are numbered separately. A call of 0 elements counts like
 * any other call. The ranks' calls do not match exactly if
 * (a) the collectives of one number differ between two ranks: in verb, dtype, op, count or root, in
 *     the counts that all ranks pass to coll_allgatherv or coll_reduce_scatterv, those that a pair
 *     passes to coll_alltoallv, coll_gatherv or coll_scatterv, in a forced algorithm
 *     (coll_comm_algo_set), or in the set of the communicator's collectives that are in the same
 *     group (a group of one collective is the call itself; sends and receives in a group do not
 *     count);
 * (b) the n-th send and the n-th receive of a pair differ in count or dtype;
 * (c) ranks wait for each other, so that none of them can continue whatever the others do;
 * (d) a message is still unreceived when its receiver destroys the communicator;
 * (e) a rank waits for a rank that has destroyed the communicator.
 * A call is compared field by field, not by a hash. The collectives before it, and the members of a
 * group that are coalesced into one message, are compared by a 64-bit digest, and the counts of a
 * coll_allgatherv or coll_reduce_scatterv by their sum and a 34-bit digest.
 * After a mismatch every rank gets COLL_ERROR_MISMATCH with a text that names both calls. It is
 * returned by the call itself, or, if that has already returned (a small send, the root of a
 * broadcast), by the next call, coll_comm_error or coll_comm_destroy. Waiting ranks compare their
 * calls when they first sleep, within some 10 ms; detecting (c) and (e) takes some 30 ms. Between
 * hosts, (c) is not detected. If a rank in a send or receive is of a process with several threads,
 * another one may make the call that is missing: (c) then takes COLL_HANG_MS, and if several have
 * used the communicator, it is not detected. A rank that has already destroyed the communicator
 * gets no error.
 *
 * A send does not wait for its receive while at most 64 messages of at most 256 KiB in total are
 * unreceived from this rank to that peer. Beyond that, it may wait until they are. Any collective
 * may wait until any other rank makes its call. So a send within the limit followed by a collective
 * matches the collective followed by the receive. */

/* ---- collectives --------------------------------------------------------------------------------
 * Counts are in elements of dtype. n is the size of the communicator. A call does not write to its
 * send buffer, except to the part that is also its output in an in-place call. In a call with a
 * root, a buffer that a rank does not use is ignored and may be NULL. So may any buffer if its
 * count is 0.
 * If a call fails and ranks are threads of one process, keep buffers and communicators until the
 * calls of all ranks have returned.
 * stream NULL: the call is complete when it returns. Host stream: the call is queued, and its
 * buffers must not be used until coll_stream_sync. */

/* send, recv: count elements. In place: send == recv. */
COLL_API coll_status_t coll_allreduce(const void *send, void *recv, size_t count,
                                      coll_dtype_t dtype, coll_op_t op, coll_comm_t comm,
                                      coll_stream_t stream);
/* send: count; recv: count, used at root only. In place at root: send == recv. */
COLL_API coll_status_t coll_reduce(const void *send, void *recv, size_t count, coll_dtype_t dtype,
                                   coll_op_t op, int root, coll_comm_t comm, coll_stream_t stream);
/* send: n*recv_count; recv: recv_count. In place: recv == send + rank*recv_count. */
COLL_API coll_status_t coll_reduce_scatter(const void *send, void *recv, size_t recv_count,
                                           coll_dtype_t dtype, coll_op_t op, coll_comm_t comm,
                                           coll_stream_t stream);
/* send: send_count; recv: n*send_count. In place: send == recv + rank*send_count. */
COLL_API coll_status_t coll_allgather(const void *send, void *recv, size_t send_count,
                                      coll_dtype_t dtype, coll_comm_t comm, coll_stream_t stream);
/* send: count, used at root only; recv: count. In place at root: send == recv. */
COLL_API coll_status_t coll_broadcast(const void *send, void *recv, size_t count,
                                      coll_dtype_t dtype, int root, coll_comm_t comm,
                                      coll_stream_t stream);
/* send: send_count; recv: n*send_count, root only. In place at root: send == recv +
 * root*send_count. */
COLL_API coll_status_t coll_gather(const void *send, void *recv, size_t send_count,
                                   coll_dtype_t dtype, int root, coll_comm_t comm,
                                   coll_stream_t stream);
/* send: n*recv_count, root only; recv: recv_count. In place at root: recv == send +
 * root*recv_count. */
COLL_API coll_status_t coll_scatter(const void *send, void *recv, size_t recv_count,
                                    coll_dtype_t dtype, int root, coll_comm_t comm,
                                    coll_stream_t stream);
/* send, recv: n*count; block j of send goes to rank j. In place: send == recv. */
COLL_API coll_status_t coll_alltoall(const void *send, void *recv, size_t count, coll_dtype_t dtype,
                                     coll_comm_t comm, coll_stream_t stream);
/* The four arrays have n element counts or n element displacements each. They are read before the
 * call returns, also if it is queued. recv_counts[j] must equal the count that rank j sends to this
 * rank. There is no in-place form. */
COLL_API coll_status_t coll_alltoallv(const void *send, const size_t send_counts[],
                                      const size_t send_displs[], void *recv,
                                      const size_t recv_counts[], const size_t recv_displs[],
                                      coll_dtype_t dtype, coll_comm_t comm, coll_stream_t stream);
/* Verbs whose blocks may differ in size (MPI 4.1, sections 6.5 to 6.7 and 6.10). Counts and
 * displacements are n element counts and n element displacements, read before the call returns.
 * Blocks may not overlap. displs NULL: they are packed in the order of ranks. On GPUs:
 * COLL_ERROR_UNSUPPORTED.
 * allgatherv: all ranks pass the same counts, and each its own displs. send: counts[rank]; recv:
 * block j, of counts[j], at displs[j]. In place: send == recv + displs[rank].
 * reduce_scatterv: all ranks pass the same counts. send: packed blocks; recv: counts[rank]. In
 * place: recv == send + the sum of the counts of the ranks before this one. With equal counts and
 * packed blocks, both run the plan of allgather or reduce_scatter. */
COLL_API coll_status_t coll_allgatherv(const void *send, void *recv, const size_t counts[],
                                       const size_t displs[], coll_dtype_t dtype, coll_comm_t comm,
                                       coll_stream_t stream);
COLL_API coll_status_t coll_reduce_scatterv(const void *send, void *recv, const size_t counts[],
                                            coll_dtype_t dtype, coll_op_t op, coll_comm_t comm,
                                            coll_stream_t stream);
/* The arrays and the buffer of all blocks are the root's, where counts[j] must equal the count that
 * rank j passes; other ranks may pass NULL. In place at root: send == recv + recv_displs[root], or
 * recv == send + send_displs[root]. */
COLL_API coll_status_t coll_gatherv(const void *send, size_t send_count, void *recv,
                                    const size_t recv_counts[], const size_t recv_displs[],
                                    coll_dtype_t dtype, int root, coll_comm_t comm,
                                    coll_stream_t stream);
COLL_API coll_status_t coll_scatterv(const void *send, const size_t send_counts[],
                                     const size_t send_displs[], void *recv, size_t recv_count,
                                     coll_dtype_t dtype, int root, coll_comm_t comm,
                                     coll_stream_t stream);
COLL_API coll_status_t coll_barrier(coll_comm_t comm, coll_stream_t stream);

/* Sends to one rank, and receives from it, match in order; counts and dtypes must be equal on both
 * sides. A send may return before the receive is called. A rank may send to itself in a group. */
COLL_API coll_status_t coll_send(const void *send, size_t count, coll_dtype_t dtype, int peer,
                                 coll_comm_t comm, coll_stream_t stream);
COLL_API coll_status_t coll_recv(void *recv, size_t count, coll_dtype_t dtype, int peer,
                                 coll_comm_t comm, coll_stream_t stream);

/* Calls between coll_group_start and the outermost coll_group_end are collected, and the end runs
 * them together: sends and receives in one group cannot deadlock each other, and one thread may
 * make the calls of several ranks. With stream NULL, their results are available when the end
 * returns. All ranks of a communicator must put the same of its collectives into one group, because
 * small ones are coalesced into one message. The calls of a group have no order in memory: none may
 * use memory that another one writes.
 * A call whose arguments are wrong returns the error at once, and the group fails: coll_group_end
 * returns the same status and runs none of its calls. If that status is COLL_ERROR_MEMORY, the
 * communicators of its calls fail, because the peers do not know of the failure.
 * The group's calls of one communicator are one operation, also if they name several streams: it
 * begins when all work queued before on these streams is done, and work queued later on any of them
 * begins when it has ended. If one of these calls has no stream, the end returns when the operation
 * has ended. Its failure, or an earlier one of a stream that it names, becomes the failure of all
 * of these streams.
 * Within a group, a communicator cannot be finalized or destroyed.
 * Groups belong to the calling thread and may be nested.
 *
 * A group may instead create and split communicators: of any number of communicators, and for any
 * number of their ranks. coll_comm_create and coll_comm_split then return at once, and the
 * end makes them all, a thread per rank, and returns when all are done, or COLL_IN_PROGRESS if some
 * have blocking = 0 (it waits for the others). Splits of one communicator are made in order. Until
 * the end, the handles are those of communicators that are being made, and the arguments `comm` and
 * `new_comm` must stay valid. Each communicator is made or not for itself: the end returns the
 * first failure, and sets the handles of those that could not be made to NULL (with blocking = 0
 * they remain, and coll_comm_error returns the failure). The failure of one rank ends the creation
 * of its communicator on all ranks. If an argument is wrong, the end makes none, and sets all
 * handles to NULL.
 * A group that creates or splits has no other calls: COLL_ERROR_INVALID. coll_comm_create_env and
 * coll_comm_create_local do not belong to the group: they are done when they return. */
COLL_API coll_status_t coll_group_start(void);
COLL_API coll_status_t coll_group_end(void);
/* Ends all levels of the thread's group, runs none of its calls, and makes none of its
 * communicators, whose handles become NULL. COLL_ERROR_INVALID: the thread has no group. */
COLL_API coll_status_t coll_group_cancel(void);

/* ---- reproducible results -----------------------------------------------------------------------
 * Integer results are always the same. A NaN result is always NaN, but its sign and payload are
 * unspecified. For floating-point results:
 * - By default, an allreduce gives all ranks the same bits. The order in which a call reduces
 *   depends on the collective, op, count, dtype and root, the number of ranks and the cores they
 *   may run on, whether their memory can be mapped, the calls before it, and the costs that were
 *   measured (COLL_TUNE). So a program that runs again on the same machine with the same
 *   settings, placement and measured costs gets the same bits. (Costs are stored in a file, those
 *   of the network between hosts for an hour; with COLL_TUNE=builtin nothing is measured.) Another
 *   machine, number of cores, kind of memory, grouping or count may change the bits. Most
 *   algorithms add narrow floats (float16, bfloat16, float8) in float32 and round once; others
 *   round once per hop. An algorithm that rounds once is chosen wherever it is expected to be as
 *   fast.
 * - On a reproducible communicator (COLL_REPRODUCIBLE=1, or its config), the bits depend only on
 *   the values, the dtype, the op and the number of ranks. They do not depend on the algorithm,
 *   machine, cores, memory, count, root, group or stream, or on whether the call is in place. Each
 *   element is the canonical expression C[0, n) over the ranks' operands: C[a, a+1) is rank a's
 *   operand, and C[a, b) = C[a, m) op C[m, b), where m - a is the largest power of two below b - a.
 *   float32 and float64 are rounded after each op. Narrow floats are computed in float32 and
 *   rounded once, at the end. For two equal zeros, MIN and MAX return the right operand's sign.
 * - AVG of floats is C over the operands times the largest power of two w <= 1/n, divided by n w;
 *   narrow floats are rounded once. A premul-sum first rounds each rank's product to the dtype.
 * The error of a sum by the canonical expression is at most about ceil(log2 n) eps times the sum of
 * the magnitudes. If ranks are added one after the other, as in a ring, it is at most (n - 1) eps
 * times that sum. */

/* ---- reductions with a scalar -----------------------------------------------------------------*/

/* When the scalar of an op is read; NCCL's numbers.
 * HOST_IMMEDIATE: when the op is created.
 * DEVICE: whenever a call that uses the op begins to run; on a stream, when the stream reaches it.
 * So the scalar may be changed between calls, also by earlier calls on the stream, and must stay
 * allocated until the last call is complete. In this version it is in host memory. */
typedef enum coll_scalar_residence {
  COLL_SCALAR_DEVICE = 0,
  COLL_SCALAR_HOST_IMMEDIATE = 1
} coll_scalar_residence_t;

/* Creates the op "sum over ranks r of scalar_r * x_r", where *scalar, of type dtype, is this rank's
 * factor. The op can be used with that dtype on that communicator until it is destroyed, which does
 * not affect queued calls. */
COLL_API coll_status_t coll_op_create_premul_sum(const void *scalar, coll_dtype_t dtype,
                                                 coll_scalar_residence_t residence,
                                                 coll_comm_t comm, coll_op_t *op);
COLL_API coll_status_t coll_op_destroy(coll_op_t op, coll_comm_t comm);

/* ---- memory -------------------------------------------------------------------------------------
 * Memory from coll_mem_alloc can be mapped by the other ranks of this machine, which makes large
 * calls faster. It is page-aligned, zeroed and never has a name in a file system. coll_mem_register
 * promises that other memory stays allocated until it is deregistered; calls use the same fast way
 * wherever peers can map it.
 *
 * Large calls with other memory read it from the peers' processes where the system permits that
 * (COLL_GET). So buffers must be mapped and readable until the call returns, also send buffers that
 * the process itself has not touched yet; a peer that cannot read one fails with
 * COLL_ERROR_SYSTEM. After a failed call, memory from coll_mem_alloc may still be written, and all
 * buffers read, by peers until their calls have returned too: until the same ranks have created
 * another communicator, which waits for that. */
#define COLL_DEVICE_HOST (-1)
/* device: COLL_DEVICE_HOST, or from 0 on this process's GPUs in CUDA's order, on which sizes are
 * multiples of 2 MiB. COLL_ERROR_INVALID: no such device. COLL_ERROR_UNSUPPORTED: no driver, or the
 * GPU cannot share memory. Freed by coll_mem_free, when nothing uses it any more. */
COLL_API coll_status_t coll_mem_alloc(int device, size_t bytes, void **ptr);
COLL_API coll_status_t coll_mem_free(void *ptr);
COLL_API coll_status_t coll_mem_register(coll_comm_t comm, void *ptr, size_t bytes,
                                         coll_registration_t *handle);
COLL_API coll_status_t coll_mem_deregister(coll_registration_t handle);

/* ---- host streams -------------------------------------------------------------------------------
 * A stream runs the calls queued on it in order, in its own thread. After the first failure, the
 * calls queued behind it are dropped with the same status, and the next coll_stream_sync returns
 * that status. */
COLL_API coll_status_t coll_stream_create(coll_stream_t *stream);
COLL_API coll_status_t coll_stream_sync(coll_stream_t stream);
/* Whether the stream's calls are done, without waiting for them: COLL_IN_PROGRESS while one is
 * queued or runs, then what coll_stream_sync would return, and still will. With COLL_OK, the
 * buffers of the calls may be used. stream NULL: COLL_OK, as calls without a stream are complete
 * when they return. */
COLL_API coll_status_t coll_stream_query(coll_stream_t stream);
COLL_API coll_status_t coll_stream_destroy(coll_stream_t stream);

/* ---- names and error texts --------------------------------------------------------------------*/

COLL_API const char *coll_status_string(coll_status_t status);
COLL_API const char *coll_dtype_name(coll_dtype_t dtype); /* "float32"; NULL past the end */
COLL_API size_t coll_dtype_bytes(coll_dtype_t dtype);     /* 0 past the end */
COLL_API const char *coll_op_name(coll_op_t op);          /* "sum"; NULL past the built-in ones */

/* The error text of the latest failure: of this communicator, or, with NULL, of the calling thread;
 * also of the thread while the communicator is being made, split or finalized in the background.
 * Valid until the thread's next failing call or call of coll_last_error. Never NULL. */
COLL_API const char *coll_last_error(coll_comm_t comm_or_null);

COLL_API void coll_version(int *major, int *minor, int *patch);

#ifdef __cplusplus
}
#endif

#include "coll_algo.h"
#include "coll_config.h"
#include "coll_gpu.h"

#endif
