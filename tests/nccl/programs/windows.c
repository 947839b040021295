/*
 * After nccl-tests with symmetric registration (-R 2): one thread registers the buffers of all its
 * GPUs as windows in a group, some of ncclMemAlloc and some of cudaMalloc, and calls in them.
 */
#include "common.h"

#define COUNT 5000
#define BYTES (sizeof(float) * COUNT)

typedef struct rank {
  ncclComm_t comm;
  cudaStream_t stream;
  float *send, *recv;
  ncclWindow_t send_window, recv_window;
} rank_t;

static int size;
static rank_t ranks[PROGRAM_GPUS_MAX];

static void create(void) {
  ncclComm_t comms[PROGRAM_GPUS_MAX];
  NCCL(ncclCommInitAll(comms, size, NULL));
  for (int i = 0; i < size; i++) {
    rank_t *rank = &ranks[i];
    program_use_gpu(i);
    rank->comm = comms[i];
    rank->stream = stream_new();
    NCCL(ncclMemAlloc((void **)&rank->send, BYTES));
    rank->recv = memory_new(BYTES);
    fill(rank->send, COUNT, 0, i, rank->stream);
  }
}

/* A window that its group has not made yet cannot be ended. */
static void end_early(const rank_t *rank) {
  if (program_on_host()) return; /* it is made at once */
  ncclResult_t result = ncclCommWindowDeregister(rank->comm, rank->send_window);
  REQUIRE(result == ncclInvalidUsage, "the end of a window in its group gave %d", result);
}

/* The calls of a group are in windows that the same group makes, or in those of before. */
static void reduce_in_windows(bool registers, const char *what) {
  NCCL(ncclGroupStart());
  for (int i = 0; i < size; i++) {
    rank_t *rank = &ranks[i];
    int flags = NCCL_WIN_COLL_SYMMETRIC;
    if (registers) {
      NCCL(ncclCommWindowRegister(rank->comm, rank->send, BYTES, &rank->send_window, flags));
      NCCL(ncclCommWindowRegister(rank->comm, rank->recv, BYTES, &rank->recv_window, flags));
      end_early(rank);
    }
    NCCL(
        ncclAllReduce(rank->send, rank->recv, COUNT, ncclFloat, ncclSum, rank->comm, rank->stream));
  }
  NCCL(ncclGroupEnd());
  for (int i = 0; i < size; i++) {
    program_use_gpu(i);
    REQUIRE(ranks[i].send_window != NULL && ranks[i].recv_window != NULL, "no window");
    expect(ranks[i].recv, COUNT, 0, sum_of_ranks(size), ranks[i].stream, what);
  }
}

static void end_windows(void) {
  for (int i = 0; i < size; i++) {
    program_use_gpu(i);
    NCCL(ncclCommWindowDeregister(ranks[i].comm, ranks[i].send_window));
    NCCL(ncclCommWindowDeregister(ranks[i].comm, ranks[i].recv_window));
    ranks[i].send_window = ranks[i].recv_window = NULL;
  }
}

/* A group with a call that is wrong makes no windows of memory of GPUs. */
static void fail_group(void) {
  ncclWindow_t window;
  float *memory = ranks[0].send;
  program_use_gpu(0);
  NCCL(ncclGroupStart());
  NCCL(ncclCommWindowRegister(ranks[0].comm, memory, BYTES, &window, NCCL_WIN_DEFAULT));
  ncclResult_t result =
      ncclAllReduce(memory, memory, 1, ncclNumTypes, ncclSum, ranks[0].comm, ranks[0].stream);
  REQUIRE(result == ncclInvalidArgument, "a wrong type gave %d", result);
  result = ncclGroupEnd();
  REQUIRE(result == ncclInvalidArgument, "the group with a wrong type gave %d", result);
  if (program_on_host()) NCCL(ncclCommWindowDeregister(ranks[0].comm, window));
  REQUIRE(program_on_host() || window == NULL, "a window of a group that failed");
}

/* A window that cannot be made, as other ranks of its communicator have left, fails the group,
 * whose calls on other communicators are made nevertheless. */
static void fail_window(void) {
  ncclComm_t left[PROGRAM_GPUS_MAX];
  ncclWindow_t window;
  if (size == 1 || program_on_host()) return;
  NCCL(ncclCommInitAll(left, size, NULL));
  for (int i = 1; i < size; i++) NCCL(ncclCommDestroy(left[i]));
  NCCL(ncclGroupStart());
  NCCL(ncclCommWindowRegister(left[0], ranks[0].send, BYTES, &window, NCCL_WIN_DEFAULT));
  for (int i = 0; i < size; i++) {
    const rank_t *rank = &ranks[i];
    program_use_gpu(i);
    CUDA(cudaMemsetAsync(rank->recv, 0, BYTES, rank->stream));
    NCCL(
        ncclAllReduce(rank->send, rank->recv, COUNT, ncclFloat, ncclSum, rank->comm, rank->stream));
  }
  ncclResult_t result = ncclGroupEnd();
  REQUIRE(result != ncclSuccess && window == NULL, "a window without peers gave %d", result);
  REQUIRE(strstr(ncclGetLastError(NULL), "ncclCommWindowRegister") != NULL, "the text is %s",
          ncclGetLastError(NULL));
  for (int i = 0; i < size; i++) {
    expect(ranks[i].recv, COUNT, 0, sum_of_ranks(size), ranks[i].stream,
           "allreduce beside a window that failed");
  }
  NCCL(ncclCommAbort(left[0]));
}

int main(int argc, char **argv) {
  size = program_start(argc, argv);
  create();
  for (int round = 0; round < 3; round++) {
    reduce_in_windows(true, "allreduce in the windows of its group");
    reduce_in_windows(false, "allreduce in windows");
    end_windows();
  }
  fail_window();
  fail_group();
  for (int i = 0; i < size; i++) {
    program_use_gpu(i);
    NCCL(ncclCommDestroy(ranks[i].comm));
    NCCL(ncclMemFree(ranks[i].send));
    memory_free(ranks[i].recv);
    stream_free(ranks[i].stream);
  }
  printf("windows in groups, %d GPUs: all right\n", size);
  return 0;
}
