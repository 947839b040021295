/* The checked command line of collbench. */
#ifndef BENCH_SETTINGS_H
#define BENCH_SETTINGS_H

#include <coll.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/values.h"

#define BENCH_ROOT_ALL (-1)

/* Where buffers are from. */
typedef enum bench_memory {
  BENCH_MALLOC,
  BENCH_COLL,     /* coll_mem_alloc */
  BENCH_CUDA,     /* memory of the rank's GPU, which the CUDA driver allocates */
  BENCH_CUDA_COLL /* the same, of coll_mem_alloc */
} bench_memory_t;

typedef enum bench_place { BENCH_OUT_OF_PLACE, BENCH_IN_PLACE, BENCH_PLACE_COUNT } bench_place_t;

/* What the ranks' times of a batch become; the numbers are those of nccl-tests' -a. */
typedef enum bench_over_ranks {
  BENCH_OVER_RANKS_FIRST, /* rank 0's */
  BENCH_OVER_RANKS_MEAN,
  BENCH_OVER_RANKS_MIN,
  BENCH_OVER_RANKS_MAX
} bench_over_ranks_t;

typedef struct bench_settings {
  bool collectives[COLL_COLLECTIVE_COUNT];
  bool dtypes[COLL_DTYPE_COUNT];
  bool ops[BENCH_OP_COUNT];
  size_t *sizes; /* bytes, in the order they are run; owned */
  size_t size_count;
  size_t *counts; /* elements as passed to the call, run after the sizes; owned */
  size_t count_count;
  const char *algo; /* NULL: the library chooses; "all": every one; or names, with commas */
  const char *plan; /* a file with the plan to use, or NULL */
  bool any_order;   /* of that plan: ranks may hold different bits */
  int root;         /* or BENCH_ROOT_ALL */
  bool places[BENCH_PLACE_COUNT];
  int iterations, warmups, checks;
  int time_ms;     /* approximate limit for the timed calls of a row; 0: no limit */
  size_t misalign; /* elements that buffers begin after an aligned address */
  int threads; /* number of ranks as threads of this process; 0: the launcher starts the ranks */
  bench_memory_t memory; /* of GPUs with -g or -t: there may be none, and --mem not given */
  bool stream;           /* a host stream */
  bool registered;       /* buffers are registered with the communicator */
  int launches;          /* of a captured graph of all timed calls; 0: calls are not captured */
  bool even;             /* blocks of equal size in the verbs whose blocks may differ in size */
  bool together;         /* all ranks start each timed call at the same time */
  bool explain;          /* show predicted times instead of measuring */
  bool show_routes;      /* show what the ranks' messages go over first */
  bool brief;            /* one line per collective and algorithm */
  const char *json;      /* file, or NULL */
  int aggregate;         /* calls that are timed as one, in a group */
  bench_over_ranks_t over_ranks;
  int cycles;            /* times that all rows are run; 0: without end */
  int timeout_s;         /* of a row; 0: none */
  bool timestamps;       /* at the end of each row */
  bool memory_is_chosen; /* by --mem */
  char ignored[96];      /* options that change nothing, such as "-p, -z" */
} bench_settings_t;

/* *help_printed: the help or the knobs were printed; do not run anything. COLL_ERROR_INVALID: the
 * command line is wrong. Free the settings after success. */
coll_status_t bench_settings_parse(int argc, char **argv, bench_settings_t *settings,
                                   bool *help_printed);
void bench_settings_free(bench_settings_t *settings);

/* Whether the algorithm is one of those of --algo. */
bool bench_settings_select_algo(const bench_settings_t *settings, const char *name);

/* As --mem has it: "malloc". */
const char *bench_memory_name(bench_memory_t memory);
/* The function that allocates it. */
const char *bench_memory_function(bench_memory_t memory);

static inline bool bench_memory_is_cuda(bench_memory_t memory) {
  return memory == BENCH_CUDA || memory == BENCH_CUDA_COLL;
}

/* Name of a reduction of the benchmark; "none" for BENCH_OP_NONE. */
const char *bench_op_name(int op);

#endif
