/* limit_net: what collectives between hosts take over plain TCP sockets, without a library: as many
 * processes move the same bytes between the hosts, and pass over memory as often as the call must.
 * Measured like the peers (peers/measure.h), once with each variant (limit_variants.h). */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "base/tool.h"
#include "bench/limit_links.h"
#include "bench/limit_moves.h"
#include "bench/peers/measure.h"

#define DEFAULT_PORT 29600

enum {
  SIZES_MAX = 64,
  WORDS_MAX = 64,
  LIBRARY_BYTES = 48,
  COLLECTIVE_BYTES = 32,
  COLLECTIVES_AT = 1
};

static const char usage[] =
    "limit_net COLLECTIVES --sizes LIST [options]: measures plain TCP sockets between hosts.\n"
    "RANK and WORLD_SIZE: as of collrun. BENCH_ADDRESSES: the IPv4 addresses of the hosts, with\n"
    "commas. BENCH_PORT: of rank 0; rank r has that + r (29600). BENCH_VARIANTS: which variants\n"
    "are tried for which calls, as 'allreduce/4096/poll allreduce/4096/spin'; calls that it does\n"
    "not name are not measured (all). The options are those of collbench. Rank 0 prints JSON, a\n"
    "line for each variant, collective and size. With more than one rank per host the ranks of a\n"
    "host exchange nothing, so -c must be 0.\n";

/* ---- the library that is measured */

static const char *to_message(coll_status_t status) {
  return status == COLL_OK ? NULL : base_last_error();
}

static bool supports(void *context, coll_collective_t collective) {
  (void)context;
  return limit_moves_support(collective);
}

static const char *call(void *context, const peers_call_t *call, const void *send, void *recv) {
  return to_message(limit_moves_call(context, call->collective, call->count, send, recv));
}

static const char *max(void *context, double *values, int count) {
  const limit_moves_t *moves = context;
  return to_message(limit_links_max(moves->links, values, count));
}

static const char *barrier(void *context) {
  double nothing = 0;
  return max(context, &nothing, 1);
}

/* ---- command line */

typedef struct command {
  char *words[WORDS_MAX + 1];
  int count;
  char *collectives;
  int sizes_at; /* index of the list of sizes */
  size_t sizes[SIZES_MAX];
  int size_count;
} command_t;

static coll_status_t parse_sizes(command_t *command) {
  for (const char *at = command->words[command->sizes_at]; *at != '\0';) {
    char item[24];
    uint64_t bytes;
    size_t length = strcspn(at, ",");
    base_text_word(at, length, item, sizeof item);
    if (command->size_count == SIZES_MAX || !base_text_bytes(item, &bytes)) {
      return base_fail(COLL_ERROR_INVALID,
                       "--sizes: '%s' is not a list such as 4,16K of at most %d", at, SIZES_MAX);
    }
    command->sizes[command->size_count++] = (size_t)bytes;
    at += length + (at[length] == ',');
  }
  return COLL_OK;
}

static coll_status_t parse(int argc, char **argv, command_t *command) {
  if (argc < 2) return base_fail(COLL_ERROR_INVALID, "give collectives");
  *command = (command_t){.count = argc, .collectives = argv[COLLECTIVES_AT]};
  if (argc > WORDS_MAX) return base_fail(COLL_ERROR_INVALID, "more than %d words", WORDS_MAX);
  for (int i = 0; i < argc; i++) {
    command->words[i] = argv[i];
    if (i > 0 && strcmp(argv[i - 1], "--sizes") == 0) command->sizes_at = i;
  }
  if (command->sizes_at == 0) return base_fail(COLL_ERROR_INVALID, "give --sizes LIST");
  return parse_sizes(command);
}

static size_t largest_size(const command_t *command) {
  size_t largest = 0;
  for (int i = 0; i < command->size_count; i++) {
    if (command->sizes[i] > largest) largest = command->sizes[i];
  }
  return largest;
}

static coll_status_t integer_of(const char *name, int64_t otherwise, int64_t most, int *value) {
  const char *text = getenv(name);
  int64_t number = otherwise;
  bool good = text == NULL ? otherwise >= 0 : base_text_integer(text, 0, most, &number);
  *value = (int)number;
  return good ? COLL_OK : base_fail(COLL_ERROR_INVALID, "%s is not set, or no number", name);
}

/* ---- running */

typedef struct bench {
  command_t *command;
  const limit_links_t *links;
  limit_variants_t variants;
  limit_moves_t moves;
} bench_t;

/* The sizes of the collective with which the variant is tried, as a list. False: none. */
static bool list_sizes(const bench_t *bench, const limit_variant_t *variant, const char *collective,
                       char *list, size_t list_bytes) {
  const command_t *command = bench->command;
  size_t used = 0;
  for (int i = 0; i < command->size_count; i++) {
    size_t size = command->sizes[i];
    if (!limit_variants_tries(&bench->variants, variant, collective, size)) continue;
    used += (size_t)snprintf(list + used, list_bytes - used, "%s%zu", used > 0 ? "," : "", size);
  }
  return used > 0;
}

static int run_collective(bench_t *bench, const limit_variant_t *variant, char *collective) {
  command_t *command = bench->command;
  char list[SIZES_MAX * 24], name[LIBRARY_BYTES];
  peers_library_t library = {.name = name,
                             .rank = bench->links->rank,
                             .ranks = bench->links->ranks,
                             .context = &bench->moves,
                             .supports = supports,
                             .call = call,
                             .barrier = barrier,
                             .max = max};
  if (!list_sizes(bench, variant, collective, list, sizeof list)) return 0;
  snprintf(name, sizeof name, "sockets/%s", variant->name);
  command->words[COLLECTIVES_AT] = collective;
  command->words[command->sizes_at] = list;
  bench->moves.variant = variant;
  return peers_measure(command->count, command->words, &library);
}

static int run_variant(bench_t *bench, const limit_variant_t *variant) {
  char word[COLLECTIVE_BYTES];
  int code = 0;
  for (const char *at = bench->command->collectives; code == 0 && *at != '\0';) {
    size_t length = strcspn(at, ",");
    base_text_word(at, length, word, sizeof word);
    code = run_collective(bench, variant, word);
    at += length + (at[length] == ',');
  }
  return code;
}

static int run(command_t *command, const limit_links_t *links) {
  cpu_set_t cores;
  bench_t bench = {.command = command, .links = links};
  coll_status_t status = limit_variants_make(getenv("BENCH_VARIANTS"), &bench.variants);
  if (status == COLL_OK) status = limit_moves_make(links, largest_size(command), &bench.moves);
  if (status != COLL_OK) return base_tool_fail("limit_net", status);
  bool known = sched_getaffinity(0, sizeof cores, &cores) == 0;
  bench.moves.yields = !known || links->ranks > CPU_COUNT(&cores);
  int code = 0;
  for (int i = 0; code == 0 && i < bench.variants.count; i++) {
    code = run_variant(&bench, &bench.variants.list[i]);
  }
  free(bench.moves.scratch);
  return code;
}

static coll_status_t open_links(limit_links_t *links) {
  const char *addresses = getenv("BENCH_ADDRESSES");
  int rank, ranks, port;
  COLL_TRY(integer_of("RANK", -1, LIMIT_LINKS_RANKS_MAX, &rank));
  COLL_TRY(integer_of("WORLD_SIZE", -1, LIMIT_LINKS_RANKS_MAX, &ranks));
  COLL_TRY(integer_of("BENCH_PORT", DEFAULT_PORT, UINT16_MAX - LIMIT_LINKS_RANKS_MAX, &port));
  if (addresses == NULL || rank >= ranks) {
    return base_fail(COLL_ERROR_INVALID,
                     "BENCH_ADDRESSES is not set, or RANK not below WORLD_SIZE");
  }
  return limit_links_open(addresses, port, rank, ranks, links);
}

static int run_tool(int argc, char **argv) {
  command_t command;
  limit_links_t links = {0};
  if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
    fputs(usage, stdout);
    return BASE_EXIT_DONE;
  }
  coll_status_t status = parse(argc, argv, &command);
  if (status == COLL_OK) status = open_links(&links);
  int code = status == COLL_OK ? run(&command, &links) : base_tool_fail("limit_net", status);
  limit_links_close(&links);
  return code;
}

int main(int argc, char **argv) {
  return base_tool_main("limit_net", run_tool, argc, argv);
}
