/*
 * Measures a libnccl.so.2 with peers_measure: NVIDIA's, or libcoll's. It is loaded at run time, so
 * one program measures both.
 *
 *   peer-nccl LIBRARY threads RANKS [options of collbench]
 *   peer-nccl LIBRARY RANK RANKS ID-FILE [options of collbench]
 *
 * The first starts the ranks as threads. The second is one rank of a job of processes, whose rank 0
 * writes ID-FILE. Rank i uses GPU i modulo the number of GPUs.
 */
#include <dlfcn.h>
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/alloc.h"
#include "base/status.h"
#include "base/text.h"
#include "base/tool.h"
#include "bench/collectives.h"
#include "bench/gpu.h"
#include "bench/peers/measure.h"

#define ID_WAIT_MS 60000
#define RANKS_MAX 1024
#define VALUES_MAX 16

#define FUNCTIONS(X)                                                                     \
  X(ncclGetVersion)                                                                      \
  X(ncclGetErrorString)                                                                  \
  X(ncclGetLastError)                                                                    \
  X(ncclGetUniqueId)                                                                     \
  X(ncclCommInitRank) X(ncclCommDestroy) X(ncclCommAbort) X(ncclAllReduce) X(ncclReduce) \
      X(ncclReduceScatter) X(ncclAllGather) X(ncclBroadcast) X(ncclSend) X(ncclRecv)     \
          X(ncclGroupStart) X(ncclGroupEnd)

static struct nccl {
#define MEMBER(name) __typeof__(&name) name;
  FUNCTIONS(MEMBER)
#undef MEMBER
} nccl;

static const char *load(const char *file) {
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  const char *missing = NULL;
  void *found;
  if (library == NULL) return dlerror();
#define FIND(name)                              \
  found = dlsym(library, #name);                \
  memcpy(&nccl.name, &found, sizeof nccl.name); \
  if (found == NULL) missing = "it has no function " #name;
  FUNCTIONS(FIND)
#undef FIND
  return missing;
}

/* A rank. */
typedef struct rank {
  int rank, ranks, argc;
  char **argv;
  ncclUniqueId id;
  ncclComm_t comm;
  bench_gpu_t gpu;
  double *values; /* of the GPU: VALUES_MAX */
  char name[160];
  int code;
} rank_t;

static const char *text_of(ncclResult_t result) {
  if (result == ncclSuccess) return NULL;
  const char *text = nccl.ncclGetLastError(NULL);
  return text != NULL && text[0] != '\0' ? text : nccl.ncclGetErrorString(result);
}

static const char *status_text(coll_status_t status) {
  return status == COLL_OK ? NULL : base_last_error();
}

static cudaStream_t stream_of(const rank_t *rank) {
  return rank->gpu.stream;
}

/* ---- peers_library_t -------------------------------------------------------------------------*/

static bool supports(void *context, coll_collective_t collective) {
  (void)context;
  return collective != COLL_ALLTOALLV && collective != COLL_GATHER && collective != COLL_SCATTER &&
         collective != COLL_BARRIER && !bench_collective_has_uneven_blocks(collective);
}

/* Block i of `send` to rank to(i), block i of `recv` from it. */
static ncclResult_t exchange(const rank_t *rank, size_t count, const float *send, float *recv) {
  ncclResult_t result = nccl.ncclGroupStart();
  for (int peer = 0; result == ncclSuccess && peer < rank->ranks; peer++) {
    size_t at = (size_t)peer * count;
    result = nccl.ncclSend(send + at, count, ncclFloat32, peer, rank->comm, stream_of(rank));
    if (result == ncclSuccess) {
      result = nccl.ncclRecv(recv + at, count, ncclFloat32, peer, rank->comm, stream_of(rank));
    }
  }
  ncclResult_t ended = nccl.ncclGroupEnd();
  return result == ncclSuccess ? ended : result;
}

static ncclResult_t shift(const rank_t *rank, size_t count, const void *send, void *recv) {
  int next = (rank->rank + 1) % rank->ranks, last = (rank->rank + rank->ranks - 1) % rank->ranks;
  ncclResult_t result = nccl.ncclGroupStart();
  if (result == ncclSuccess) {
    result = nccl.ncclSend(send, count, ncclFloat32, next, rank->comm, stream_of(rank));
  }
  if (result == ncclSuccess) {
    result = nccl.ncclRecv(recv, count, ncclFloat32, last, rank->comm, stream_of(rank));
  }
  ncclResult_t ended = nccl.ncclGroupEnd();
  return result == ncclSuccess ? ended : result;
}

static const char *call(void *context, const peers_call_t *call, const void *send, void *recv) {
  const rank_t *rank = context;
  size_t count = call->count;
  ncclComm_t comm = rank->comm;
  cudaStream_t stream = stream_of(rank);
  switch (call->collective) {
    case COLL_ALLREDUCE:
      return text_of(nccl.ncclAllReduce(send, recv, count, ncclFloat32, ncclSum, comm, stream));
    case COLL_REDUCE:
      return text_of(
          nccl.ncclReduce(send, recv, count, ncclFloat32, ncclSum, call->root, comm, stream));
    case COLL_REDUCE_SCATTER:
      return text_of(nccl.ncclReduceScatter(send, recv, count, ncclFloat32, ncclSum, comm, stream));
    case COLL_ALLGATHER:
      return text_of(nccl.ncclAllGather(send, recv, count, ncclFloat32, comm, stream));
    case COLL_BROADCAST:
      return text_of(nccl.ncclBroadcast(send, recv, count, ncclFloat32, call->root, comm, stream));
    case COLL_ALLTOALL: return text_of(exchange(rank, count, send, recv));
    case COLL_SENDRECV: return text_of(shift(rank, count, send, recv));
    default: return "NCCL is not measured with this collective";
  }
}

static const char *complete(void *context) {
  return status_text(bench_gpu_sync(&((const rank_t *)context)->gpu));
}

static const char *max(void *context, double *values, int count) {
  const rank_t *rank = context;
  size_t bytes = (size_t)count * sizeof *values;
  if (count > VALUES_MAX) return "too many values";
  const char *error = status_text(bench_gpu_copy(&rank->gpu, rank->values, values, bytes));
  if (error != NULL) return error;
  error = text_of(nccl.ncclAllReduce(rank->values, rank->values, (size_t)count, ncclFloat64,
                                     ncclMax, rank->comm, stream_of(rank)));
  return error != NULL ? error
                       : status_text(bench_gpu_copy(&rank->gpu, values, rank->values, bytes));
}

static const char *barrier(void *context) {
  double value = 0;
  return max(context, &value, 1);
}

/* ---- a rank ----------------------------------------------------------------------------------*/

static const char *open_rank(rank_t *rank) {
  void *memory = NULL;
  char gpu[64];
  int version = 0;
  const char *error = status_text(bench_gpu_open(rank->rank, &rank->gpu));
  if (error == NULL) {
    error = status_text(bench_gpu_alloc(VALUES_MAX * sizeof *rank->values, &memory));
  }
  if (error == NULL) error = status_text(bench_gpu_name(&rank->gpu, gpu, (int)sizeof gpu));
  if (error == NULL) error = text_of(nccl.ncclGetVersion(&version));
  if (error == NULL) {
    error = text_of(nccl.ncclCommInitRank(&rank->comm, rank->ranks, rank->id, rank->rank));
  }
  rank->values = memory;
  if (error != NULL) return error;
  snprintf(rank->name, sizeof rank->name, "NCCL %d.%d.%d, %s", version / 10000, version / 100 % 100,
           version % 100, gpu);
  return NULL;
}

static void *run_rank(void *argument) {
  rank_t *rank = argument;
  const char *error = open_rank(rank);
  if (error != NULL) {
    fprintf(stderr, "peer-nccl: rank %d: %s\n", rank->rank, error);
    exit(1); /* the others wait for this rank */
  }
  const peers_library_t library = {.name = rank->name,
                                   .rank = rank->rank,
                                   .ranks = rank->ranks,
                                   .context = rank,
                                   .supports = supports,
                                   .call = call,
                                   .barrier = barrier,
                                   .max = max,
                                   .complete = complete,
                                   .gpu = &rank->gpu};
  rank->code = peers_measure(rank->argc, rank->argv, &library);
  if (rank->code != 0) exit(rank->code);
  (void)nccl.ncclCommDestroy(rank->comm);
  bench_gpu_free(rank->values);
  bench_gpu_close(&rank->gpu);
  return NULL;
}

static int run_threads(const rank_t *first) {
  static rank_t ranks[RANKS_MAX];
  static pthread_t threads[RANKS_MAX];
  for (int i = 0; i < first->ranks; i++) {
    ranks[i] = *first;
    ranks[i].rank = i;
    if (pthread_create(&threads[i], NULL, run_rank, &ranks[i]) == 0) continue;
    fprintf(stderr, "peer-nccl: cannot start a thread\n");
    return 1;
  }
  for (int i = 0; i < first->ranks; i++) pthread_join(threads[i], NULL);
  return 0;
}

/* Under another name first, so that nobody reads a part of it. */
static bool write_id(const char *file, const ncclUniqueId *id) {
  char partial[512];
  snprintf(partial, sizeof partial, "%s.partial", file);
  FILE *out = fopen(partial, "we");
  if (out == NULL) return false;
  bool written = fwrite(id, sizeof *id, 1, out) == 1;
  return (fclose(out) == 0) && written && rename(partial, file) == 0;
}

static bool read_id(const char *file, ncclUniqueId *id) {
  for (int waited = 0; waited < ID_WAIT_MS; waited += 10) {
    FILE *in = fopen(file, "re");
    if (in != NULL) {
      bool whole = fread(id, sizeof *id, 1, in) == 1;
      fclose(in);
      return whole;
    }
    base_clock_sleep_ns(10000000);
  }
  return false;
}

static int fail(const char *text) {
  fprintf(stderr, "peer-nccl: %s\n", text);
  return 2;
}

static int run_tool(int argc, char **argv) {
  int64_t rank = 0, ranks;
  bool threads = argc > 2 && strcmp(argv[2], "threads") == 0;
  int used = threads ? 4 : 5;
  if (argc < used || (!threads && !base_text_integer(argv[2], 0, RANKS_MAX - 1, &rank)) ||
      !base_text_integer(argv[3], 1, RANKS_MAX, &ranks)) {
    return fail("LIBRARY threads RANKS ..., or LIBRARY RANK RANKS ID-FILE ...");
  }
  const char *error = load(argv[1]);
  if (error != NULL) return fail(error);
  rank_t first = {.rank = (int)rank, .ranks = (int)ranks};
  first.argc = argc - used + 1;
  first.argv = argv + used - 1; /* the word before the options is not read */
  if (rank == 0 && (error = text_of(nccl.ncclGetUniqueId(&first.id))) != NULL) return fail(error);
  if (threads) return run_threads(&first);
  bool exchanged = rank == 0 ? write_id(argv[4], &first.id) : read_id(argv[4], &first.id);
  if (!exchanged) return fail("cannot exchange the id");
  run_rank(&first);
  return first.code;
}

int main(int argc, char **argv) {
  return base_tool_main("peer-nccl", run_tool, argc, argv);
}
