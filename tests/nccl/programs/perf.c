/*
 * After nccl-tests: every collective, with several GPUs per thread in one group, in place and not,
 * over types, reductions and roots, and with its check of every element. First one thread has all
 * GPUs, then two threads have half of them each.
 */
#include <pthread.h>

#include "common.h"
#include "elements.h"

#define COUNT_MAX 2000 /* of a rank's block */

typedef struct gpu {
  int rank;
  ncclComm_t comm;
  cudaStream_t stream;
  char *first, *second; /* ranks * COUNT_MAX elements of up to 8 bytes */
  void *registration;   /* of the first, as with nccl-tests' -R 1 */
} gpu_t;

typedef struct call {
  size_t count;
  ncclDataType_t dtype;
  ncclRedOp_t op;
  int root;
} call_t;

typedef struct collective {
  const char *name;
  bool sends_all, receives_all; /* a block for each rank */
  bool reduces, has_root, can_be_in_place;
  void (*start)(const gpu_t *gpu, const call_t *call, const void *send, void *recv);
  /* The sources of element j of a rank's result; first -1: this rank gets none. */
  element_t (*element)(const call_t *call, int rank, size_t j);
} collective_t;

static int ranks;

/* ---- the collectives -------------------------------------------------------------------------*/

static void all_reduce(const gpu_t *g, const call_t *c, const void *send, void *recv) {
  NCCL(ncclAllReduce(send, recv, c->count, c->dtype, c->op, g->comm, g->stream));
}

static element_t of_all(const call_t *c, int rank, size_t j) {
  (void)c, (void)rank;
  return (element_t){ELEMENT_ALL_RANKS, j};
}

static void reduce(const gpu_t *g, const call_t *c, const void *send, void *recv) {
  NCCL(ncclReduce(send, recv, c->count, c->dtype, c->op, c->root, g->comm, g->stream));
}

static element_t of_all_at_root(const call_t *c, int rank, size_t j) {
  return (element_t){rank == c->root ? ELEMENT_ALL_RANKS : ELEMENT_NONE, j};
}

static void broadcast(const gpu_t *g, const call_t *c, const void *send, void *recv) {
  NCCL(ncclBroadcast(send, recv, c->count, c->dtype, c->root, g->comm, g->stream));
}

static element_t of_root(const call_t *c, int rank, size_t j) {
  (void)rank;
  return (element_t){c->root, j};
}

static void all_gather(const gpu_t *g, const call_t *c, const void *send, void *recv) {
  NCCL(ncclAllGather(send, recv, c->count, c->dtype, g->comm, g->stream));
}

static element_t of_each(const call_t *c, int rank, size_t j) {
  (void)rank;
  return (element_t){(int)(j / c->count), j % c->count};
}

static void reduce_scatter(const gpu_t *g, const call_t *c, const void *send, void *recv) {
  NCCL(ncclReduceScatter(send, recv, c->count, c->dtype, c->op, g->comm, g->stream));
}

static element_t of_all_own_block(const call_t *c, int rank, size_t j) {
  return (element_t){ELEMENT_ALL_RANKS, (size_t)rank * c->count + j};
}

/* As nccl-tests has it: sends and receives. */
static void all_to_all(const gpu_t *g, const call_t *c, const void *send, void *recv) {
  size_t bytes = c->count * element_bytes(c->dtype);
  NCCL(ncclGroupStart());
  for (int peer = 0; peer < ranks; peer++) {
    NCCL(ncclSend((const char *)send + (size_t)peer * bytes, c->count, c->dtype, peer, g->comm,
                  g->stream));
    NCCL(ncclRecv((char *)recv + (size_t)peer * bytes, c->count, c->dtype, peer, g->comm,
                  g->stream));
  }
  NCCL(ncclGroupEnd());
}

static element_t of_each_own_block(const call_t *c, int rank, size_t j) {
  return (element_t){(int)(j / c->count), (size_t)rank * c->count + j % c->count};
}

static void gather(const gpu_t *g, const call_t *c, const void *send, void *recv) {
  size_t bytes = c->count * element_bytes(c->dtype);
  NCCL(ncclGroupStart());
  NCCL(ncclSend(send, c->count, c->dtype, c->root, g->comm, g->stream));
  for (int peer = 0; peer < ranks && g->rank == c->root; peer++) {
    NCCL(ncclRecv((char *)recv + (size_t)peer * bytes, c->count, c->dtype, peer, g->comm,
                  g->stream));
  }
  NCCL(ncclGroupEnd());
}

static element_t of_each_at_root(const call_t *c, int rank, size_t j) {
  if (rank != c->root) return (element_t){ELEMENT_NONE, 0};
  return of_each(c, rank, j);
}

static void scatter(const gpu_t *g, const call_t *c, const void *send, void *recv) {
  size_t bytes = c->count * element_bytes(c->dtype);
  NCCL(ncclGroupStart());
  for (int peer = 0; peer < ranks && g->rank == c->root; peer++) {
    NCCL(ncclSend((const char *)send + (size_t)peer * bytes, c->count, c->dtype, peer, g->comm,
                  g->stream));
  }
  NCCL(ncclRecv(recv, c->count, c->dtype, c->root, g->comm, g->stream));
  NCCL(ncclGroupEnd());
}

static element_t of_root_own_block(const call_t *c, int rank, size_t j) {
  return (element_t){c->root, (size_t)rank * c->count + j};
}

static void send_recv(const gpu_t *g, const call_t *c, const void *send, void *recv) {
  NCCL(ncclGroupStart());
  NCCL(ncclSend(send, c->count, c->dtype, (g->rank + 1) % ranks, g->comm, g->stream));
  NCCL(ncclRecv(recv, c->count, c->dtype, (g->rank + ranks - 1) % ranks, g->comm, g->stream));
  NCCL(ncclGroupEnd());
}

static element_t of_previous(const call_t *c, int rank, size_t j) {
  (void)c;
  return (element_t){(rank + ranks - 1) % ranks, j};
}

static const collective_t collectives[] = {
    {"all_reduce", false, false, true, false, true, all_reduce, of_all},
    {"reduce", false, false, true, true, true, reduce, of_all_at_root},
    {"broadcast", false, false, false, true, true, broadcast, of_root},
    {"all_gather", false, true, false, false, true, all_gather, of_each},
    {"reduce_scatter", true, false, true, false, true, reduce_scatter, of_all_own_block},
    {"alltoall", true, true, false, false, false, all_to_all, of_each_own_block},
    {"gather", false, true, false, true, false, gather, of_each_at_root},
    {"scatter", true, false, false, true, false, scatter, of_root_own_block},
    {"sendrecv", false, false, false, false, false, send_recv, of_previous},
};

/* ---- one call of all GPUs of a thread --------------------------------------------------------*/

typedef struct buffers {
  char *send, *recv;
} buffers_t;

/* In place, the smaller buffer is the rank's block of the larger one. */
static buffers_t buffers_of(const gpu_t *g, const collective_t *k, const call_t *c, bool in_place) {
  size_t block = (size_t)g->rank * c->count * element_bytes(c->dtype);
  if (!in_place) return (buffers_t){g->first, g->second};
  return (buffers_t){g->first + (k->receives_all ? block : 0),
                     g->first + (k->sends_all ? block : 0)};
}

static void prepare(const gpu_t *g, const collective_t *k, const call_t *c, char *send) {
  size_t count = c->count * (size_t)(k->sends_all ? ranks : 1);
  char *host = malloc(count * element_bytes(c->dtype));
  REQUIRE(host != NULL, "no memory");
  for (size_t i = 0; i < count; i++) {
    element_store(host, c->dtype, i, element_value(g->rank, i));
  }
  upload(send, host, count * element_bytes(c->dtype), g->stream);
  free(host);
}

static void check(const gpu_t *g, const collective_t *k, const call_t *c, const char *recv,
                  bool in_place) {
  size_t count = c->count * (size_t)(k->receives_all ? ranks : 1);
  char *host = malloc(count * element_bytes(c->dtype));
  REQUIRE(host != NULL, "no memory");
  download(host, recv, count * element_bytes(c->dtype), g->stream);
  for (size_t i = 0; i < count; i++) {
    element_t element = k->element(c, g->rank, i);
    if (element.rank == ELEMENT_NONE) break;
    REQUIRE(element_is(host, c->dtype, i, &element, c->op, ranks),
            "%s%s of %zu elements of type %d, op %d, root %d: element %zu of rank %d is %g",
            k->name, in_place ? " in place" : "", c->count, (int)c->dtype, (int)c->op, c->root, i,
            g->rank, element_load(host, c->dtype, i));
  }
  free(host);
}

static void run_call(const gpu_t gpus[], int count, const collective_t *k, const call_t *c,
                     bool in_place) {
  for (int i = 0; i < count; i++) {
    program_use_gpu(gpus[i].rank);
    prepare(&gpus[i], k, c, buffers_of(&gpus[i], k, c, in_place).send);
  }
  NCCL(ncclGroupStart());
  for (int i = 0; i < count; i++) {
    buffers_t buffers = buffers_of(&gpus[i], k, c, in_place);
    k->start(&gpus[i], c, buffers.send, buffers.recv);
  }
  NCCL(ncclGroupEnd());
  for (int i = 0; i < count; i++) {
    program_use_gpu(gpus[i].rank);
    check(&gpus[i], k, c, buffers_of(&gpus[i], k, c, in_place).recv, in_place);
  }
}

/* ---- the matrix ------------------------------------------------------------------------------*/

static void run_collective(const gpu_t gpus[], int count, const collective_t *k) {
  static const size_t counts[] = {1, 257, COUNT_MAX};
  int types = element_types(), step = 0;
  for (int type = 0; type < types; type++) {
    for (int op = 0; op <= (k->reduces ? (int)ncclAvg : 0); op++) {
      ncclDataType_t dtype = element_type(type);
      if (!element_reduces(dtype, (ncclRedOp_t)op)) continue;
      call_t call = {.dtype = dtype, .op = (ncclRedOp_t)op};
      call.count = counts[step % 3];
      call.root = k->has_root ? step % ranks : 0;
      run_call(gpus, count, k, &call, false);
      if (k->can_be_in_place) run_call(gpus, count, k, &call, true);
      step++;
    }
  }
}

static ncclUniqueId id;

typedef struct part {
  int first, count; /* its GPUs */
} part_t;

static void *run_thread(void *argument) {
  const part_t *part = argument;
  gpu_t gpus[PROGRAM_GPUS_MAX];
  NCCL(ncclGroupStart());
  for (int i = 0; i < part->count; i++) {
    gpus[i].rank = part->first + i;
    program_use_gpu(gpus[i].rank);
    NCCL(ncclCommInitRank(&gpus[i].comm, ranks, id, gpus[i].rank));
  }
  NCCL(ncclGroupEnd());
  for (int i = 0; i < part->count; i++) {
    program_use_gpu(gpus[i].rank);
    gpus[i].stream = stream_new();
    NCCL(ncclMemAlloc((void **)&gpus[i].first, (size_t)ranks * COUNT_MAX * 8));
    NCCL(ncclCommRegister(gpus[i].comm, gpus[i].first, (size_t)ranks * COUNT_MAX * 8,
                          &gpus[i].registration));
    gpus[i].second = memory_new((size_t)ranks * COUNT_MAX * 8);
  }
  for (size_t i = 0; i < sizeof collectives / sizeof collectives[0]; i++) {
    run_collective(gpus, part->count, &collectives[i]);
  }
  for (int i = 0; i < part->count; i++) {
    program_use_gpu(gpus[i].rank);
    stream_free(gpus[i].stream);
    NCCL(ncclCommDeregister(gpus[i].comm, gpus[i].registration));
    NCCL(ncclMemFree(gpus[i].first));
    memory_free(gpus[i].second);
    NCCL(ncclCommDestroy(gpus[i].comm));
  }
  return NULL;
}

static void run_threads(int thread_count) {
  pthread_t threads[2];
  part_t parts[2];
  NCCL(ncclGetUniqueId(&id));
  for (int i = 0; i < thread_count; i++) {
    parts[i] = (part_t){i * ranks / thread_count, ranks / thread_count};
    REQUIRE(pthread_create(&threads[i], NULL, run_thread, &parts[i]) == 0, "no thread");
  }
  for (int i = 0; i < thread_count; i++) pthread_join(threads[i], NULL);
}

int main(int argc, char **argv) {
  ranks = program_start(argc, argv);
  run_threads(1);
  if (ranks % 2 == 0) run_threads(2);
  printf("all collectives, %d GPUs: all right\n", ranks);
  return 0;
}
