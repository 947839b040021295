/*
 * coll.h: collective communication between ranks, the whole public interface of libcoll.
 *
 * A rank is a process or a thread; a communicator is an ordered set of ranks. Every rank of a
 * communicator makes the same calls in the same order. The interface is deliberately close to
 * NCCL's: the same verbs, the same in-place rules, the same groups, with outputs last and a status
 * from every call.
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

/* What a call came to. Anything but COLL_OK leaves the call's outputs unset; coll_last_error says
 * what happened, at which rank or file, and what to do about it. */
typedef enum coll_status {
  COLL_OK = 0,
  COLL_ERROR_INVALID,  /* an argument is wrong; nothing was sent, the communicator lives on */
  COLL_ERROR_MISMATCH, /* the ranks' calls do not match (see below); the communicator is finished */
  COLL_ERROR_RANK_LOST,   /* a rank died or aborted; the communicator is finished */
  COLL_ERROR_TIMEOUT,     /* ranks did not arrive in time, or a call took too long */
  COLL_ERROR_SYSTEM,      /* the kernel refused something */
  COLL_ERROR_MEMORY,      /* out of memory */
  COLL_ERROR_UNSUPPORTED, /* not something this build or machine can do */
  COLL_ERROR_INTERNAL,    /* a bug in libcoll */
  COLL_STATUS_COUNT
} coll_status_t;

/* Element types, numbered as NCCL numbers them. The float8 types are those of the OCP 8-bit
 * floating point specification; e4m3 has no infinity and saturates, e5m2 follows IEEE rules. */
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
  COLL_DTYPE_COUNT
} coll_dtype_t;

/* Reductions. Integers wrap; AVG divides the sum by the number of ranks (integers towards zero).
 * MIN and MAX of a NaN and a number are a NaN. Values from COLL_OP_BUILTIN_COUNT up are made by
 * coll_op_create_premul_sum. */
typedef enum coll_op {
  COLL_SUM = 0,
  COLL_PROD,
  COLL_MAX,
  COLL_MIN,
  COLL_AVG,
  COLL_OP_BUILTIN_COUNT,
  COLL_OP_LIMIT = 0x7fffffff
} coll_op_t;

/* The collectives by name, for coll_algo_name and coll_comm_algo_set. */
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
  COLL_COLLECTIVE_COUNT
} coll_collective_t;

typedef struct coll_comm *coll_comm_t;
typedef struct coll_stream *coll_stream_t;
typedef struct coll_registration *coll_registration_t;

#define COLL_UNIQUE_ID_BYTES 128

/* Where the ranks of a new communicator find each other. One rank makes it; the program sends its
 * bytes to all others, by any means; it serves exactly one communicator. */
typedef struct coll_unique_id {
  char internal[COLL_UNIQUE_ID_BYTES];
} coll_unique_id_t;

/* How a communicator is made. Start from COLL_COMM_CONFIG_INIT, so that later fields get their
 * defaults. Of each field 0 stands for the value of the knob that is named with it. A communicator
 * that is split from another one has its settings. */
typedef struct coll_comm_config {
  size_t struct_bytes;   /* sizeof(coll_comm_config_t) */
  int create_timeout_ms; /* how long to wait for the other ranks to arrive (COLL_TIMEOUT_MS) */
  /* How long a call waits before one of its ranks reports on standard error which ranks are
   * missing, what they did last and whether their processes run (COLL_HANG_MS). One report per
   * call; it goes on waiting. Negative: never. Time in which the waiting process is suspended does
   * not count. */
  int hang_ms;
  /* How long a call waits before it returns COLL_ERROR_TIMEOUT with the same sentence, and the
   * communicator is finished for all ranks (COLL_CALL_TIMEOUT_MS). Negative: never. */
  int call_timeout_ms;
  int reproducible; /* 1: reductions are reproducible (see "collectives"), -1: not, 0: what the
                       COLL_REPRODUCIBLE knob says. The same on all ranks */
} coll_comm_config_t;

#define COLL_COMM_CONFIG_INIT \
  { sizeof(coll_comm_config_t), 0, 0, 0, 0 }

/* ---- communicators ---------------------------------------------------------------------------
 * Creation, splitting and destruction are collective: every rank calls them. A communicator is
 * owned by the caller until coll_comm_destroy. Calls on one communicator are carried out in the
 * order they were made, also from several threads or streams. Where ranks are so many that the
 * process may not have files enough open, its soft limit is raised, as far as the hard one goes. */

/* Starts a rendezvous server: a thread of this process with a listening TCP socket on the address
 * that COLL_INTERFACE_ADDRESS names (default: the loopback address). It ends when all ranks have
 * made the communicator, or know why they cannot; until then the process must not exit. */
COLL_API coll_status_t coll_unique_id_create(coll_unique_id_t *id);

/* Makes this process or thread rank `rank` of `size`. config may be NULL. Returns COLL_OK once all
 * ranks have made their part of the communicator. COLL_ERROR_TIMEOUT names the ranks that have not
 * called in time. COLL_ERROR_RANK_LOST, within 2 s, names the rank that called and then died or
 * failed. A rank that dies before it has reached the server cannot be told from one that was never
 * started, and is found by the timeout. */
COLL_API coll_status_t coll_comm_create(const coll_unique_id_t *id, int rank, int size,
                                        const coll_comm_config_t *config, coll_comm_t *comm);

/* The same, with rank, size and server address from the launcher's environment: torchrun's
 * (RANK WORLD_SIZE MASTER_ADDR MASTER_PORT), else Open MPI's, PMI's or Slurm's. With none of them
 * set the communicator has this process as its only rank. */
COLL_API coll_status_t coll_comm_create_env(coll_comm_t *comm);

/* Makes a communicator whose ranks are threads of this process: comms[i] belongs to rank i. One
 * thread may drive several ranks by putting their calls into one group. comms has `size` entries.
 */
COLL_API coll_status_t coll_comm_create_local(int size, coll_comm_t comms[]);

/* Ranks that give the same color (>= 0) form a new communicator, ordered by key, then by old rank.
 * A rank with a negative color takes part in the call and gets *new_comm = NULL. If a rank fails or
 * dies, the call fails on all ranks and names it; `comm` is then finished if coll_comm_error says
 * so. */
COLL_API coll_status_t coll_comm_split(coll_comm_t comm, int color, int key, coll_comm_t *new_comm);

COLL_API coll_status_t coll_comm_rank(coll_comm_t comm, int *rank);
COLL_API coll_status_t coll_comm_size(coll_comm_t comm, int *size);

/* COLL_OK while the communicator works; else the failure that finished it. Never blocks. */
COLL_API coll_status_t coll_comm_error(coll_comm_t comm);

/* Finishes the communicator at once: calls under way on any of its ranks return
 * COLL_ERROR_RANK_LOST naming this rank. May be called from any thread. Destroy it afterwards. */
COLL_API coll_status_t coll_comm_abort(coll_comm_t comm);

/* Writes a table to the file at `path`, or to standard error where it is "-": of each rank of this
 * communicator, and of those of this process's other communicators, its process and whether that
 * runs, the collectives it has completed, its current or latest call, and which ranks it waits for.
 * May be called from any thread, also while calls are under way, and waits for nobody: stopped and
 * dead ranks are shown as well. The file is replaced as a whole. COLL_ERROR_SYSTEM where it cannot
 * be written. */
COLL_API coll_status_t coll_comm_dump(coll_comm_t comm, const char *path);

/* Waits for the calls queued on this rank and frees the communicator, whatever it returns. Does not
 * wait for other ranks. COLL_ERROR_MISMATCH: a message was never received, or calls did not match
 * and no earlier call on this rank has said so. Any coll_comm_abort on it has returned before. */
COLL_API coll_status_t coll_comm_destroy(coll_comm_t comm);

/* ---- calls that match ------------------------------------------------------------------------
 * The collectives of a communicator, coll_comm_split among them, are numbered; the sends and the
 * receives of each ordered pair of ranks are numbered apart from them. A call of 0 elements is a
 * call like any other. The ranks' calls do not match exactly if
 *  (a) the collectives of one number differ between two ranks: in verb, dtype, op, count or root,
 * in the counts that a pair of ranks gives to coll_alltoallv, in an algorithm that was forced
 *      (coll_comm_algo_set), or in which collectives of the communicator share a group with it (a
 *      group of one collective is the call itself; sends and receives in a group do not count);
 *  (b) the n-th send and the n-th receive of a pair differ in count or dtype;
 *  (c) ranks wait for each other, so that none of them can go on whatever the others do;
 *  (d) a message is still unreceived when its receiver destroys the communicator;
 *  (e) a rank waits for one that has destroyed the communicator.
 * What is compared is exact, not a hash. Then every rank gets COLL_ERROR_MISMATCH with a sentence
 * that names both calls: from the call itself, or, where that has returned already (a small send,
 * the root of a broadcast), from the next call, coll_comm_error or coll_comm_destroy. Ranks that
 * wait compare their calls when they first sleep, some 10 ms after the call began; (c) and (e) take
 * some 30 ms. A rank that has destroyed the communicator is not told any more.
 *
 * A send does not wait for its receive as long as no more than 64 messages of 256 KiB in all are
 * under way from this rank to that one. Beyond that, a send may wait until some are received, and
 * any collective may wait for any other rank to make its call. So a send within the limit followed
 * by a collective matches the collective followed by the receive. */

/* ---- collectives -----------------------------------------------------------------------------
 * Counts are in elements of dtype. n is the communicator's size. Send buffers are never written,
 * but for the part that an in-place call names as its output. A rooted call ignores the buffer that
 * a rank has no use for (it may be NULL), and so may any buffer be when its count is 0.
 * After a failure among ranks that are threads of one process, keep buffers and communicators until
 * the calls of all ranks have returned.
 * stream NULL: the call is complete when it returns. A host stream: the call is queued, the
 * buffers belong to it until coll_stream_sync.
 *
 * The bits of reductions. Integers come out the same whatever happens, and a result that is a NaN
 * is a NaN whatever happens, but with no promise of its sign and payload. Of floats:
 * - By default, an allreduce gives all ranks the same bits. Which order a call reduces in follows
 *   from the collective, op, count, dtype and root, the number of ranks and the cores they may run
 *   on, whether their memory can be mapped, the calls before it, and what things cost on this
 *   machine (COLL_TUNE). So a program run again on the same machine, with the same settings,
 *   placement and measured costs (they are kept in a file; with COLL_TUNE=builtin nothing is
 *   measured) gets the same bits; another machine, number of cores or kind of memory, a group or
 *   another count may give others. Narrow floats (float16, bfloat16, float8) are added up in
 *   float32 and rounded once by most algorithms, and once per hop by others; an algorithm that
 *   rounds once is taken wherever it is expected to be as fast.
 * - A reproducible communicator (COLL_REPRODUCIBLE=1, or its config): the bits depend on the
 *   values, the dtype, the op and the number of ranks alone: not on the algorithm, the machine or
 *   the cores, memory, in place or not, count, root, group or stream. Each element is the
 *   canonical expression C[0, n) over the ranks' operands: C[a, a+1) is rank a's operand, and
 *   C[a, b) = C[a, m) op C[m, b), m - a being the largest power of two below b - a. float32 and
 *   float64 are rounded at each op; narrow floats are computed in float32 and rounded once, at the
 *   end. Of two equal zeros MIN and MAX take the right one's sign.
 * - AVG divides the sum that is rounded so, and rounds again; a premul-sum rounds each rank's
 *   product to the dtype first.
 * The error of a sum by the canonical expression is at most about ceil(log2 n) eps times the sum of
 * the magnitudes, where adding ranks up one after the other, as rings do, has (n - 1) eps. */

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
/* Arrays of n element counts and n element displacements; all four are read before the call
 * returns, queued or not. recv_counts[j] must equal what rank j sends here. Not in place. */
COLL_API coll_status_t coll_alltoallv(const void *send, const size_t send_counts[],
                                      const size_t send_displs[], void *recv,
                                      const size_t recv_counts[], const size_t recv_displs[],
                                      coll_dtype_t dtype, coll_comm_t comm, coll_stream_t stream);
COLL_API coll_status_t coll_barrier(coll_comm_t comm, coll_stream_t stream);

/* Point to point: matched in order between two ranks, counts and dtypes equal on both sides. A
 * send may return before the receive is called. A rank may send to itself inside a group. */
COLL_API coll_status_t coll_send(const void *send, size_t count, coll_dtype_t dtype, int peer,
                                 coll_comm_t comm, coll_stream_t stream);
COLL_API coll_status_t coll_recv(void *recv, size_t count, coll_dtype_t dtype, int peer,
                                 coll_comm_t comm, coll_stream_t stream);

/* Calls between start and the outermost end are collected and progressed together: sends and
 * receives in a group cannot deadlock each other, and one thread may issue for several ranks. Their
 * results are there when end returns (stream NULL). All ranks of a communicator put the same of its
 * collectives into one group: small ones travel together. The calls of a group have no order in
 * memory: none may use what another writes. A call that fails its checks is reported at
 * once and fails the group: its end returns that status and nothing of the group is started; where
 * that is COLL_ERROR_MEMORY, the communicators of its calls are finished, as peers cannot know.
 * Within a group a communicator is used on one stream only, and none is split or destroyed. Groups
 * belong to the calling thread and nest. */
COLL_API coll_status_t coll_group_start(void);
COLL_API coll_status_t coll_group_end(void);

/* ---- reductions with a scalar ----------------------------------------------------------------
 * sum over ranks of scalar_r * x_r, where *scalar (of type dtype) is this rank's own. Usable with
 * that dtype and that communicator until destroyed. */
COLL_API coll_status_t coll_op_create_premul_sum(const void *scalar, coll_dtype_t dtype,
                                                 coll_comm_t comm, coll_op_t *op);
COLL_API coll_status_t coll_op_destroy(coll_op_t op, coll_comm_t comm);

/* ---- memory ----------------------------------------------------------------------------------
 * Memory from coll_mem_alloc can be mapped by the other ranks of this machine: the fast path. It
 * is page-aligned and zeroed, and never has a name in a file system. Registering other memory is
 * a promise to keep it until deregistered; it takes the fast path wherever peers can map it. */
COLL_API coll_status_t coll_mem_alloc(size_t bytes, void **ptr);
COLL_API coll_status_t coll_mem_free(void *ptr);
COLL_API coll_status_t coll_mem_register(coll_comm_t comm, void *ptr, size_t bytes,
                                         coll_registration_t *handle);
COLL_API coll_status_t coll_mem_deregister(coll_registration_t handle);

/* ---- host streams ----------------------------------------------------------------------------
 * A stream runs what is queued on it in order, in a thread of its own. The first failure is kept:
 * the calls behind it are dropped with the same status, and the next coll_stream_sync returns it.
 */
COLL_API coll_status_t coll_stream_create(coll_stream_t *stream);
COLL_API coll_status_t coll_stream_sync(coll_stream_t stream);
COLL_API coll_status_t coll_stream_destroy(coll_stream_t stream);

/* ---- choosing an algorithm -------------------------------------------------------------------
 * The library chooses one for every call; a benchmark or a test may insist. */

/* Name of the collective ("allreduce"), or NULL past the end. */
COLL_API const char *coll_collective_name(coll_collective_t collective);
/* Name of the collective's index-th algorithm ("ring"), or NULL past the end. */
COLL_API const char *coll_algo_name(coll_collective_t collective, int index);
/* Uses that algorithm for every later call of the collective on this communicator; NULL goes back
 * to choosing. Every rank must set the same. COLL_ERROR_INVALID, naming the nearest one, where the
 * collective has none of that name, and where the communicator is reproducible and the algorithm's
 * order is not; a call that the algorithm cannot serve (on a reproducible communicator also: of
 * narrow floats that it would round more than once) falls back. */
COLL_API coll_status_t coll_comm_algo_set(coll_comm_t comm, coll_collective_t collective,
                                          const char *name);
/* The algorithm that the communicator's latest call of this collective ran, or "" before any. */
COLL_API const char *coll_comm_algo_used(coll_comm_t comm, coll_collective_t collective);

/* What the library expects a call to take by one of the algorithms, and why: the algorithm's plan,
 * counted, times what each thing costs on this machine (COLL_TUNE). */
#define COLL_ESTIMATE_TERMS 8
typedef struct coll_estimate {
  const char *algo;
  const char *ruled_out; /* why it cannot serve such a call, else NULL */
  int chosen;            /* not 0: the library takes it */
  double time_us;        /* the sum of the terms; 0 where it is ruled out */
  double term_us[COLL_ESTIMATE_TERMS];
} coll_estimate_t;

/* Name of the index-th term ("call", "hops", "shared"), or NULL past the end. */
COLL_API const char *coll_estimate_term(int index);

/* Of the collective's index-th algorithm, as coll_algo_name counts them. mapped: whether all ranks'
 * buffers are memory that their peers map. The same on every rank. COLL_ERROR_INVALID where there
 * is no such collective, dtype or algorithm. */
COLL_API coll_status_t coll_comm_estimate(coll_comm_t comm, coll_collective_t collective,
                                          size_t count, coll_dtype_t dtype, int mapped, int index,
                                          coll_estimate_t *estimate);

/* ---- words -----------------------------------------------------------------------------------*/

COLL_API const char *coll_status_string(coll_status_t status);
COLL_API const char *coll_dtype_name(coll_dtype_t dtype); /* "float32"; NULL past the end */
COLL_API size_t coll_dtype_bytes(coll_dtype_t dtype);     /* 0 past the end */
COLL_API const char *coll_op_name(coll_op_t op);          /* "sum"; NULL past the built-in ones */

/* The sentence that explains the latest failure: of this communicator, or, with NULL, of the
 * calling thread. Valid until the thread's next failing call. Never NULL. */
COLL_API const char *coll_last_error(coll_comm_t comm_or_null);

/* One line per COLL_* environment variable the library reads: name, value now, default, meaning.
 * Returns the index-th, or NULL past the end; valid until the thread's next call of it. */
COLL_API const char *coll_knob(int index);

COLL_API void coll_version(int *major, int *minor, int *patch);

#ifdef __cplusplus
}
#endif

#endif
