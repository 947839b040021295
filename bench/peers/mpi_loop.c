/*
 * Times MPI's collectives as OSU's benchmarks do: the ranks leave a barrier, and the call alone is
 * timed. It knows nothing of libcoll; bench/mpi-layer compiles it with the wrapper of each MPI and
 * runs it with the layer preloaded and without.
 *
 * The barrier is PMPI_Barrier, which is the MPI's own in both runs. How far apart it lets the ranks
 * go is part of a short call's time: where the last rank leaves it late, its data is there already.
 *
 * Usage: loop TIME_MS VERB[,VERB...] BYTES[,BYTES...]. A verb is "allreduce", or "iallreduce" for
 * the non-blocking form with its MPI_Wait. BYTES is OSU's message size: of a reduction the whole
 * operand (of reduce_scatter the operand, too), of a broadcast the buffer, else the block that one
 * rank sends to another. Prints a line "VERB BYTES US" for each row: the median, over batches that
 * take TIME_MS together, of the slowest rank's mean time.
 */
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_COUNT 8
#define WARM_UP_CALLS 64 /* more than the first trial of the layer takes */
#define CALLS_MAX 2000
#define RANKS_MAX 64
#define SIZES_MAX 64
#define RESULT_TAG 1 /* figures go from point to point, so that they are no call of the layer */

typedef struct rows {
  int ranks, rank, count; /* elements of a block */
  char *send, *recv;
  int counts[RANKS_MAX], displs[RANKS_MAX];
} rows_t;

typedef struct sizes {
  int count, largest, bytes[SIZES_MAX];
} sizes_t;

typedef struct verb {
  const char *name;
  int is_split; /* BYTES are divided among the ranks */
  int (*call)(const rows_t *, MPI_Request *request);
} verb_t;

/* Defines a verb: MPI_name if there is no request, MPI_Iname else. */
#define VERB(name, lower, ...)                                                             \
  static int lower(const rows_t *r, MPI_Request *request) {                                \
    return request == NULL ? MPI_##name(__VA_ARGS__) : MPI_I##lower(__VA_ARGS__, request); \
  }
#define SEND_BLOCK r->send, r->count, MPI_FLOAT
#define RECV_BLOCK r->recv, r->count, MPI_FLOAT
#define SEND_BLOCKS r->send, r->counts, r->displs, MPI_FLOAT
#define RECV_BLOCKS r->recv, r->counts, r->displs, MPI_FLOAT
#define WORLD MPI_COMM_WORLD

VERB(Allgather, allgather, SEND_BLOCK, RECV_BLOCK, WORLD)
VERB(Allgatherv, allgatherv, SEND_BLOCK, RECV_BLOCKS, WORLD)
VERB(Allreduce, allreduce, r->send, RECV_BLOCK, MPI_SUM, WORLD)
VERB(Alltoall, alltoall, SEND_BLOCK, RECV_BLOCK, WORLD)
VERB(Alltoallv, alltoallv, SEND_BLOCKS, RECV_BLOCKS, WORLD)
VERB(Bcast, bcast, RECV_BLOCK, 0, WORLD)
VERB(Gather, gather, SEND_BLOCK, RECV_BLOCK, 0, WORLD)
VERB(Gatherv, gatherv, SEND_BLOCK, RECV_BLOCKS, 0, WORLD)
VERB(Reduce, reduce, r->send, RECV_BLOCK, MPI_SUM, 0, WORLD)
VERB(Reduce_scatter, reduce_scatter, r->send, r->recv, r->counts, MPI_FLOAT, MPI_SUM, WORLD)
VERB(Reduce_scatter_block, reduce_scatter_block, r->send, RECV_BLOCK, MPI_SUM, WORLD)
VERB(Scatter, scatter, SEND_BLOCK, RECV_BLOCK, 0, WORLD)
VERB(Scatterv, scatterv, SEND_BLOCKS, RECV_BLOCK, 0, WORLD)

static int barrier(const rows_t *r, MPI_Request *request) {
  (void)r;
  return request == NULL ? MPI_Barrier(WORLD) : MPI_Ibarrier(WORLD, request);
}

static const verb_t verbs[] = {
    {"allgather", 0, allgather},
    {"allgatherv", 0, allgatherv},
    {"allreduce", 0, allreduce},
    {"alltoall", 0, alltoall},
    {"alltoallv", 0, alltoallv},
    {"barrier", 0, barrier},
    {"bcast", 0, bcast},
    {"gather", 0, gather},
    {"gatherv", 0, gatherv},
    {"reduce", 0, reduce},
    {"reduce_scatter", 1, reduce_scatter},
    {"reduce_scatter_block", 1, reduce_scatter_block},
    {"scatter", 0, scatter},
    {"scatterv", 0, scatterv},
};

static void fail(const char *what, const char *word) {
  fprintf(stderr, "loop: %s %s\n", what, word);
  MPI_Abort(MPI_COMM_WORLD, 2);
}

static const verb_t *find_verb(const char *name) {
  for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
    if (strcmp(verbs[i].name, name) == 0) return &verbs[i];
  }
  return NULL;
}

/* The slowest rank's time, on all ranks. */
static double slowest(const rows_t *r, double time) {
  double other;
  for (int peer = 1; peer < r->ranks; peer++) {
    if (r->rank == 0) {
      MPI_Recv(&other, 1, MPI_DOUBLE, peer, RESULT_TAG, WORLD, MPI_STATUS_IGNORE);
      if (other > time) time = other;
    } else if (r->rank == peer) {
      MPI_Send(&time, 1, MPI_DOUBLE, 0, RESULT_TAG, WORLD);
    }
  }
  for (int peer = 1; peer < r->ranks; peer++) {
    if (r->rank == 0) MPI_Send(&time, 1, MPI_DOUBLE, peer, RESULT_TAG, WORLD);
  }
  if (r->rank != 0) MPI_Recv(&time, 1, MPI_DOUBLE, 0, RESULT_TAG, WORLD, MPI_STATUS_IGNORE);
  return time;
}

/* The slowest rank's mean time of a call, in us. */
static double run_batch(const rows_t *r, const verb_t *verb, int is_nonblocking, int calls) {
  double sum = 0;
  for (int i = 0; i < calls; i++) {
    MPI_Request request;
    PMPI_Barrier(WORLD);
    double begin = MPI_Wtime();
    verb->call(r, is_nonblocking ? &request : NULL);
    if (is_nonblocking) MPI_Wait(&request, MPI_STATUS_IGNORE);
    sum += MPI_Wtime() - begin;
  }
  return slowest(r, sum / calls * 1e6);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void measure(rows_t *r, const verb_t *verb, int is_nonblocking, int bytes, double time_ms) {
  double times[BATCH_COUNT];
  r->count = bytes / (int)sizeof(float) / (verb->is_split ? r->ranks : 1);
  if (r->count == 0) r->count = 1;
  for (int i = 0; i < r->ranks; i++) r->counts[i] = r->count, r->displs[i] = i * r->count;
  run_batch(r, verb, is_nonblocking, WARM_UP_CALLS);
  double calls = time_ms * 1e3 / BATCH_COUNT / run_batch(r, verb, is_nonblocking, 4);
  if (calls > CALLS_MAX) calls = CALLS_MAX;
  for (int i = 0; i < BATCH_COUNT; i++) {
    times[i] = run_batch(r, verb, is_nonblocking, calls < 1 ? 1 : (int)calls);
  }
  qsort(times, BATCH_COUNT, sizeof *times, compare);
  if (r->rank != 0) return;
  printf("%s%s %d %.4f\n", is_nonblocking ? "i" : "", verb->name, bytes,
         (times[BATCH_COUNT / 2 - 1] + times[BATCH_COUNT / 2]) / 2);
  if (fflush(stdout) != 0) fail("cannot write to standard output", "");
}

static void measure_verb(rows_t *r, const char *name, const sizes_t *sizes, double time_ms) {
  int is_nonblocking = 0;
  const verb_t *verb = find_verb(name);
  if (verb == NULL && name[0] == 'i') {
    verb = find_verb(name + 1);
    is_nonblocking = 1;
  }
  if (verb == NULL) fail("there is no verb", name);
  if (verb->call == barrier) {
    measure(r, verb, is_nonblocking, 0, time_ms);
    return;
  }
  for (int i = 0; i < sizes->count; i++) {
    measure(r, verb, is_nonblocking, sizes->bytes[i], time_ms);
  }
}

static void read_sizes(sizes_t *sizes, const char *text) {
  char *end = NULL;
  sizes->largest = (int)sizeof(float);
  for (const char *at = text; sizes->count < SIZES_MAX; at = end + 1) {
    long bytes = strtol(at, &end, 10);
    if (end == at || bytes <= 0 || bytes > INT_MAX) fail("these are no sizes:", text);
    sizes->bytes[sizes->count++] = (int)bytes;
    if (bytes > sizes->largest) sizes->largest = (int)bytes;
    if (*end == '\0') return;
  }
  fail("these are too many sizes:", text);
}

int main(int argc, char **argv) {
  rows_t rows = {0};
  sizes_t sizes = {0};
  char *rest = NULL;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(WORLD, &rows.rank);
  MPI_Comm_size(WORLD, &rows.ranks);
  if (argc != 4) fail("usage: loop TIME_MS VERB[,VERB...] BYTES[,BYTES...], not", argv[0]);
  if (rows.ranks > RANKS_MAX) fail("there are too many ranks for", argv[0]);
  read_sizes(&sizes, argv[3]);
  size_t bytes = (size_t)sizes.largest * (size_t)rows.ranks;
  rows.send = calloc(1, bytes);
  rows.recv = calloc(1, bytes);
  if (rows.send == NULL || rows.recv == NULL) fail("there is no memory for sizes", argv[3]);
  memset(rows.send, 1, bytes); /* maps pages of their own: reading zeros is faster */
  memset(rows.recv, 1, bytes);
  for (char *name = strtok_r(argv[2], ",", &rest); name != NULL;
       name = strtok_r(NULL, ",", &rest)) {
    measure_verb(&rows, name, &sizes, strtod(argv[1], NULL));
  }
  free(rows.send);
  free(rows.recv);
  return MPI_Finalize();
}
