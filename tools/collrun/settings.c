/* The option table of collrun; base/options turns it into the parser and the help page. */
#include "tools/collrun/settings.h"

#include <stddef.h>

#include "base/options.h"

#define RANKS_MAX 4096

static const char *const bind_words[] = {"core", "none", NULL};

static const char summary[] =
    "Starts N ranks of a program on this machine and waits for them. Each finds RANK, WORLD_SIZE,\n"
    "LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its environment, as under\n"
    "torchrun. Standard input goes to rank 0. SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, Ctrl-Z\n"
    "and SIGCONT are passed on to every rank. SIGQUIT (Ctrl-\\) prints a table: what every rank\n"
    "does, and which ranks it waits for. When one rank fails, the others get a moment to say\n"
    "why; those that still run are shown in the same table and stopped, and collrun leaves with\n"
    "the failing rank's exit code (128 + the signal's number if a signal ended it). Its own\n"
    "errors leave with 2; 127 and 126 mean that the program was not found or could not be\n"
    "executed.";

static const char examples[] =
    "  collrun -n 2 collbench allreduce -b 8 -e 64M\n"
    "      benchmark an allreduce over two processes\n"
    "  collrun -n 4 --prefix ./train --steps 100\n"
    "      each line of output says which rank wrote it\n"
    "  collrun -n 4 --output logs ./train\n"
    "      each rank writes to logs/rank-N.out and logs/rank-N.err\n";

/* The values that the option table fills in, before they are checked. */
typedef struct raw {
  int64_t ranks, port, grace_ms;
  int bind;
} raw_t;

static coll_status_t parse(int argc, char **argv, raw_t *raw, collrun_settings_t *settings,
                           int *first, bool *helped) {
  const base_option_t options[] = {
      {'n', "ranks", BASE_OPTION_INTEGER, &raw->ranks, "N", "how many ranks to start; required", 1,
       RANKS_MAX},
      {0, "bind", BASE_OPTION_WORD, &raw->bind, "HOW",
       "core: ranks get cores of their own, or share them evenly, if that comes out; none",
       .words = bind_words},
      {0, "prefix", BASE_OPTION_FLAG, &settings->prefix, NULL,
       "put \"[rank] \" before every line of output"},
      {0, "output", BASE_OPTION_TEXT, &settings->output, "DIR",
       "write each rank's output to DIR/rank-N.out and DIR/rank-N.err"},
      {0, "port", BASE_OPTION_INTEGER, &raw->port, "PORT", "MASTER_PORT; 0 picks a free one", 0,
       65535},
      {0, "grace-ms", BASE_OPTION_INTEGER, &raw->grace_ms, "MS",
       "time between a rank's failure and SIGTERM, then SIGKILL, to the rest", 0, 3600000},
  };
  const base_command_t command = {"collrun", "-n N [options] PROGRAM [ARGUMENTS]",
                                  summary,   examples,
                                  options,   sizeof options / sizeof options[0]};
  return base_options_parse(&command, argc, argv, first, helped);
}

coll_status_t collrun_settings_parse(int argc, char **argv, collrun_settings_t *settings,
                                     bool *helped) {
  raw_t raw = {.grace_ms = 2500};
  collrun_settings_t parsed = {0};
  int first;
  COLL_TRY(parse(argc, argv, &raw, &parsed, &first, helped));
  if (*helped) return COLL_OK;
  if (raw.ranks == 0) {
    return base_fail(COLL_ERROR_INVALID, "say how many ranks to start: collrun -n 4 PROGRAM");
  }
  if (first == argc) {
    return base_fail(COLL_ERROR_INVALID, "no program given: collrun -n %d PROGRAM", (int)raw.ranks);
  }
  if (parsed.prefix && parsed.output != NULL) {
    return base_fail(COLL_ERROR_INVALID,
                     "--prefix and --output do not go together: files need no prefix");
  }
  parsed.ranks = (int)raw.ranks;
  parsed.port = (int)raw.port;
  parsed.grace_ms = (int)raw.grace_ms;
  parsed.bind = raw.bind == 0;
  parsed.program = argv + first;
  *settings = parsed;
  return COLL_OK;
}
