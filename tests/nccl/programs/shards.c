/*
 * After llm.c (llmc/zero.cuh, train_gpt2.cu): a process per GPU, the id through a file, losses
 * averaged in managed memory, gradients reduced on a communication stream that waits for the
 * computing one by events, shards of ZeRO stage 1 by reduce-scatter in place and allgather. One
 * communicator is used on both streams.
 */
#include "common.h"

#define TENSORS 3
#define COUNT 1200 /* of a tensor and rank: a multiple of 8, for the shards */
#define STEPS 4

typedef struct trainer {
  int rank, size;
  ncclComm_t comm;
  cudaStream_t compute, communicate;
  cudaEvent_t computed, reduced;
  float *gradients, *parameters; /* TENSORS * size * COUNT */
  float *loss;                   /* managed */
} trainer_t;

static void create(trainer_t *t) {
  size_t bytes = sizeof(float) * TENSORS * COUNT * (size_t)t->size;
  t->compute = stream_new();
  t->communicate = stream_new();
  t->gradients = memory_new(bytes);
  t->parameters = memory_new(bytes);
  if (program_on_host()) {
    t->loss = memory_new(sizeof *t->loss);
    return;
  }
  CUDA(cudaEventCreateWithFlags(&t->computed, cudaEventDisableTiming));
  CUDA(cudaEventCreateWithFlags(&t->reduced, cudaEventDisableTiming));
  CUDA(cudaMallocManaged((void **)&t->loss, sizeof *t->loss, cudaMemAttachGlobal));
}

/* What follows in the one stream comes after what is before in the other. */
static void order(cudaStream_t before, cudaStream_t after, cudaEvent_t event) {
  if (program_on_host()) return;
  CUDA(cudaEventRecord(event, before));
  CUDA(cudaStreamWaitEvent(after, event, 0));
}

static void average_loss(trainer_t *t) {
  *t->loss = (float)(t->rank * 8);
  NCCL(ncclAllReduce(t->loss, t->loss, 1, ncclFloat, ncclAvg, t->comm, t->compute));
  stream_wait(t->compute);
  REQUIRE(*t->loss == 4.0f * (float)(t->size - 1), "the loss is %g", (double)*t->loss);
}

/* Each rank keeps the averages of its shard of every tensor, in place. */
static void reduce_gradients(trainer_t *t) {
  size_t whole = COUNT * (size_t)t->size;
  NCCL(ncclGroupStart());
  for (size_t i = 0; i < TENSORS; i++) {
    float *tensor = t->gradients + i * whole;
    NCCL(ncclReduceScatter(tensor, tensor + (size_t)t->rank * COUNT, COUNT, ncclFloat, ncclAvg,
                           t->comm, t->communicate));
  }
  NCCL(ncclGroupEnd());
}

static void gather_parameters(trainer_t *t) {
  size_t whole = COUNT * (size_t)t->size;
  NCCL(ncclGroupStart());
  for (size_t i = 0; i < TENSORS; i++) {
    float *tensor = t->parameters + i * whole;
    NCCL(ncclAllGather(tensor + (size_t)t->rank * COUNT, tensor, COUNT, ncclFloat, t->comm,
                       t->communicate));
  }
  NCCL(ncclGroupEnd());
}

/* The optimizer: the rank's shard of the parameters becomes that of the gradients. */
static void update(trainer_t *t) {
  size_t whole = COUNT * (size_t)t->size;
  for (size_t i = 0; i < TENSORS; i++) {
    size_t shard = i * whole + (size_t)t->rank * COUNT;
    if (program_on_host()) {
      memcpy(t->parameters + shard, t->gradients + shard, sizeof(float) * COUNT);
    } else {
      CUDA(cudaMemcpyAsync(t->parameters + shard, t->gradients + shard, sizeof(float) * COUNT,
                           cudaMemcpyDeviceToDevice, t->compute));
    }
  }
}

static void step(trainer_t *t, size_t number) {
  size_t whole = COUNT * (size_t)t->size;
  average_loss(t);
  for (size_t i = 0; i < TENSORS; i++) {
    fill(t->gradients + i * whole, whole, number + i, 2 * t->rank + 1, t->compute);
  }
  order(t->compute, t->communicate, t->computed);
  reduce_gradients(t);
  order(t->communicate, t->compute, t->reduced);
  update(t);
  order(t->compute, t->communicate, t->computed);
  gather_parameters(t);
  order(t->communicate, t->compute, t->reduced);
  for (size_t i = 0; i < TENSORS; i++) { /* the mean of 2 * (rank + 1) */
    expect(t->parameters + i * whole, whole, number + i, t->size + 1, t->compute, "parameters");
  }
}

static void run(int rank, int size, const char *path) {
  trainer_t t = {.rank = rank, .size = size};
  program_use_gpu(rank);
  NCCL(ncclCommInitRank(&t.comm, size, program_exchange_id(rank, path), rank));
  create(&t);
  for (size_t i = 0; i < STEPS; i++) step(&t, i);
  stream_wait(t.communicate);
  NCCL(ncclCommDestroy(t.comm));
  stream_free(t.compute);
  stream_free(t.communicate);
  memory_free(t.gradients);
  memory_free(t.parameters);
  memory_free(t.loss);
  if (program_on_host()) return;
  CUDA(cudaEventDestroy(t.computed));
  CUDA(cudaEventDestroy(t.reduced));
}

int main(int argc, char **argv) {
  return program_run_ranks(program_start(argc, argv), run);
}
