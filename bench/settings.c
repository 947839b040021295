/* The option table of collbench, and checks that the table cannot express. */
#include "bench/settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/names.h"
#include "base/options.h"
#include "base/text.h"
#include "base/tool.h"
#include "bench/collectives.h"
#include "bench/nccl_options.h"

#define ITEM_BYTES 32
#define SIZES_MAX 4096
#define SIZE_LIMIT (INT64_C(1) << 48)
#define FACTOR_DEFAULT 2

static const char *const op_words[] = {"sum", "prod", "max",       "min", "avg",    "band",
                                       "bor", "bxor", "premulsum", "all", "mulsum", NULL};
enum { OP_ALIAS = BENCH_OP_COUNT + 1 }; /* nccl-tests' name of premulsum */
static const char *const memory_words[] = {"malloc", "coll", "cuda", "cuda-coll", "auto", NULL};
static const char *const place_words[] = {"out", "in", "both", NULL};
static const char *const print_words[] = {"auto", "rows", "brief", NULL};

/* Names of dtypes in nccl-tests that differ from those of libcoll. */
static const struct {
  const char *name;
  coll_dtype_t dtype;
} dtype_aliases[] = {{"half", COLL_FLOAT16},
                     {"float", COLL_FLOAT32},
                     {"double", COLL_FLOAT64},
                     {"f8e4m3", COLL_FLOAT8_E4M3},
                     {"f8e5m2", COLL_FLOAT8_E5M2}};

enum { ALIAS_COUNT = sizeof dtype_aliases / sizeof dtype_aliases[0] };

static const char summary[] =
    "Measures a collective over the ranks of a launcher (collrun, torchrun, mpirun, srun) or over\n"
    "threads, and checks every element of its results. COLLECTIVE is allreduce, reduce,\n"
    "reduce_scatter, allgather, broadcast, gather, scatter, alltoall, alltoallv, barrier,\n"
    "sendrecv, allgatherv, reduce_scatterv, gatherv, scatterv or all; or several of them, with\n"
    "commas.\n"
    "\n"
    "size: the larger of a rank's two buffers in bytes, rounded down to whole elements.\n"
    "count: the count of the call. It stands for one rank's block where a buffer holds one block\n"
    "per rank. Where blocks may differ in size it is their mean: of n ranks, rank r's block has\n"
    "2(r+1)/(n+1) of it; with --even, all have the same size.\n"
    "\n"
    "time: timed calls run back to back in up to 10 batches. The time of a batch is the mean per\n"
    "call of the slowest rank. The time shown is the median of the batches, so a disturbed batch\n"
    "does not count. Calls rotate among 2 to 16 pairs of buffers (as many as fit 32 MiB), because\n"
    "one pair used again and again stays in the cache and gives times that are too good. With\n"
    "--together, all ranks start each call at a time that they agree on, on one pair of buffers.\n"
    "algbw: size / time. busbw: algbw times 2(n-1)/n for allreduce, (n-1)/n for reduce_scatter,\n"
    "allgather, gather, scatter, alltoall and the first four with a v, the share of the bytes that "
    "leave the rank for\n"
    "alltoallv, and 1 for the others, so that it compares to the speed of the hardware at any\n"
    "number of ranks n.\n"
    "\n"
    "#wrong: elements that differ from the exact result, plus bytes changed in the send buffer or\n"
    "around the buffers, summed over all ranks. Checked calls are not timed. Any wrong element\n"
    "makes the exit code 1.\n"
    "\n"
    "All options of nccl-tests are accepted. -m, -N, -a, -S, -T and -J do what they do there, but\n"
    "that without -a the time is that of the slowest rank (-a 3); -p, -z, -y, -C, -x, -D, -V, -M,\n"
    "-I and -K change nothing. Without a GPU, -g and -t run ranks on the host.";

static const char examples[] =
    "  collrun -n 2 collbench allreduce -b 8 -e 64M -f 2 -n 20 -w 5 -c 1 -o sum -d float32\n"
    "      sizes 8 bytes to 64 MiB, doubling, over two processes\n"
    "  collbench alltoall --threads 4 --sizes 0,4K,1M --algo all\n"
    "      every algorithm, over four threads of one process\n"
    "  collbench allreduce -g 8 -b 8 -e 1G -f 2\n"
    "      eight GPUs, with the options of nccl-tests; on one GPU all eight ranks share it\n"
    "  collbench allreduce --threads 4 --mem coll --sizes 4,64K,16M --explain\n"
    "  collrun --hosts a:2,b:2 collbench alltoall --show-routes\n"
    "      predicted times of all algorithms among four ranks, and the chosen one\n"
    "  mpirun -n 8 collbench all --algo all -d all -o all --counts 0,1,1001 -n 1 -w 0\n"
    "      check every combination with one call each\n";

/* Values from the option table, not yet checked. */
typedef struct raw {
  uint64_t begin, end, step;
  int64_t factor, iterations, warmups, checks, time_ms, misalign, threads;
  int64_t gpus, gpu_threads, launches, local_register;
  int dtype, op, memory, place, print;
  const char *sizes, *counts, *root;
  bool knobs;
  bench_nccl_options_t nccl;
} raw_t;

#define MEMORY_AUTO (BENCH_CUDA_COLL + 1)

const char *bench_memory_name(bench_memory_t memory) {
  return memory_words[memory];
}

const char *bench_memory_function(bench_memory_t memory) {
  static const char *const functions[] = {"malloc", "coll_mem_alloc", "cuMemAlloc",
                                          "coll_mem_alloc"};
  return functions[memory];
}

const char *bench_op_name(int op) {
  return op == BENCH_OP_NONE ? "none" : op_words[op];
}

/* "4K" or "1001"; uses the bytes form for both. */
static coll_status_t parse_item(const char *option, const char *item, size_t *value) {
  uint64_t bytes;
  if (!base_text_bytes(item, &bytes) || bytes > SIZE_MAX / 2) {
    return base_fail(COLL_ERROR_INVALID, "%s: '%s' is not a size; give a list such as 0,4,16M",
                     option, item);
  }
  *value = (size_t)bytes;
  return COLL_OK;
}

static coll_status_t parse_list(const char *option, const char *text, size_t **values,
                                size_t *count) {
  size_t items = 1;
  for (const char *c = text; *c != '\0'; c++) items += *c == ',';
  void *memory;
  COLL_TRY(base_alloc(items, sizeof(size_t), "a list of sizes", &memory));
  size_t *parsed = memory;
  for (size_t i = 0; i < items; i++) {
    char item[ITEM_BYTES];
    size_t length = strcspn(text, ",");
    base_text_word(text, length, item, sizeof item);
    coll_status_t status = parse_item(option, item, &parsed[i]);
    if (status != COLL_OK) {
      free(parsed);
      return status;
    }
    text += length + 1;
  }
  *values = parsed;
  *count = items;
  return COLL_OK;
}

/* Sizes from -b to -e, multiplied by -f or incremented by -i. */
static coll_status_t parse_range(const raw_t *raw, bench_settings_t *settings) {
  char low[24], high[24];
  if (raw->begin > raw->end) {
    return base_fail(COLL_ERROR_INVALID, "-b %s is larger than -e %s",
                     base_text_from_bytes(raw->begin, low), base_text_from_bytes(raw->end, high));
  }
  if (raw->step > 0 && raw->factor != FACTOR_DEFAULT) {
    return base_fail(COLL_ERROR_INVALID,
                     "give -f to multiply the size or -i to add to it, not both");
  }
  if (raw->begin == 0 && raw->end > 0 && raw->step == 0) {
    return base_fail(COLL_ERROR_INVALID,
                     "-b 0 cannot be multiplied; add with -i, or list the sizes with --sizes");
  }
  uint64_t factor = (uint64_t)raw->factor;
  void *memory;
  COLL_TRY(base_alloc(SIZES_MAX, sizeof(size_t), "the list of sizes", &memory));
  settings->sizes = memory;
  for (uint64_t size = raw->begin; size <= raw->end;) {
    if (settings->size_count == SIZES_MAX) {
      return base_fail(COLL_ERROR_INVALID, "-i %s makes more than %d sizes",
                       base_text_from_bytes(raw->step, low), SIZES_MAX);
    }
    settings->sizes[settings->size_count++] = (size_t)size;
    if (size == 0 && raw->step == 0) break;
    size = raw->step > 0 ? size + raw->step : size * factor;
  }
  return COLL_OK;
}

static coll_status_t parse_sizes(const raw_t *raw, bool ranged, bench_settings_t *settings) {
  bool listed = raw->sizes != NULL || raw->counts != NULL;
  if (listed && ranged) {
    return base_fail(COLL_ERROR_INVALID,
                     "give a range with -b, -e, -f or -i, or lists with --sizes or --counts");
  }
  if (!listed) return parse_range(raw, settings);
  if (raw->sizes != NULL) {
    COLL_TRY(parse_list("--sizes", raw->sizes, &settings->sizes, &settings->size_count));
  }
  if (raw->counts != NULL) {
    COLL_TRY(parse_list("--counts", raw->counts, &settings->counts, &settings->count_count));
  }
  return COLL_OK;
}

static coll_status_t parse_root(const char *text, int *root) {
  int64_t value;
  if (strcmp(text, "all") == 0) {
    *root = BENCH_ROOT_ALL;
    return COLL_OK;
  }
  if (!base_text_integer(text, 0, INT32_MAX, &value)) {
    return base_fail(COLL_ERROR_INVALID, "--root %s: give a rank, or all", text);
  }
  *root = (int)value;
  return COLL_OK;
}

/* Whether `name` is one of the words of a list with commas. */
static bool is_listed(const char *list, const char *name) {
  size_t length = strlen(name);
  for (const char *word = list;; word++) {
    size_t bytes = strcspn(word, ",");
    if (bytes == length && strncmp(word, name, length) == 0) return true;
    word += bytes;
    if (*word == '\0') return false;
  }
}

bool bench_settings_select_algo(const bench_settings_t *settings, const char *name) {
  return strcmp(settings->algo, "all") == 0 || is_listed(settings->algo, name);
}

static bool is_one_of(const char *word, const char *const words[], size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (strcmp(words[i], word) == 0) return true;
  }
  return false;
}

/* A name, several with commas, or all. */
static coll_status_t parse_collectives(const char *list, bench_settings_t *settings) {
  const char *names[COLL_COLLECTIVE_COUNT + 1];
  for (int i = 0; i < COLL_COLLECTIVE_COUNT; i++) {
    names[i] = coll_collective_name((coll_collective_t)i);
    settings->collectives[i] = strcmp(list, "all") == 0 || is_listed(list, names[i]);
  }
  names[COLL_COLLECTIVE_COUNT] = "all";
  if (strcmp(list, "all") == 0) return COLL_OK;
  for (const char *rest = list; rest != NULL; rest = strchr(rest, ',')) {
    char word[ITEM_BYTES];
    rest += *rest == ',';
    base_text_word(rest, strcspn(rest, ","), word, sizeof word);
    if (is_one_of(word, names, COLL_COLLECTIVE_COUNT)) continue;
    return base_fail(COLL_ERROR_INVALID, "unknown collective '%s'; did you mean '%s'?", word,
                     base_text_nearest(word, names, COLL_COLLECTIVE_COUNT + 1));
  }
  return COLL_OK;
}

/* Checks that one of the selected collectives has each of the algorithms of --algo. */
static coll_status_t check_algo(const bench_settings_t *settings) {
  enum { MAX_NAMES = 256 };
  const char *names[MAX_NAMES];
  size_t count = 0;
  for (int i = 0; i < COLL_COLLECTIVE_COUNT; i++) {
    const char *name;
    if (!settings->collectives[i]) continue;
    for (int k = 0; (name = coll_algo_name((coll_collective_t)i, k)) != NULL; k++) {
      if (count < MAX_NAMES - 1) names[count++] = name;
    }
  }
  names[count++] = "all";
  for (const char *rest = settings->algo; rest != NULL; rest = strchr(rest, ',')) {
    char word[ITEM_BYTES];
    rest += *rest == ',';
    base_text_word(rest, strcspn(rest, ","), word, sizeof word);
    if (is_one_of(word, names, count)) continue;
    return base_fail(COLL_ERROR_INVALID, "unknown algorithm '%s'; did you mean '%s'?", word,
                     base_text_nearest(word, names, count));
  }
  return COLL_OK;
}

static void choose_dtypes(int word, bool dtypes[COLL_DTYPE_COUNT]) {
  int all = COLL_DTYPE_COUNT + ALIAS_COUNT;
  for (int i = 0; i < COLL_DTYPE_COUNT; i++) dtypes[i] = word == all || word == i;
  if (word >= COLL_DTYPE_COUNT && word < all) {
    dtypes[dtype_aliases[word - COLL_DTYPE_COUNT].dtype] = true;
  }
}

/* Rows of all ops, or of all dtypes, leave out what cannot be reduced; a single one is a mistake.
 */
static coll_status_t check_op(const raw_t *raw, const bench_settings_t *settings) {
  bool reduces = false, takes = false;
  for (int i = 0; i < COLL_COLLECTIVE_COUNT; i++) {
    reduces |= settings->collectives[i] && bench_collective_reduces((coll_collective_t)i);
  }
  for (int i = 0; i < COLL_DTYPE_COUNT; i++) {
    takes |= settings->dtypes[i] && base_op_takes((coll_op_t)raw->op, (coll_dtype_t)i);
  }
  if (!reduces || takes) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "-o %s combines the bits of integers; give an integer type, such as -d int32",
                   bench_op_name(raw->op));
}

/* -g, -t, -G and -R as in nccl-tests, whose buffers are always in GPUs' memory. Every rank has a
 * thread of its own. */
static coll_status_t finish_gpus(const raw_t *raw, bench_settings_t *settings) {
  bool counted = raw->gpus > 0 || raw->gpu_threads > 0;
  int64_t ranks = (raw->gpus > 0 ? raw->gpus : 1) * (raw->gpu_threads > 0 ? raw->gpu_threads : 1);
  if (counted && raw->threads > 0) {
    return base_fail(COLL_ERROR_INVALID, "give the number of ranks with -g and -t, or --threads");
  }
  settings->threads = (int)(ranks > 1 ? ranks : raw->threads);
  settings->registered = raw->local_register > 0;
  settings->memory = (bench_memory_t)raw->memory;
  settings->memory_is_chosen = raw->memory != MEMORY_AUTO;
  if (raw->memory == MEMORY_AUTO) settings->memory = counted ? BENCH_CUDA : BENCH_MALLOC;
  settings->launches = (int)raw->launches;
  if (bench_memory_is_cuda(settings->memory)) {
    if (!settings->stream && !settings->explain) return COLL_OK;
    return base_fail(COLL_ERROR_INVALID, "%s is for memory of the host, not --mem %s",
                     settings->stream ? "--stream" : "--explain",
                     bench_memory_name(settings->memory));
  }
  if (settings->launches == 0) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "-G captures calls on memory of GPUs: add --mem cuda, or -g");
}

static coll_status_t finish(const raw_t *raw, bool ranged, bench_settings_t *settings) {
  choose_dtypes(raw->dtype, settings->dtypes);
  for (int i = 0; i < BENCH_OP_COUNT; i++) {
    settings->ops[i] = raw->op == BENCH_OP_COUNT || raw->op == i;
  }
  COLL_TRY(check_op(raw, settings));
  bench_nccl_options_apply(&raw->nccl, settings);
  settings->iterations = (int)raw->iterations;
  settings->warmups = (int)raw->warmups;
  settings->checks = (int)raw->checks;
  settings->time_ms = (int)raw->time_ms;
  for (int i = 0; i < BENCH_PLACE_COUNT; i++) {
    settings->places[i] = raw->place == BENCH_PLACE_COUNT || raw->place == i;
  }
  settings->misalign = (size_t)raw->misalign;
  COLL_TRY(finish_gpus(raw, settings));
  int collectives = 0;
  for (int i = 0; i < COLL_COLLECTIVE_COUNT; i++) collectives += settings->collectives[i];
  settings->brief = raw->print == 2 || (raw->print == 0 && collectives > 1);
  if (settings->iterations == 0 && settings->checks == 0) {
    return base_fail(COLL_ERROR_INVALID, "-n 0 with -c 0 leaves nothing to do");
  }
  if (settings->plan != NULL && (settings->algo != NULL || settings->explain)) {
    return base_fail(COLL_ERROR_INVALID, "--plan excludes --algo and --explain");
  }
  COLL_TRY(check_algo(settings));
  COLL_TRY(parse_root(raw->root, &settings->root));
  return parse_sizes(raw, ranged, settings);
}

/* Options may come before and after the collective. */
static coll_status_t parse_words(const base_command_t *command, int argc, char **argv,
                                 const char **collective, bool *help_printed) {
  *collective = NULL;
  for (int at = 0; at < argc;) {
    int first;
    COLL_TRY(base_options_parse(command, argc - at, argv + at, &first, help_printed));
    at += first;
    if (*help_printed || at >= argc) break;
    if (*collective != NULL) {
      return base_fail(COLL_ERROR_INVALID, "one collective, or several with commas: '%s' and '%s'",
                       *collective, argv[at]);
    }
    *collective = argv[at];
  }
  return COLL_OK;
}

/* dtype_words has space for every name, every alias, "all" and NULL. */
static void list_dtype_words(const char *dtype_words[]) {
  for (int i = 0; i < COLL_DTYPE_COUNT; i++) dtype_words[i] = coll_dtype_name((coll_dtype_t)i);
  for (int i = 0; i < ALIAS_COUNT; i++) dtype_words[COLL_DTYPE_COUNT + i] = dtype_aliases[i].name;
  dtype_words[COLL_DTYPE_COUNT + ALIAS_COUNT] = "all";
  dtype_words[COLL_DTYPE_COUNT + ALIAS_COUNT + 1] = NULL;
}

static coll_status_t parse_options(int argc, char **argv, raw_t *raw, bench_settings_t *settings,
                                   const char **collective, bool *help_printed) {
  const char *dtype_words[COLL_DTYPE_COUNT + ALIAS_COUNT + 2];
  list_dtype_words(dtype_words);
  const base_option_t options[] = {
      {'b', "minbytes", BASE_OPTION_BYTES, &raw->begin, "SIZE", "smallest size", 0, SIZE_LIMIT},
      {'e', "maxbytes", BASE_OPTION_BYTES, &raw->end, "SIZE", "largest size", 0, SIZE_LIMIT},
      {'f', "stepfactor", BASE_OPTION_INTEGER, &raw->factor, "F", "multiply the size by F", 2,
       1024},
      {'i', "stepbytes", BASE_OPTION_BYTES, &raw->step, "SIZE",
       "add to the size instead; 0: do not", 0, SIZE_LIMIT},
      {0, "sizes", BASE_OPTION_TEXT, &raw->sizes, "LIST", "these sizes instead, such as 0,4,16M"},
      {0, "counts", BASE_OPTION_TEXT, &raw->counts, "LIST",
       "these counts of elements, such as 0,1,1001"},
      {'n', "iters", BASE_OPTION_INTEGER, &raw->iterations, "N", "timed calls; 0: only check", 0,
       1000000},
      {'w', "warmup_iters", BASE_OPTION_INTEGER, &raw->warmups, "N",
       "untimed calls before the timed ones", 0, 1000000},
      {'c', "check", BASE_OPTION_INTEGER, &raw->checks, "N", "checked calls, each with new values",
       0, 1000000},
      {0, "time-ms", BASE_OPTION_INTEGER, &raw->time_ms, "MS",
       "limit for the timed calls of a size; it also sets the warm-up; 0: no limit", 0, 1000000},
      {0, "place", BASE_OPTION_WORD, &raw->place, "WHERE",
       "out: separate buffers; in: in place; both", .words = place_words},
      {'o', "op", BASE_OPTION_WORD, &raw->op, "OP",
       "reduction: sum, prod, max, min, avg, band, bor, bxor, premulsum, all", .words = op_words},
      {'d', "datatype", BASE_OPTION_WORD, &raw->dtype, "TYPE",
       "float32, bfloat16, float8_e4m3, int16 ..., all", .words = dtype_words},
      {'r', "root", BASE_OPTION_TEXT, &raw->root, "RANK", "root of rooted collectives, or all"},
      {'u', "unalign", BASE_OPTION_INTEGER, &raw->misalign, "N", "begin buffers N elements later",
       0, 4096},
      {0, "algo", BASE_OPTION_TEXT, &settings->algo, "LIST",
       "use these algorithms in turn, such as ring,tree; or all"},
      {0, "plan", BASE_OPTION_TEXT, &settings->plan, "FILE",
       "verify and use this plan, as collplan show or import prints it"},
      {0, "mem", BASE_OPTION_WORD, &raw->memory, "KIND",
       "where buffers are from: malloc, coll (coll_mem_alloc), cuda, cuda-coll; auto",
       .words = memory_words},
      {'g', "ngpus", BASE_OPTION_INTEGER, &raw->gpus, "N",
       "N GPUs for each of -t threads, each a rank; on fewer GPUs they share them", 0, 4096},
      {'t', "nthreads", BASE_OPTION_INTEGER, &raw->gpu_threads, "N", "see -g", 0, 4096},
      {'G', "cudagraph", BASE_OPTION_INTEGER, &raw->launches, "N",
       "capture the -n calls in a CUDA graph, and time N launches of it", 0, 1000000},
      {'R', "local_register", BASE_OPTION_SWITCH, &raw->local_register, "[N]",
       "register the buffers with the communicator unless N is 0; those of GPUs as windows", 0, 2},
      {0, "stream", BASE_OPTION_FLAG, &settings->stream, NULL, "queue the calls on a host stream"},
      {0, "even", BASE_OPTION_FLAG, &settings->even, NULL, "equal blocks in allgatherv and such"},
      {0, "together", BASE_OPTION_FLAG, &settings->together, NULL,
       "start each timed call on all ranks at the same time, on one machine"},
      {0, "threads", BASE_OPTION_INTEGER, &raw->threads, "N",
       "run N ranks as threads of this process; 0: the launcher starts the ranks", 0, 4096},
      {0, "print", BASE_OPTION_WORD, &raw->print, "HOW",
       "rows: every size; brief: a line per algorithm; auto: brief for 'all'",
       .words = print_words},
      {0, "json", BASE_OPTION_TEXT, &settings->json, "FILE",
       "write rows, settings and machine to this JSON file"},
      {0, "explain", BASE_OPTION_FLAG, &settings->explain, NULL,
       "show predicted times of all algorithms instead of measuring"},
      {0, "show-routes", BASE_OPTION_FLAG, &settings->show_routes, NULL,
       "show first what the messages between each two ranks go over"},
      {0, "knobs", BASE_OPTION_FLAG, &raw->knobs, NULL,
       "list the COLL_* environment variables and their values"},
  };
  const base_command_t command = {"collbench",     "COLLECTIVE [options]",
                                  summary,         examples,
                                  options,         sizeof options / sizeof options[0],
                                  raw->nccl.table, raw->nccl.count};
  return parse_words(&command, argc, argv, collective, help_printed);
}

coll_status_t bench_settings_parse(int argc, char **argv, bench_settings_t *settings,
                                   bool *help_printed) {
  raw_t raw = {.begin = 8,
               .end = 64 << 20,
               .factor = FACTOR_DEFAULT,
               .iterations = 20,
               .warmups = 5,
               .checks = 1,
               .dtype = COLL_FLOAT32,
               .place = BENCH_PLACE_COUNT,
               .memory = MEMORY_AUTO,
               .root = "0"};
  const raw_t untouched = raw;
  bench_settings_t parsed = {0};
  const char *collective;
  bench_nccl_options_list(&raw.nccl);
  COLL_TRY(parse_options(argc, argv, &raw, &parsed, &collective, help_printed));
  if (raw.knobs && !*help_printed) {
    base_tool_print_knobs(coll_knob_get);
    *help_printed = true;
  }
  if (*help_printed) return COLL_OK;
  if (collective == NULL) {
    return base_fail(COLL_ERROR_INVALID, "name a collective: collbench allreduce (see --help)");
  }
  if (raw.op == OP_ALIAS) raw.op = BENCH_PREMUL_SUM;
  COLL_TRY(parse_collectives(collective, &parsed));
  bool ranged = raw.begin != untouched.begin || raw.end != untouched.end ||
                raw.factor != untouched.factor || raw.step != untouched.step;
  coll_status_t status = finish(&raw, ranged, &parsed);
  if (status != COLL_OK) {
    bench_settings_free(&parsed);
    return status;
  }
  *settings = parsed;
  return COLL_OK;
}

void bench_settings_free(bench_settings_t *settings) {
  free(settings->sizes);
  free(settings->counts);
  *settings = (bench_settings_t){0};
}
