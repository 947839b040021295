/*
 * After PyTorch's ProcessGroupNCCL and DeepSpeed: communicators that are made without blocking and
 * polled, several of them per process, split from one, a coalesced group of allgathers, a
 * pre-multiplied sum with its factor on the host and in memory of the GPU, and the streams of a
 * process group that wait for the program's by events.
 */
#include <time.h>

#include "common.h"

#define PARTS 6
#define COUNT 700

typedef struct process {
  int rank, size;
  cudaStream_t stream;
  float *in, *out; /* PARTS * size * COUNT */
} process_t;

/* Polls as ProcessGroupNCCL does, until the communicator is ready. */
static void wait_ready(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  for (int tries = 0; tries < 60000; tries++) {
    NCCL(ncclCommGetAsyncError(comm, &state));
    if (state != ncclInProgress) break;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  REQUIRE(state == ncclSuccess, "the communicator is not ready: %s", ncclGetErrorString(state));
}

/* A call on a communicator that does not block may still be in progress. */
static void finish(ncclResult_t result, ncclComm_t comm) {
  REQUIRE(result == ncclSuccess || result == ncclInProgress, "%s: %s", ncclGetErrorString(result),
          ncclGetLastError(NULL));
  if (result == ncclInProgress) wait_ready(comm);
}

static ncclComm_t create(const process_t *p, const char *path) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = NULL;
  config.blocking = 0;
  ncclUniqueId id = program_exchange_id(p->rank, path);
  ncclResult_t result = ncclCommInitRankConfig(&comm, p->size, id, p->rank, &config);
  finish(result, comm);
  wait_ready(comm);
  return comm;
}

static ncclComm_t split(const process_t *p, ncclComm_t world, int color) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = NULL;
  config.blocking = 0;
  finish(ncclCommSplit(world, color, p->rank, &comm, &config), world);
  wait_ready(comm);
  return comm;
}

/* all_gather_into_tensor_coalesced: parts of different lengths in one group. */
static void gather_coalesced(const process_t *p, ncclComm_t comm) {
  float *in = p->in, *out = p->out;
  fill(p->in, PARTS * COUNT, 0, p->rank, p->stream);
  NCCL(ncclGroupStart());
  for (size_t i = 0; i < PARTS; i++) {
    size_t count = COUNT - 100 * i;
    finish(ncclAllGather(in, out, count, ncclFloat, comm, p->stream), comm);
    in += count;
    out += count * (size_t)p->size;
  }
  finish(ncclGroupEnd(), comm);
  out = p->out;
  for (size_t i = 0, first = 0; i < PARTS; i++) {
    size_t count = COUNT - 100 * i;
    for (int rank = 0; rank < p->size; rank++, out += count) {
      expect(out, count, first, rank + 1, p->stream, "coalesced allgather");
    }
    first += count;
  }
}

/* DeepSpeed's gradients: scaled before the sum. */
static void sum_scaled(const process_t *p, ncclComm_t comm) {
  for (int on_gpu = 0; on_gpu < 2; on_gpu++) {
    float factor = 0.5f;
    float *scalar = on_gpu ? memory_new(sizeof *scalar) : &factor;
    ncclRedOp_t op;
    if (on_gpu) upload(scalar, &factor, sizeof factor, p->stream);
    stream_wait(p->stream);
    NCCL(ncclRedOpCreatePreMulSum(&op, scalar, ncclFloat,
                                  on_gpu ? ncclScalarDevice : ncclScalarHostImmediate, comm));
    fill(p->in, COUNT, 3, p->rank, p->stream);
    finish(ncclAllReduce(p->in, p->out, COUNT, ncclFloat, op, comm, p->stream), comm);
    NCCL(ncclRedOpDestroy(op, comm));
    expect(p->out, COUNT, 3, sum_of_ranks(p->size) / 2, p->stream, "scaled allreduce");
    if (on_gpu) memory_free(scalar);
  }
}

/* Ranks of a half: of the same parity. */
static void use_halves(const process_t *p, ncclComm_t half) {
  int size, rank;
  double sum = 0.0;
  NCCL(ncclCommCount(half, &size));
  NCCL(ncclCommUserRank(half, &rank));
  REQUIRE(rank == p->rank / 2, "rank %d of the half instead of %d", rank, p->rank / 2);
  for (int i = p->rank % 2; i < p->size; i += 2) sum += i + 1;
  fill(p->in, COUNT, 1, p->rank, p->stream);
  finish(ncclAllReduce(p->in, p->in, COUNT, ncclFloat, ncclSum, half, p->stream), half);
  expect(p->in, COUNT, 1, sum, p->stream, "allreduce of a half");
}

/* Several communicators in one group. */
static void use_both(const process_t *p, ncclComm_t world, ncclComm_t half) {
  fill(p->in, 2 * COUNT, 0, p->rank, p->stream);
  NCCL(ncclGroupStart());
  finish(ncclAllReduce(p->in, p->out, COUNT, ncclFloat, ncclMax, world, p->stream), world);
  finish(ncclAllReduce(p->in, p->out + COUNT, COUNT, ncclFloat, ncclMin, half, p->stream), half);
  finish(ncclGroupEnd(), world);
  wait_ready(half);
  expect(p->out, COUNT, 0, p->size, p->stream, "maximum");
  expect(p->out + COUNT, COUNT, 0, p->rank % 2 + 1, p->stream, "minimum of a half");
}

static void destroy(ncclComm_t comm) {
  finish(ncclCommFinalize(comm), comm);
  wait_ready(comm);
  NCCL(ncclCommDestroy(comm));
}

static void run(int rank, int size, const char *path) {
  process_t p = {.rank = rank, .size = size};
  program_use_gpu(rank);
  p.stream = stream_new();
  p.in = memory_new(sizeof(float) * PARTS * COUNT * (size_t)size);
  p.out = memory_new(sizeof(float) * PARTS * COUNT * (size_t)size);
  ncclComm_t world = create(&p, path), half = split(&p, world, rank % 2);
  gather_coalesced(&p, world);
  sum_scaled(&p, world);
  use_halves(&p, half);
  use_both(&p, world, half);
  destroy(half);
  destroy(world);
  stream_free(p.stream);
  memory_free(p.in);
  memory_free(p.out);
}

int main(int argc, char **argv) {
  return program_run_ranks(program_start(argc, argv), run);
}
