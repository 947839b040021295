/* The options without effect are kept as numbers. Those whose value is 0, which means "as usual",
 * need no mention. */
#include "bench/nccl_options.h"

#include <stdio.h>

static const base_option_t unused[] = {
    {.letter = 'p', .name = "parallel_init"},    {.letter = 'z', .name = "blocking"},
    {.letter = 'y', .name = "stream_null"},      {.letter = 'C', .name = "report_cputime"},
    {.letter = 'x', .name = "cta_policy"},       {.letter = 'D', .name = "device_implementation"},
    {.letter = 'V', .name = "device_cta_count"}, {.letter = 'M', .name = "memory"},
    {.letter = 'I', .name = "per_iter_timing"},  {.letter = 'K', .name = "per_iter_skip"}};

enum { UNUSED = sizeof unused / sizeof unused[0] };

static void add(bench_nccl_options_t *options, char letter, const char *name, int64_t *value,
                int64_t min, int64_t max) {
  options->table[options->count++] = (base_option_t){.letter = letter,
                                                     .name = name,
                                                     .kind = BASE_OPTION_INTEGER,
                                                     .value = value,
                                                     .value_name = "N",
                                                     .min = min,
                                                     .max = max};
}

void bench_nccl_options_list(bench_nccl_options_t *options) {
  *options = (bench_nccl_options_t){.aggregate = 1, .average = BENCH_OVER_RANKS_MAX, .cycles = 1};
  add(options, 'm', "agg_iters", &options->aggregate, 1, 4096);
  add(options, 'N', "run_cycles", &options->cycles, 0, 1000000);
  add(options, 'a', "average", &options->average, 0, BENCH_OVER_RANKS_MAX);
  add(options, 'T', "timeout", &options->timeout_s, 0, 1000000);
  add(options, 'S', "report_timestamps", &options->timestamps, 0, 1);
  options->table[options->count++] = (base_option_t){.letter = 'J',
                                                     .name = "output_file",
                                                     .kind = BASE_OPTION_TEXT,
                                                     .value = &options->json,
                                                     .value_name = "FILE"};
  for (size_t i = 0; i < UNUSED; i++) {
    add(options, unused[i].letter, unused[i].name, &options->unused[i], 0, 1000000);
  }
}

void bench_nccl_options_apply(const bench_nccl_options_t *options, bench_settings_t *settings) {
  size_t used = 0;
  settings->aggregate = (int)options->aggregate;
  settings->over_ranks = (bench_over_ranks_t)options->average;
  settings->cycles = (int)options->cycles;
  settings->timeout_s = (int)options->timeout_s;
  settings->timestamps = options->timestamps != 0;
  if (settings->json == NULL) settings->json = options->json;
  settings->ignored[0] = '\0';
  for (size_t i = 0; i < UNUSED; i++) {
    if (options->unused[i] == 0) continue;
    used += (size_t)snprintf(settings->ignored + used, sizeof settings->ignored - used, "%s-%c",
                             used > 0 ? ", " : "", unused[i].letter);
  }
}
