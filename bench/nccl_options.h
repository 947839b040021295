/* Options of nccl-tests that are not in the help of collbench: some work as there, and others are
 * accepted and change nothing, as they are about how GPUs are driven. */
#ifndef BENCH_NCCL_OPTIONS_H
#define BENCH_NCCL_OPTIONS_H

#include "base/options.h"
#include "bench/settings.h"

#define BENCH_NCCL_OPTIONS_MAX 24

typedef struct bench_nccl_options {
  int64_t aggregate, average, cycles, timeout_s, timestamps;
  int64_t unused[BENCH_NCCL_OPTIONS_MAX];
  const char *json;
  base_option_t table[BENCH_NCCL_OPTIONS_MAX];
  size_t count;
} bench_nccl_options_t;

/* Fills in the table, whose values are those of *options. */
void bench_nccl_options_list(bench_nccl_options_t *options);

/* Sets what works, and settings->ignored to the options that were given a value to no effect. */
void bench_nccl_options_apply(const bench_nccl_options_t *options, bench_settings_t *settings);

#endif
