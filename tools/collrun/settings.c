/* The option table of collrun; base/options turns it into the parser and the help page. */
#include "tools/collrun/settings.h"

#include <stddef.h>

#include "base/options.h"

#define RANKS_MOST 4096

static const char *const bind_words[] = {"core", "none", NULL};

static const char summary[] =
    "Starts N ranks of a program on this machine and waits for them. Each finds RANK, WORLD_SIZE,\n"
    "LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its environment, as under\n"
    "torchrun. Standard input goes to rank 0. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2,\n"
    "Ctrl-Z and SIGCONT are passed on to every rank. When one rank fails, the others get a moment\n"
    "to say why, are then stopped, and collrun leaves with the failing rank's exit code (128 + "
    "the\n"
    "signal's number if a signal ended it). Its own errors leave with 2; 127 and 126 mean that "
    "the\n"
    "program was not found or could not be executed.";

static const char examples[] =
    "  collrun -n 2 collbench allreduce -b 8 -e 64M\n"
    "      benchmark an allreduce over two processes\n"
    "  collrun -n 4 --prefix ./train --steps 100\n"
    "      each line of output says which rank wrote it\n"
    "  collrun -n 4 --output logs ./train\n"
    "      each rank writes to logs/rank-N.out and logs/rank-N.err\n";

coll_status_t collrun_settings_parse(int argc, char **argv, collrun_settings_t *settings,
                                     bool *helped) {
  int64_t ranks = 0, port = 0, grace_ms = 2500;
  int bind = 0;
  bool prefix = false;
  const char *output = NULL;
  const base_option_t options[] = {
      {.letter = 'n',
       .name = "ranks",
       .kind = BASE_OPTION_INTEGER,
       .value = &ranks,
       .value_name = "N",
       .help = "how many ranks to start; required",
       .least = 1,
       .most = RANKS_MOST},
      {.name = "bind",
       .kind = BASE_OPTION_WORD,
       .value = &bind,
       .value_name = "HOW",
       .help = "core: each rank gets its own cores, unless ranks outnumber them; none",
       .words = bind_words},
      {.name = "prefix",
       .kind = BASE_OPTION_FLAG,
       .value = &prefix,
       .help = "put \"[rank] \" before every line of output"},
      {.name = "output",
       .kind = BASE_OPTION_TEXT,
       .value = &output,
       .value_name = "DIR",
       .help = "write each rank's output to DIR/rank-N.out and DIR/rank-N.err"},
      {.name = "port",
       .kind = BASE_OPTION_INTEGER,
       .value = &port,
       .value_name = "PORT",
       .help = "MASTER_PORT; 0 picks a free one",
       .least = 0,
       .most = 65535},
      {.name = "grace-ms",
       .kind = BASE_OPTION_INTEGER,
       .value = &grace_ms,
       .value_name = "MS",
       .help = "time between a rank's failure and SIGTERM, then SIGKILL, to the rest",
       .least = 0,
       .most = 3600000},
  };
  const base_command_t command = {.name = "collrun",
                                  .usage = "-n N [options] PROGRAM [ARGUMENTS]",
                                  .summary = summary,
                                  .examples = examples,
                                  .options = options,
                                  .option_count = sizeof options / sizeof options[0]};
  int first;
  COLL_TRY(base_options_parse(&command, argc, argv, &first, helped));
  if (*helped) return COLL_OK;
  if (ranks == 0) {
    return base_fail(COLL_ERROR_INVALID, "say how many ranks to start: collrun -n 4 PROGRAM");
  }
  if (first == argc) {
    return base_fail(COLL_ERROR_INVALID, "no program given: collrun -n %d PROGRAM", (int)ranks);
  }
  if (prefix && output != NULL) {
    return base_fail(COLL_ERROR_INVALID,
                     "--prefix and --output do not go together: files need no prefix");
  }
  *settings = (collrun_settings_t){.ranks = (int)ranks,
                                   .port = (int)port,
                                   .grace_ms = (int)grace_ms,
                                   .bind = bind == 0,
                                   .prefix = prefix,
                                   .output = output,
                                   .program = argv + first};
  return COLL_OK;
}
