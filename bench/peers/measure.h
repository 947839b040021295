/*
 * Measures another library ("peer") in the way that collbench measures libcoll: the same command
 * line, sizes, buffers, values, checks and batches. The program of a peer starts its ranks, fills
 * in peers_library_t and calls peers_measure. gloo_torch.py declares the same types.
 */
#ifndef BENCH_PEERS_MEASURE_H
#define BENCH_PEERS_MEASURE_H

#include <coll.h>

#include <stdbool.h>
#include <stddef.h>

#include "bench/gpu.h"

/* One call with float32 and, if it reduces, sum. count: as in the function of coll.h. */
typedef struct peers_call {
  coll_collective_t collective;
  size_t count;
  int root;
  bool even; /* uneven blocks have equal sizes (bench_rank_count) */
} peers_call_t;

/* One rank of the library. Each function returns NULL or an error message. */
typedef struct peers_library {
  const char *name; /* with the version */
  int rank, ranks;
  void *context; /* passed to the functions */
  bool (*supports)(void *context, coll_collective_t collective);
  const char *(*call)(void *context, const peers_call_t *call, const void *send, void *recv);
  const char *(*barrier)(void *context);
  /* Sets each value to its maximum over all ranks. */
  const char *(*max)(void *context, double *values, int count);
  /* Returns when the calls so far are complete. NULL: they are when they return. */
  const char *(*complete)(void *context);
  bench_gpu_t *gpu; /* open; buffers are its memory. NULL: they are the host's */
} peers_library_t;

/* Times and checks every row of the command line (collbench --help) that the library supports, out
 * of place. Rank 0 prints one JSON object per line: first {"library"}, then for each row
 * {"collective", "bytes", "wrong", "batch_us"}; batch_us has the times of the slowest rank. Returns
 * the exit code. If it is not 0, other ranks may wait forever. */
__attribute__((visibility("default"))) /* gloo_torch.py loads it */
int peers_measure(int argc, char **argv, const peers_library_t *library);

#endif
