/*
 * After PyTorch's CUDA graphs with NCCL: collectives of one stream are captured once per process,
 * and the graph is launched 1,000 times. Without a GPU (--host) the same calls are made each time.
 */
#include "common.h"

#define COUNT 256
#define LAUNCHES 1000

typedef struct captured {
  int rank, size;
  ncclComm_t comm;
  cudaStream_t stream;
  float *value, *all; /* COUNT, size * COUNT */
  ncclRedOp_t mean;
} captured_t;

/* The average of all ranks, which every rank then has; so it is the same in every launch. */
static void call_all(const captured_t *c) {
  NCCL(ncclAllReduce(c->value, c->value, COUNT, ncclFloat, ncclAvg, c->comm, c->stream));
  NCCL(ncclAllGather(c->value, c->all, COUNT, ncclFloat, c->comm, c->stream));
  NCCL(ncclReduceScatter(c->all, c->value, COUNT, ncclFloat, c->mean, c->comm, c->stream));
}

static void launch_all(const captured_t *c) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CUDA(cudaStreamBeginCapture(c->stream, cudaStreamCaptureModeGlobal));
  call_all(c);
  CUDA(cudaStreamEndCapture(c->stream, &graph));
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  CUDA(cudaGraphDestroy(graph));
  for (int i = 0; i < LAUNCHES; i++) {
    CUDA(cudaGraphLaunch(exec, c->stream));
    if (i % 100 == 99) CUDA(cudaStreamSynchronize(c->stream));
  }
  CUDA(cudaGraphExecDestroy(exec));
}

static void run(int rank, int size, const char *path) {
  captured_t c = {.rank = rank, .size = size};
  program_use_gpu(rank);
  NCCL(ncclCommInitRank(&c.comm, size, program_exchange_id(rank, path), rank));
  c.stream = stream_new();
  c.value = memory_new(sizeof(float) * COUNT);
  c.all = memory_new(sizeof(float) * COUNT * (size_t)size);
  float factor = 1.0f / (float)size;
  NCCL(ncclRedOpCreatePreMulSum(&c.mean, &factor, ncclFloat, ncclScalarHostImmediate, c.comm));
  fill(c.value, COUNT, 0, 2 * rank + 1, c.stream);
  stream_wait(c.stream);
  call_all(&c); /* a first one outside, as PyTorch asks its users for */
  if (program_on_host()) {
    for (int i = 0; i < LAUNCHES; i++) call_all(&c);
  } else {
    launch_all(&c);
  }
  expect(c.value, COUNT, 0, size + 1, c.stream, "after all launches");
  fill(c.value, COUNT, 5, 2 * rank + 1, c.stream);
  call_all(&c); /* calls and launches keep their order */
  expect(c.value, COUNT, 5, size + 1, c.stream, "a call after all launches");
  stream_wait(c.stream);
  NCCL(ncclRedOpDestroy(c.mean, c.comm));
  NCCL(ncclCommDestroy(c.comm));
  stream_free(c.stream);
  memory_free(c.value);
  memory_free(c.all);
}

int main(int argc, char **argv) {
  return program_run_ranks(program_start(argc, argv), run);
}
