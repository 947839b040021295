/*
 * After the OSU micro-benchmarks for NCCL (osu_xccl_allreduce and its like): a process per GPU, the
 * id through a file, a loop that is timed with events, every call alone on one stream.
 */
#include "common.h"

#define COUNT_MAX ((size_t)1 << 14)
#define WARMUP 2
#define ITERATIONS 10

typedef struct bench {
  int rank, size;
  ncclComm_t comm;
  cudaStream_t stream;
  float *send, *recv; /* size * COUNT_MAX */
} bench_t;

typedef void (*call_t)(const bench_t *bench, size_t count);

static void all_reduce(const bench_t *b, size_t count) {
  NCCL(ncclAllReduce(b->send, b->recv, count, ncclFloat, ncclSum, b->comm, b->stream));
}

static void check_all_reduce(const bench_t *b, size_t count) {
  expect(b->recv, count, 0, sum_of_ranks(b->size), b->stream, "allreduce");
}

static void broadcast(const bench_t *b, size_t count) {
  NCCL(ncclBroadcast(b->send, b->recv, count, ncclFloat, 0, b->comm, b->stream));
}

static void check_broadcast(const bench_t *b, size_t count) {
  expect(b->recv, count, 0, 1, b->stream, "broadcast");
}

static void all_gather(const bench_t *b, size_t count) {
  NCCL(ncclAllGather(b->send, b->recv, count, ncclFloat, b->comm, b->stream));
}

static void check_all_gather(const bench_t *b, size_t count) {
  for (int i = 0; i < b->size; i++) {
    expect(b->recv + (size_t)i * count, count, 0, i + 1, b->stream, "allgather");
  }
}

static void reduce_scatter(const bench_t *b, size_t count) {
  NCCL(ncclReduceScatter(b->send, b->recv, count, ncclFloat, ncclSum, b->comm, b->stream));
}

static void check_reduce_scatter(const bench_t *b, size_t count) {
  expect(b->recv, count, (size_t)b->rank * count, sum_of_ranks(b->size), b->stream,
         "reduce-scatter");
}

/* The ping-pong of osu_xccl_latency, between ranks 0 and 1. */
static void ping_pong(const bench_t *b, size_t count) {
  for (int turn = 0; turn < 2 && b->size > 1; turn++) {
    if (b->rank == turn) {
      NCCL(ncclSend(b->send, count, ncclFloat, 1 - turn, b->comm, b->stream));
    } else if (b->rank == 1 - turn) {
      NCCL(ncclRecv(b->recv, count, ncclFloat, turn, b->comm, b->stream));
    }
  }
}

static void check_ping_pong(const bench_t *b, size_t count) {
  if (b->size == 1 || b->rank > 1) return;
  expect(b->recv, count, 0, 2 - b->rank, b->stream, "send and receive");
}

static double time_calls(const bench_t *b, call_t call, size_t count) {
  cudaEvent_t start, end;
  float ms = 0.0f;
  for (int i = 0; i < WARMUP; i++) call(b, count);
  if (program_on_host()) {
    for (int i = 0; i < ITERATIONS; i++) call(b, count);
    return 0.0;
  }
  CUDA(cudaEventCreate(&start));
  CUDA(cudaEventCreate(&end));
  CUDA(cudaStreamSynchronize(b->stream));
  CUDA(cudaEventRecord(start, b->stream));
  for (int i = 0; i < ITERATIONS; i++) call(b, count);
  CUDA(cudaEventRecord(end, b->stream));
  CUDA(cudaEventSynchronize(end));
  CUDA(cudaEventElapsedTime(&ms, start, end));
  CUDA(cudaEventDestroy(start));
  CUDA(cudaEventDestroy(end));
  return (double)ms * 1000.0 / ITERATIONS;
}

static void run(int rank, int size, const char *path) {
  static const struct {
    const char *name;
    call_t call, check;
  } calls[] = {{"ping-pong", ping_pong, check_ping_pong}, /* first: other ranks make no call */
               {"allreduce", all_reduce, check_all_reduce},
               {"broadcast", broadcast, check_broadcast},
               {"allgather", all_gather, check_all_gather},
               {"reduce-scatter", reduce_scatter, check_reduce_scatter}};
  bench_t bench = {.rank = rank, .size = size};
  program_use_gpu(rank);
  NCCL(ncclCommInitRank(&bench.comm, size, program_exchange_id(rank, path), rank));
  bench.stream = stream_new();
  bench.send = memory_new(sizeof(float) * COUNT_MAX * (size_t)size);
  bench.recv = memory_new(sizeof(float) * COUNT_MAX * (size_t)size);
  fill(bench.send, COUNT_MAX * (size_t)size, 0, rank, bench.stream);
  for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
    for (size_t count = 1; count <= COUNT_MAX; count *= 128) {
      double us = time_calls(&bench, calls[i].call, count);
      calls[i].check(&bench, count);
      if (rank == 0) printf("%-16s %8zu bytes %10.1f us\n", calls[i].name, 4 * count, us);
    }
  }
  NCCL(ncclCommDestroy(bench.comm));
  stream_free(bench.stream);
  memory_free(bench.send);
  memory_free(bench.recv);
}

int main(int argc, char **argv) {
  return program_run_ranks(program_start(argc, argv), run);
}
