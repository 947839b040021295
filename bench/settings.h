/* What a run of collbench was asked to do: its command line, checked. */
#ifndef BENCH_SETTINGS_H
#define BENCH_SETTINGS_H

#include <coll.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/values.h"

#define BENCH_ROOT_ALL (-1)

typedef enum bench_place { BENCH_OUT_OF_PLACE, BENCH_IN_PLACE, BENCH_PLACE_COUNT } bench_place_t;

typedef struct bench_settings {
  bool collectives[COLL_COLLECTIVE_COUNT];
  bool dtypes[COLL_DTYPE_COUNT];
  bool ops[BENCH_OP_COUNT];
  size_t *sizes; /* bytes, in the order they are run; owned */
  size_t size_count;
  size_t *counts; /* elements as passed to the call, run after the sizes; owned */
  size_t count_count;
  const char *algo; /* NULL: the library's choice; "all": each in turn */
  int root;         /* or BENCH_ROOT_ALL */
  bool places[BENCH_PLACE_COUNT];
  int iterations, warmups, checks;
  int time_ms;     /* that a row's timed calls take at most, about; 0: however long they take */
  size_t misalign; /* elements that buffers begin after an aligned address */
  int threads;     /* ranks as threads of this process; 0: processes of a launcher */
  bool coll_memory, stream;
  bool explain;     /* tell why algorithms are chosen; measure nothing */
  bool brief;       /* one line per collective and algorithm */
  const char *json; /* file, or NULL */
} bench_settings_t;

/* *helped: the help page or the knobs were printed and nothing is to be run. COLL_ERROR_INVALID
 * says what is wrong with the command line. Free the settings after success. */
coll_status_t bench_settings_parse(int argc, char **argv, bench_settings_t *settings,
                                   bool *help_printed);
void bench_settings_free(bench_settings_t *settings);

/* Name of a reduction of the benchmark; "none" for BENCH_MOVE. */
const char *bench_op_name(int op);

#endif
