/* The command line of collbench: its settings and rows, and the error messages for wrong ones. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "bench/rows.h"
#include "bench/settings.h"

#define WORDS_MAX 64

/* Splits the line at spaces and parses it. */
static coll_status_t parse(const char *line, bench_settings_t *settings) {
  static char copy[512];
  char *words[WORDS_MAX] = {"collbench"};
  int count = 1;
  bool help_printed;
  snprintf(copy, sizeof copy, "%s", line);
  for (char *word = copy; *word != '\0';) {
    words[count++] = word;
    word += strcspn(word, " ");
    if (*word != '\0') *word++ = '\0';
  }
  return bench_settings_parse(count, words, settings, &help_printed);
}

/* Parses a good line and counts the rows it makes for `ranks`. */
static size_t rows_of(const char *line, int ranks, bench_rows_t *rows) {
  bench_settings_t settings;
  cr_assert_eq(parse(line, &settings), COLL_OK, "%s: %s", line, base_last_error());
  cr_assert_eq(bench_rows_make(&settings, ranks, rows), COLL_OK, "%s: %s", line, base_last_error());
  bench_settings_free(&settings);
  return rows->count;
}

static size_t row_count(const char *line, int ranks) {
  bench_rows_t rows;
  size_t count = rows_of(line, ranks, &rows);
  bench_rows_free(&rows);
  return count;
}

Test(settings, the_usual_line) {
  bench_settings_t settings;
  cr_assert_eq(parse("allreduce -b 8 -e 64M -f 2 -n 30 -w 6 -c 2 -o max -d bfloat16", &settings),
               COLL_OK, "%s", base_last_error());
  cr_assert(settings.collectives[COLL_ALLREDUCE] && !settings.collectives[COLL_REDUCE]);
  cr_assert(settings.dtypes[COLL_BFLOAT16] && !settings.dtypes[COLL_FLOAT32]);
  cr_assert(settings.ops[COLL_MAX] && !settings.ops[COLL_SUM]);
  cr_assert(settings.iterations == 30 && settings.warmups == 6 && settings.checks == 2);
  cr_assert(settings.size_count == 24 && settings.sizes[0] == 8 && settings.sizes[23] == 64 << 20);
  bench_settings_free(&settings);
}

Test(settings, places_and_time) {
  bench_settings_t settings;
  cr_assert_eq(parse("allreduce", &settings), COLL_OK, "%s", base_last_error());
  cr_assert(settings.places[BENCH_OUT_OF_PLACE] && settings.places[BENCH_IN_PLACE]);
  cr_assert_eq(settings.time_ms, 0);
  bench_settings_free(&settings);
  cr_assert_eq(parse("allreduce --place in --time-ms 30", &settings), COLL_OK, "%s",
               base_last_error());
  cr_assert(!settings.places[BENCH_OUT_OF_PLACE] && settings.places[BENCH_IN_PLACE]);
  cr_assert_eq(settings.time_ms, 30);
  bench_settings_free(&settings);
}

Test(settings, sizes_and_rows) {
  bench_rows_t rows;
  cr_assert_eq(rows_of("-b 1K -e 4K -i 1K allgather -d double", 2, &rows), 4);
  cr_assert(rows.rows[2].bytes == 3072 && rows.rows[2].count == 192 && rows.rows[2].root == -1);
  bench_rows_free(&rows);
  cr_assert_eq(rows_of("broadcast --sizes 0,5,1M --counts 3 --root all -d half", 3, &rows), 12);
  cr_assert(rows.rows[1].count == 2 && rows.rows[1].bytes == 4 && rows.rows[3].count == 3);
  cr_assert(rows.rows[11].root == 2 && rows.rows[11].op == BENCH_OP_NONE);
  bench_rows_free(&rows);
  cr_assert_eq(row_count("allreduce --sizes 64 -d all -o all", 2), 8 * 9 + 6 * 6);
  cr_assert_eq(row_count("allreduce --sizes 64 -d all -o bxor", 2), 8);
  cr_assert_eq(row_count("allreduce --sizes 64 -o all", 2), 6);
  cr_assert_eq(row_count("allgather --sizes 64 -o band", 2), 1);
  cr_assert_eq(row_count("allgather --sizes 64 -d all -o all", 2), 14);
  cr_assert_eq(row_count("barrier -b 8 -e 64M -d all -o all", 2), 1);
  cr_assert_eq(row_count("allreduce -b 0 -e 0", 2), 1);
}

Test(settings, every_algorithm_once) {
  size_t algorithms = 0;
  while (coll_algo_name(COLL_ALLREDUCE, (int)algorithms) != NULL) algorithms++;
  cr_assert_eq(row_count("allreduce --sizes 8,16 --algo all", 2), 2 * algorithms);
  cr_assert_eq(row_count("allreduce --sizes 8,16 --algo ring,butterfly", 2), 4);
  cr_assert_eq(row_count("all --sizes 8", 2), COLL_COLLECTIVE_COUNT);
  cr_assert_eq(row_count("allreduce,alltoall --sizes 8,16", 2), 4);
}

Test(settings, errors_name_the_mistake) {
  static const struct {
    const char *line, *message;
  } wrong[] = {
      {"", "name a collective"},
      {"allredcue", "did you mean 'allreduce'"},
      {"allreduce gather", "several with commas"},
      {"allgather,allredcue", "'allredcue'; did you mean 'allreduce'"},
      {"allreduce -d floot32", "did you mean 'float32'"},
      {"allreduce -o premulsun", "did you mean 'premulsum'"},
      {"allreduce -o band", "give an integer type, such as -d int32"},
      {"all -o bxor -d bfloat16", "-o bxor combines the bits of integers"},
      {"allreduce --algo zzzring", "did you mean 'ring'"},
      {"allreduce --algo butterfly,rin", "'rin'; did you mean 'ring'"},
      {"allreduce --itres 5", "did you mean --iters"},
      {"allreduce -b 1M -e 1K", "larger than -e"},
      {"allreduce -b 0 -e 8", "cannot be multiplied"},
      {"allreduce -f 4 -i 8", "not both"},
      {"allreduce -f 1", "from 2"},
      {"allreduce -b 0 -e 64M -i 1", "more than"},
      {"allreduce --sizes 4,,8", "is not a size"},
      {"allreduce --sizes 00000000000000000000000000000004x", "...' is not a size"},
      {"allreduce --sizes 4 -e 8", "or lists"},
      {"allreduce --counts 1x", "is not a size"},
      {"allreduce -n -1", "-n -1"},
      {"allreduce -n", "needs a value"},
      {"allreduce -n 0 -c 0", "nothing to do"},
      {"reduce --root first", "give a rank"},
      {"reduce --mem disk", "did you mean"},
      {"allreduce -g 2 --threads 2", "-g and -t, or --threads"},
      {"allreduce -G 10", "-G captures calls on memory of GPUs"},
      {"allreduce -g 2 --mem coll -G 10", "-G captures calls on memory of GPUs"},
      {"allreduce --mem cuda --stream", "--stream is for memory of the host, not --mem cuda"},
      {"allreduce -g 2 --explain", "--explain is for memory of the host"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    bench_settings_t settings;
    cr_expect_eq(parse(wrong[i].line, &settings), COLL_ERROR_INVALID, "%s", wrong[i].line);
    cr_expect_not_null(strstr(base_last_error(), wrong[i].message), "%s: %s", wrong[i].line,
                       base_last_error());
  }
}

/* All options of nccl-tests 2.19, each with a value that its help mentions. */
Test(settings, every_option_of_nccl_tests) {
  static const char *const lines[] = {
      "allreduce -t 2 -g 1 -b 8 -e 8M -i 1M -f 2 -n 20 -m 10 -w 1 -N 1 -p 1 -c 1 -o mulsum",
      "allreduce -d half -r 0 -z 1 -y 0 -T 60 -C 1 -S 1 -J out.json -a 1 -R 1 -x 2 -D 1 -V 16",
      "allreduce -M 1 -u 1 -I 1 -K 2",
      "allreduce -t2 -g1 -b8 -e8M -n20 -m10 -w1 -N1 -p1 -c1 -osum -dfloat -r0 -z0 -y0 -T60 -C0",
      "allreduce -S0 -a3 -R0 -x0 -D0 -V16 -M0 -u0 -I0 -K0",
      "allreduce --nthreads 2 --ngpus 1 --minbytes 8 --maxbytes 8M --iters 20 --agg_iters 10",
      "allreduce --warmup_iters 1 --run_cycles 1 --parallel_init 1 --check 1 --op sum",
      "allreduce --datatype float --root 0 --blocking 1 --stream_null 0 --timeout 60",
      "allreduce --report_cputime 0 --report_timestamps 1 --output_file x.json --average 1",
      "allreduce --local_register 2 --cta_policy 0 --device_implementation 0 --stepfactor 2",
      "allreduce --device_cta_count 16 --memory 1 --unalign 1 --per_iter_timing 1",
      "allreduce --per_iter_skip 2 --stepbytes 1M --cudagraph 0"};
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    bench_settings_t settings;
    cr_expect_eq(parse(lines[i], &settings), COLL_OK, "%s: %s", lines[i], base_last_error());
    bench_settings_free(&settings);
  }
}

Test(settings, options_of_nccl_tests_with_and_without_effect) {
  bench_settings_t settings;
  cr_assert_eq(parse("allreduce", &settings), COLL_OK);
  cr_assert(settings.aggregate == 1 && settings.cycles == 1 && settings.timeout_s == 0);
  cr_assert(settings.over_ranks == BENCH_OVER_RANKS_MAX && settings.ignored[0] == '\0');
  bench_settings_free(&settings);
  cr_assert_eq(parse("allreduce -m 10 -N 3 -T 60 -a 1 -S 1 -J x -p 1 -z 0 -C 1", &settings),
               COLL_OK);
  cr_assert(settings.aggregate == 10 && settings.cycles == 3 && settings.timeout_s == 60);
  cr_assert(settings.over_ranks == BENCH_OVER_RANKS_MEAN && settings.timestamps);
  cr_assert_str_eq(settings.json, "x");
  cr_assert_str_eq(settings.ignored, "-p, -C");
  bench_settings_free(&settings);
}

Test(settings, gpus_as_in_nccl_tests) {
  static const struct {
    const char *line;
    int threads;
    bench_memory_t memory;
    int launches;
    bool registered;
  } cases[] = {
      {"allreduce", 0, BENCH_MALLOC, 0, false},
      {"allreduce --threads 3 --mem coll", 3, BENCH_COLL, 0, false},
      {"allreduce -g 8", 8, BENCH_CUDA, 0, false},
      {"allreduce -t 2 -g 4 -G 10", 8, BENCH_CUDA, 10, false},
      {"allreduce -t 3 -R", 3, BENCH_CUDA, 0, true},
      {"allreduce -g 1", 0, BENCH_CUDA, 0, false},
      {"allreduce -g 2 --mem cuda-coll", 2, BENCH_CUDA_COLL, 0, false},
      {"allreduce -g 2 --mem malloc", 2, BENCH_MALLOC, 0, false},
      {"allreduce --threads 2 --mem cuda", 2, BENCH_CUDA, 0, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    bench_settings_t settings;
    cr_assert_eq(parse(cases[i].line, &settings), COLL_OK, "%s: %s", cases[i].line,
                 base_last_error());
    cr_expect_eq(settings.threads, cases[i].threads, "%s", cases[i].line);
    cr_expect_eq(settings.memory, cases[i].memory, "%s", cases[i].line);
    cr_expect_eq(settings.launches, cases[i].launches, "%s", cases[i].line);
    cr_expect_eq(settings.registered, cases[i].registered, "%s", cases[i].line);
    bench_settings_free(&settings);
  }
}

Test(settings, a_root_must_be_a_rank) {
  bench_settings_t settings;
  bench_rows_t rows;
  cr_assert_eq(parse("reduce --sizes 8 --root 3", &settings), COLL_OK);
  cr_assert_eq(bench_rows_make(&settings, 3, &rows), COLL_ERROR_INVALID);
  cr_assert_not_null(strstr(base_last_error(), "ranks 0 to 2"));
  bench_settings_free(&settings);
}
