/* limit: measures plain copies, the minimal data movement of a collective without a library. Forks
 * the ranks (limit_rank.c) and waits for them. If one fails, kills the others, which would wait for
 * it forever. Prints one JSON object. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/names.h"
#include "base/options.h"
#include "base/status.h"
#include "base/text.h"
#include "base/tool.h"
#include "bench/collectives.h"
#include "bench/limit_rank.h"

/* ---- processes */

static void run_as_rank(const limit_settings_t *settings, int number, void *memory) {
  coll_status_t status = limit_rank_run(settings, number, memory);
  char name[32];
  snprintf(name, sizeof name, "limit: rank %d", number);
  _exit(status == COLL_OK ? BASE_EXIT_DONE : base_tool_fail(name, base_tool_input(status)));
}

/* Waits for all ranks. When the first one fails, kills the others, which would wait for it. Returns
 * the exit code: for rank 0 whose output nobody reads that of a shell. */
static int wait_for_ranks(const pid_t *pids, int count) {
  int code = BASE_EXIT_DONE;
  for (int left = count; left > 0; left--) {
    int status;
    pid_t ended = wait(&status);
    if (ended >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    for (int i = 0; code == BASE_EXIT_DONE && i < count; i++) {
      if (pids[i] != ended) kill(pids[i], SIGKILL);
    }
    bool by_pipe = ended >= 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE;
    if (code == BASE_EXIT_DONE) code = by_pipe ? 128 + SIGPIPE : BASE_EXIT_FAILED;
  }
  return code;
}

static coll_status_t run(const limit_settings_t *settings, int *code) {
  pid_t pids[LIMIT_RANKS_MAX];
  size_t bytes;
  COLL_TRY(limit_memory_bytes(settings, &bytes));
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return base_fail_errno(COLL_ERROR_MEMORY, "no %zu bytes of shared memory", bytes);
  }
  (void)madvise(memory, bytes, MADV_HUGEPAGE); /* real buffers may lie in huge pages too */
  int started = 0;
  coll_status_t status = COLL_OK;
  for (; started < settings->ranks; started++) {
    pids[started] = fork();
    if (pids[started] == 0) run_as_rank(settings, started, memory);
    if (pids[started] < 0) {
      status = base_fail_errno(COLL_ERROR_SYSTEM, "cannot start rank %d", started);
      break;
    }
  }
  if (status != COLL_OK) {
    for (int i = 0; i < started; i++) kill(pids[i], SIGKILL);
  }
  *code = wait_for_ranks(pids, started);
  munmap(memory, bytes);
  return status;
}

/* ---- command line */

static coll_status_t parse_list(const char *option, const char *text, size_t *values, int *count) {
  *count = 0;
  while (*text != '\0') {
    char item[24];
    uint64_t value;
    size_t length = strcspn(text, ",");
    base_text_word(text, length, item, sizeof item);
    if (*count == LIMIT_LIST_MAX || !base_text_bytes(item, &value)) {
      return base_fail(COLL_ERROR_INVALID, "%s: '%s' is not a list such as 0,4,16K of at most %d",
                       option, text, LIMIT_LIST_MAX);
    }
    values[(*count)++] = (size_t)value;
    text += length + (text[length] == ',');
  }
  return COLL_OK;
}

static coll_status_t parse(int argc, char **argv, limit_settings_t *settings, bool *help_printed) {
  int64_t ranks = 2;
  const char *sizes = "64K,1M,16M", *cpus = "";
  int first;
  const base_option_t options[] = {
      {'n', "ranks", BASE_OPTION_INTEGER, &ranks, "N", "processes", 1, LIMIT_RANKS_MAX},
      {0, "sizes", BASE_OPTION_TEXT, &sizes, "LIST", "bytes in the larger of a rank's two buffers"},
      {0, "cpus", BASE_OPTION_TEXT, &cpus, "LIST",
       "cores to bind the ranks to, round robin; without it the kernel places the ranks"},
  };
  const base_command_t command = {
      "limit",
      "[options] COLLECTIVE",
      "Measures plain copies: what a COLLECTIVE has to load and store, and its flags, without a\n"
      "library. A library may be faster: this is no bound. Prints JSON, times in us.\n"
      "mapped_us: the minimal data movement, by all ranks at once and without waiting, where "
      "ranks\n"
      "access each other's buffers. staged_us: the same through shared memory. crossing_us: the\n"
      "minimal copies with waiting, through slots in shared memory between two ranks.\n"
      "barrier_us, round_trip_us, one_way_us: a barrier of flags, a flag and its reply, one of a\n"
      "stream of flags in one direction.",
      "  limit -n 2 --cpus 0,1 --sizes 64K,64M broadcast\n      two ranks on two cores\n",
      options,
      sizeof options / sizeof options[0]};
  COLL_TRY(base_options_parse(&command, argc, argv, &first, help_printed));
  if (*help_printed) return COLL_OK;
  if (first + 1 != argc) return base_fail(COLL_ERROR_INVALID, "give one collective");
  COLL_TRY(base_collective_find(argv[first], &settings->collective));
  if (bench_collective_bus_factor(settings->collective, 2) == 0 ||
      settings->collective == COLL_ALLTOALLV ||
      bench_collective_has_uneven_blocks(settings->collective)) {
    return base_fail(COLL_ERROR_INVALID, "limit does not measure %s", argv[first]);
  }
  settings->ranks = (int)ranks;
  COLL_TRY(parse_list("--sizes", sizes, settings->sizes, &settings->size_count));
  return parse_list("--cpus", cpus, settings->cpus, &settings->cpu_count);
}

static int run_tool(int argc, char **argv) {
  limit_settings_t settings = {0};
  bool help_printed = false;
  int code = BASE_EXIT_DONE;
  coll_status_t status = parse(argc, argv, &settings, &help_printed);
  if (status == COLL_OK && !help_printed) {
    status = base_tool_input(run(&settings, &code));
  }
  if (status != COLL_OK) return base_tool_fail("limit", status);
  return code;
}

int main(int argc, char **argv) {
  return base_tool_main("limit", run_tool, argc, argv);
}
