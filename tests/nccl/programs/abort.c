/*
 * After the watchdog of PyTorch: a rank gives up on a call that its peers do not make, and aborts
 * its communicator; in a group, as PyTorch does, or outside of one. Or on a window, whose creation
 * blocks.
 */
#include <pthread.h>
#include <time.h>

#include "common.h"

#define COUNT 3001

static int size;
static ncclUniqueId id;
static pthread_barrier_t barrier;

static void abort_comm(ncclComm_t comm, bool in_group) {
  if (in_group) NCCL(ncclGroupStart());
  NCCL(ncclCommAbort(comm));
  if (in_group) NCCL(ncclGroupEnd());
}

/* Rank 0 has a call under way; the others abort theirs before or behind it. */
static void give_up(int rank, ncclComm_t comm, cudaStream_t stream, bool in_group, bool first) {
  float *memory = memory_new(sizeof(float) * COUNT);
  fill(memory, COUNT, 0, rank, stream);
  NCCL(ncclAllReduce(memory, memory, COUNT, ncclFloat, ncclSum, comm, stream));
  expect(memory, COUNT, 0, sum_of_ranks(size), stream, "allreduce");
  if (rank == 0) NCCL(ncclAllReduce(memory, memory, COUNT, ncclFloat, ncclSum, comm, stream));
  pthread_barrier_wait(&barrier);
  if (rank > 0 && !first) abort_comm(comm, in_group);
  if (!first) pthread_barrier_wait(&barrier);
  if (rank == 0) abort_comm(comm, in_group);
  if (first) pthread_barrier_wait(&barrier);
  if (rank > 0 && first) abort_comm(comm, in_group);
  stream_wait(stream); /* nothing waits on it any more */
  memory_free(memory);
}

static void *make_window(void *argument) {
  ncclComm_t comm = argument;
  ncclWindow_t window;
  program_use_gpu(0);
  float *memory = memory_new(sizeof(float) * COUNT);
  ncclResult_t result =
      ncclCommWindowRegister(comm, memory, sizeof(float) * COUNT, &window, NCCL_WIN_DEFAULT);
  REQUIRE(result != ncclSuccess, "a window without peers was made");
  memory_free(memory);
  return NULL;
}

/* Only rank 0 makes the window; another thread of it aborts. */
static void give_up_window(int rank, ncclComm_t comm) {
  pthread_t thread;
  if (rank == 0) {
    REQUIRE(pthread_create(&thread, NULL, make_window, comm) == 0, "no thread");
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL); /* it waits for the others now */
    NCCL(ncclCommAbort(comm));
    pthread_join(thread, NULL);
  }
  pthread_barrier_wait(&barrier);
  if (rank > 0) NCCL(ncclCommAbort(comm));
}

static void create(int rank, ncclComm_t *comm) {
  if (rank == 0) NCCL(ncclGetUniqueId(&id));
  pthread_barrier_wait(&barrier);
  NCCL(ncclCommInitRank(comm, size, id, rank));
}

static void *run(void *argument) {
  int rank = *(int *)argument;
  program_use_gpu(rank);
  cudaStream_t stream = stream_new();
  ncclComm_t comm;
  for (int way = 0; way < 4; way++) {
    create(rank, &comm);
    give_up(rank, comm, stream, way % 2 == 1, way / 2 == 1);
    pthread_barrier_wait(&barrier);
  }
  if (size > 1) {
    create(rank, &comm);
    give_up_window(rank, comm);
  }
  stream_free(stream);
  return NULL;
}

int main(int argc, char **argv) {
  pthread_t threads[PROGRAM_GPUS_MAX];
  int ranks[PROGRAM_GPUS_MAX];
  size = program_start(argc, argv);
  if (program_on_host()) return 0; /* a call blocks there */
  pthread_barrier_init(&barrier, NULL, (unsigned)size);
  for (int i = 0; i < size; i++) {
    ranks[i] = i;
    REQUIRE(pthread_create(&threads[i], NULL, run, &ranks[i]) == 0, "no thread");
  }
  for (int i = 0; i < size; i++) pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&barrier);
  printf("aborts, %d GPUs: all right\n", size);
  return 0;
}
