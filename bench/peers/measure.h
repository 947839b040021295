/*
 * Measures another library as collbench measures libcoll: the same command line, sizes, buffers,
 * values, checks and batches. A peer's program brings its ranks up, describes the library below and
 * calls peers_measure. Usable from C++.
 */
#ifndef BENCH_PEERS_MEASURE_H
#define BENCH_PEERS_MEASURE_H

#include <coll.h>

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One call: float32, the reductions sums. count is what coll.h's call of that name takes. */
typedef struct peers_call {
  coll_collective_t collective;
  size_t count;
  int root;
} peers_call_t;

/* One rank of the library. Each function returns NULL, or what went wrong, in words. */
typedef struct peers_library {
  const char *name; /* with its version */
  int rank, ranks;
  void *context; /* the functions' own */
  bool (*has)(void *context, coll_collective_t collective);
  const char *(*call)(void *context, const peers_call_t *call, const void *send, void *recv);
  const char *(*meet)(void *context); /* a barrier */
  /* Makes each value the greatest that any rank has. */
  const char *(*greatest)(void *context, double *values, int count);
} peers_library_t;

/* Times and checks every row of the command line (collbench --help) that the library has, out of
 * place. Rank 0 prints one JSON object per line: first {"library"}, then for each row
 * {"collective", "bytes", "wrong", "batch_us"}, a batch being as slow as its slowest rank. Returns
 * the exit code; other ranks may wait forever when it is not 0. */
int peers_measure(int argc, char **argv, const peers_library_t *library);

#ifdef __cplusplus
}
#endif

#endif
