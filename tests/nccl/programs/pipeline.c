/*
 * After Megatron-LM: stages of a pipeline that send activations forward and gradients back in
 * groups on a stream of their own, beside allreduces of tensor-parallel pairs on another
 * communicator and stream, ordered by events. A process per GPU; with an odd number of GPUs, or
 * one, every rank is a pair of its own.
 */
#include "common.h"

#define COUNT 2500
#define MICRO_BATCHES 5

typedef struct stage {
  int rank, size, stage, stages; /* of the pipeline that the rank is in */
  ncclComm_t world, tensor, pipeline;
  cudaStream_t compute, transfer;
  cudaEvent_t received, computed;
  float *in, *out, *back, *backward; /* activations and their gradients */
} stage_t;

static void order(cudaStream_t before, cudaStream_t after, cudaEvent_t event) {
  if (program_on_host()) return;
  CUDA(cudaEventRecord(event, before));
  CUDA(cudaStreamWaitEvent(after, event, 0));
}

/* Receives from the stage before and sends to the one behind: recv_forward, send_forward. */
static void exchange(const stage_t *s, float *recv, int from, const float *send, int to) {
  NCCL(ncclGroupStart());
  if (send != NULL && to >= 0 && to < s->stages) {
    NCCL(ncclSend(send, COUNT, ncclFloat, to, s->pipeline, s->transfer));
  }
  if (recv != NULL && from >= 0 && from < s->stages) {
    NCCL(ncclRecv(recv, COUNT, ncclFloat, from, s->pipeline, s->transfer));
  }
  NCCL(ncclGroupEnd());
}

static int tensor_size(const stage_t *s) {
  return s->size / s->stages;
}

/* A layer: the pair's ranks hold the same, which the sum multiplies by their number. */
static void forward(stage_t *s, size_t micro_batch) {
  if (s->stage == 0) fill(s->in, COUNT, micro_batch, 0, s->transfer);
  exchange(s, s->in, s->stage - 1, NULL, -1);
  order(s->transfer, s->compute, s->received);
  NCCL(ncclAllReduce(s->in, s->out, COUNT, ncclFloat, ncclSum, s->tensor, s->compute));
  order(s->compute, s->transfer, s->computed);
  exchange(s, NULL, -1, s->out, s->stage + 1);
}

static double power(int base, int exponent) {
  double result = 1.0;
  for (int i = 0; i < exponent; i++) result *= base;
  return result;
}

static void backward(stage_t *s, size_t micro_batch) {
  double factor = power(tensor_size(s), s->stage + 1);
  expect(s->out, COUNT, micro_batch, factor, s->compute, "activations");
  if (s->stage == s->stages - 1) fill(s->back, COUNT, micro_batch + 1, 1, s->transfer);
  exchange(s, s->back, s->stage + 1, NULL, -1);
  order(s->transfer, s->compute, s->received);
  NCCL(ncclAllReduce(s->back, s->backward, COUNT, ncclFloat, ncclSum, s->tensor, s->compute));
  order(s->compute, s->transfer, s->computed);
  exchange(s, NULL, -1, s->backward, s->stage - 1);
  factor = 2 * power(tensor_size(s), s->stages - s->stage);
  expect(s->backward, COUNT, micro_batch + 1, factor, s->compute, "gradients");
  stream_wait(s->transfer);
}

/* Neighbours exchange both ways at once, as the steady state of 1F1B does. */
static void exchange_both(stage_t *s) {
  float *from_before = s->in, *from_behind = s->back;
  fill(s->out, COUNT, 0, s->stage, s->transfer);
  NCCL(ncclGroupStart());
  for (int step = -1; step <= 1; step += 2) {
    int peer = s->stage + step;
    if (peer < 0 || peer >= s->stages) continue;
    NCCL(ncclSend(s->out, COUNT, ncclFloat, peer, s->pipeline, s->transfer));
    NCCL(ncclRecv(step < 0 ? from_before : from_behind, COUNT, ncclFloat, peer, s->pipeline,
                  s->transfer));
  }
  NCCL(ncclGroupEnd());
  if (s->stage > 0) expect(from_before, COUNT, 0, s->stage, s->transfer, "from before");
  if (s->stage + 1 < s->stages) {
    expect(from_behind, COUNT, 0, s->stage + 2, s->transfer, "from behind");
  }
}

static void create(stage_t *s, const char *path) {
  int pair = s->size % 2 == 0 ? 2 : 1;
  float **buffers[] = {&s->in, &s->out, &s->back, &s->backward};
  s->stages = s->size / pair;
  s->stage = s->rank / pair;
  NCCL(ncclCommInitRank(&s->world, s->size, program_exchange_id(s->rank, path), s->rank));
  NCCL(ncclCommSplit(s->world, s->stage, s->rank, &s->tensor, NULL));
  NCCL(ncclCommSplit(s->world, s->rank % pair, s->rank, &s->pipeline, NULL));
  s->compute = stream_new();
  s->transfer = stream_new();
  for (int i = 0; i < 4; i++) *buffers[i] = memory_new(sizeof(float) * COUNT);
  if (program_on_host()) return;
  CUDA(cudaEventCreateWithFlags(&s->received, cudaEventDisableTiming));
  CUDA(cudaEventCreateWithFlags(&s->computed, cudaEventDisableTiming));
}

static void destroy(stage_t *s) {
  stream_wait(s->compute);
  stream_wait(s->transfer);
  NCCL(ncclCommDestroy(s->pipeline));
  NCCL(ncclCommDestroy(s->tensor));
  NCCL(ncclCommDestroy(s->world));
  stream_free(s->compute);
  stream_free(s->transfer);
  memory_free(s->in);
  memory_free(s->out);
  memory_free(s->back);
  memory_free(s->backward);
  if (program_on_host()) return;
  CUDA(cudaEventDestroy(s->received));
  CUDA(cudaEventDestroy(s->computed));
}

static void run(int rank, int size, const char *path) {
  stage_t s = {.rank = rank, .size = size};
  program_use_gpu(rank);
  create(&s, path);
  for (size_t i = 0; i < MICRO_BATCHES; i++) {
    forward(&s, i);
    backward(&s, i);
  }
  exchange_both(&s);
  destroy(&s);
}

int main(int argc, char **argv) {
  return program_run_ranks(program_start(argc, argv), run);
}
