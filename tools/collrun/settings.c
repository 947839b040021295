/* The option table of collrun; base/options makes the parser and the help text from it. */
#include "tools/collrun/settings.h"

#include <stddef.h>

#include "base/knob.h"
#include "base/options.h"
#include "topo/map.h"

#define RANKS_MAX 4096

static const char *const bind_words[] = {"core", "none", NULL};

static const char summary[] =
    "Starts N ranks of a program on this machine and waits for them. Each rank gets RANK,\n"
    "WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its environment, as\n"
    "under torchrun. Standard input goes to rank 0. SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2,\n"
    "Ctrl-Z and SIGCONT are forwarded to every rank. SIGQUIT (Ctrl-\\) prints a table: the state\n"
    "of every rank, and the ranks it waits for. When a rank fails, the others have --grace-ms to\n"
    "print their own errors and exit. Then collrun prints the same table and stops the ranks that\n"
    "still run. Its exit code is that of the rank that failed first (128 + the signal's number if\n"
    "a signal ended it). Errors of collrun itself: 2; program not found: 127; program that cannot\n"
    "be executed: 126.";

static const char examples[] =
    "  collrun -n 2 collbench allreduce -b 8 -e 64M\n"
    "      benchmark an allreduce over two processes\n"
    "  collrun -n 4 --prefix ./train --steps 100\n"
    "      each line of output begins with the number of its rank\n"
    "  collrun -n 4 --output logs ./train\n"
    "      each rank writes to logs/rank-N.out and logs/rank-N.err\n";

/* The default of --map. */
static const base_knob_t map_knob = {.name = "COLL_TOPO_MAP",
                                     .kind = BASE_KNOB_WORD,
                                     .fallback = "by-host",
                                     .words = topo_map_words};

/* Values from the option table, not yet checked. */
typedef struct raw {
  int64_t ranks, port, grace_ms;
  int bind, map; /* map: topo_map_t */
} raw_t;

static coll_status_t parse(int argc, char **argv, raw_t *raw, collrun_settings_t *settings,
                           int *first, bool *help_printed) {
  const base_option_t options[] = {
      {'n', "ranks", BASE_OPTION_INTEGER, &raw->ranks, "N", "number of ranks; required", 1,
       RANKS_MAX},
      {0, "bind", BASE_OPTION_WORD, &raw->bind, "HOW",
       "core: one or more cores per rank, or an equal number of ranks per core; none",
       .words = bind_words},
      {0, "prefix", BASE_OPTION_FLAG, &settings->prefix, NULL,
       "put \"[rank] \" before every line of output"},
      {0, "output", BASE_OPTION_TEXT, &settings->output, "DIR",
       "write each rank's output to DIR/rank-N.out and DIR/rank-N.err"},
      {0, "map", BASE_OPTION_WORD, &raw->map, "HOW",
       "which host of COLL_TOPO_FILE a rank is on: by-host (contiguous blocks), by-rail (in turn) "
       "or grid (tiles of a process grid); sets COLL_TOPO_MAP",
       .words = topo_map_words},
      {0, "show-layout", BASE_OPTION_FLAG, &settings->show_layout, NULL,
       "print where the ranks are, on COLL_TOPO_FILE or this machine, and run nothing"},
      {0, "port", BASE_OPTION_INTEGER, &raw->port, "PORT", "MASTER_PORT; 0: any free port", 0,
       65535},
      {0, "grace-ms", BASE_OPTION_INTEGER, &raw->grace_ms, "MS",
       "time from a failure to SIGTERM for the other ranks, and from that to SIGKILL", 0, 3600000},
  };
  const base_command_t command = {"collrun", "-n N [options] PROGRAM [ARGUMENTS]",
                                  summary,   examples,
                                  options,   sizeof options / sizeof options[0]};
  return base_options_parse(&command, argc, argv, first, help_printed);
}

coll_status_t collrun_settings_parse(int argc, char **argv, collrun_settings_t *settings,
                                     bool *help_printed) {
  raw_t raw = {.grace_ms = 2500};
  collrun_settings_t parsed = {0};
  int first;
  COLL_TRY(base_knob_word(&map_knob, &raw.map));
  COLL_TRY(parse(argc, argv, &raw, &parsed, &first, help_printed));
  if (*help_printed) return COLL_OK;
  if (raw.ranks == 0) {
    return base_fail(COLL_ERROR_INVALID, "give the number of ranks: collrun -n 4 PROGRAM");
  }
  if (first == argc && !parsed.show_layout) {
    return base_fail(COLL_ERROR_INVALID, "no program given: collrun -n %d PROGRAM", (int)raw.ranks);
  }
  if (parsed.prefix && parsed.output != NULL) {
    return base_fail(COLL_ERROR_INVALID,
                     "--prefix and --output exclude each other: files need no prefix");
  }
  parsed.ranks = (int)raw.ranks;
  parsed.port = (int)raw.port;
  parsed.grace_ms = (int)raw.grace_ms;
  parsed.bind = raw.bind == 0;
  parsed.map = (topo_map_t)raw.map;
  parsed.program = argv + first;
  *settings = parsed;
  return COLL_OK;
}
