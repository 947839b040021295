/* The option table of collrun; base/options makes the parser and the help text from it. */
#include "tools/collrun/settings.h"

#include <coll.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "base/knob.h"
#include "base/options.h"
#include "base/tool.h"
#include "tools/collrun/mpirun_options.h"
#include "topo/map.h"

static const char *const bind_words[] = {"core", "none", NULL};

static const char summary[] =
    "Starts N ranks of a program on this machine, or on the hosts of --hosts, and waits for them.\n"
    "Each rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT\n"
    "in its environment, as under torchrun. Standard input goes to rank 0, on several hosts to\n"
    "none. SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, Ctrl-Z and SIGCONT are forwarded to every\n"
    "rank. SIGQUIT (Ctrl-\\) prints a table: the state of every rank, and the ranks it waits for.\n"
    "When a rank fails, the others have --grace-ms to print their own errors and exit. Then\n"
    "collrun prints the same table and stops the ranks that still run. Its exit code is that of\n"
    "the rank that failed first (128 + the signal's number if a signal ended it). A wrong\n"
    "command line: 2; a failure of collrun: 1; program not found: 127; program that cannot be\n"
    "executed: 126.\n"
    "\n"
    "The usual options of mpirun are accepted: -np, -H, --host, --machinefile, -x, -genv, -wdir,\n"
    "-ppn, -npernode, --bind-to, --map-by, --tag-output, --allow-run-as-root and more.";

static const char examples[] =
    "  collrun -n 2 collbench allreduce -b 8 -e 64M\n"
    "      benchmark an allreduce over two processes\n"
    "  collrun -n 4 --prefix ./train --steps 100\n"
    "      each line of output begins with the number of its rank\n"
    "  collrun -n 4 --output logs ./train\n"
    "      each rank writes to logs/rank-N.out and logs/rank-N.err\n"
    "  collrun --hosts a:4,b:4 --prefix collbench allreduce -b 8 -e 64M\n"
    "      four ranks on each of two hosts, started through ssh; collrun and the program are at\n"
    "      the same paths there\n"
    "  collrun --hosts h1:2,h2:2 --agent 'ip netns exec {host}' collbench barrier\n"
    "      on hosts that are network namespaces of this machine\n";

/* The default of --map. */
static const base_knob_t map_knob = {.name = "COLL_TOPO_MAP",
                                     .kind = BASE_KNOB_WORD,
                                     .fallback = "by-host",
                                     .words = topo_map_words};

/* Values from the option table, not yet checked. */
typedef struct raw {
  int64_t ranks, port, grace_ms, first_rank, world_size;
  const char *hosts, *hostfile, *folder;
  int bind, map; /* map: topo_map_t */
  bool knobs;
  collrun_mpirun_t mpirun;
} raw_t;

static coll_status_t parse(int argc, char **argv, raw_t *raw, collrun_settings_t *settings,
                           int *first, bool *help_printed) {
  const collrun_mpirun_same_t same = {&raw->ranks,  &raw->hosts,       &raw->hostfile,
                                      &raw->folder, &settings->output, &settings->prefix};
  collrun_mpirun_list(&raw->mpirun, &same);
  const base_option_t options[] = {
      {'n', "ranks", BASE_OPTION_INTEGER, &raw->ranks, "N",
       "number of ranks; 0: of hosts, one for each of their slots", 1, COLLRUN_RANKS_MAX},
      {0, "hosts", BASE_OPTION_TEXT, &raw->hosts, "A:N,B:N",
       "hosts, and the number of slots of each (1 if not given)"},
      {0, "hostfile", BASE_OPTION_TEXT, &raw->hostfile, "FILE",
       "a file of hosts, as a:4, as a slots=4, or a host once for each slot"},
      {0, "oversubscribe", BASE_OPTION_FLAG, &raw->mpirun.oversubscribe, NULL,
       "start more ranks than the hosts have slots"},
      {0, "agent", BASE_OPTION_TEXT, &settings->agent, "COMMAND", "what runs a command on {host}"},
      {0, "address", BASE_OPTION_TEXT, &settings->address, "ADDRESS",
       "MASTER_ADDR, at which rank 0 listens; otherwise the first host is asked"},
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
      {0, "knobs", BASE_OPTION_FLAG, &raw->knobs, NULL,
       "print the environment variables of the library with their values, and exit"},
      {0, "print-address", BASE_OPTION_FLAG, &settings->print_address, NULL,
       "print an address and a free port of this host, and run nothing"},
      {0, "first-rank", BASE_OPTION_INTEGER, &raw->first_rank, "RANK",
       "as the agent of another collrun: the number of the first rank", 0, COLLRUN_RANKS_MAX - 1},
      {0, "world-size", BASE_OPTION_INTEGER, &raw->world_size, "N",
       "as the agent of another collrun: the number of ranks of all hosts", 0, COLLRUN_RANKS_MAX},
      {0, "folder", BASE_OPTION_TEXT, &raw->folder, "DIR", "the working folder of the ranks"},
  };
  const base_command_t command = {
      "collrun",         "-n N | --hosts A:N,B:N [options] PROGRAM [ARGUMENTS]",
      summary,           examples,
      options,           sizeof options / sizeof options[0],
      raw->mpirun.table, raw->mpirun.count};
  return base_options_parse(&command, argc, argv, first, help_printed);
}

/* -npernode: of all hosts, or of this machine. */
static coll_status_t apply_per_host(const raw_t *raw, collrun_settings_t *settings) {
  int slots = (int)raw->mpirun.per_host;
  if (slots == 0) return COLL_OK;
  if (settings->hosts.count > 0) return collrun_hosts_set_slots(&settings->hosts, slots);
  if (raw->ranks == 0 || raw->ranks == slots) {
    settings->ranks = slots;
    return COLL_OK;
  }
  return base_fail(COLL_ERROR_INVALID, "-n %d, but %d on this host: give one of them",
                   (int)raw->ranks, slots);
}

static coll_status_t read_hosts(const raw_t *raw, collrun_settings_t *settings) {
  if (raw->hosts != NULL && raw->hostfile != NULL) {
    return base_fail(COLL_ERROR_INVALID, "--hosts and --hostfile exclude each other");
  }
  if (raw->hosts != NULL) COLL_TRY(collrun_hosts_parse(raw->hosts, &settings->hosts));
  if (raw->hostfile != NULL) {
    COLL_TRY(base_tool_input(collrun_hosts_read(raw->hostfile, &settings->hosts)));
  }
  settings->ranks = (int)raw->ranks;
  COLL_TRY(apply_per_host(raw, settings));
  if (settings->hosts.count > 0) settings->ranks = settings->hosts.ranks;
  if (raw->ranks == 0 || raw->ranks == settings->ranks) return COLL_OK;
  if (raw->ranks > settings->ranks && !raw->mpirun.oversubscribe) {
    return base_fail(COLL_ERROR_INVALID,
                     "-n %d, but the hosts have %d slots: give them more, as in a:4, or add "
                     "--oversubscribe",
                     (int)raw->ranks, settings->ranks);
  }
  settings->ranks = (int)raw->ranks;
  collrun_hosts_fill(&settings->hosts, settings->ranks);
  return COLL_OK;
}

static coll_status_t check(const raw_t *raw, const collrun_settings_t *settings, bool has_program) {
  if (settings->ranks == 0) {
    return base_fail(COLL_ERROR_INVALID, "give the number of ranks: collrun -n 4 PROGRAM");
  }
  if (!has_program && !settings->show_layout) {
    return base_fail(COLL_ERROR_INVALID, "no program given: collrun -n %d PROGRAM",
                     settings->ranks);
  }
  if (settings->prefix && settings->output != NULL) {
    return base_fail(COLL_ERROR_INVALID,
                     "--prefix and --output exclude each other: files need no prefix");
  }
  if (raw->first_rank > 0 && raw->world_size == 0) {
    return base_fail(COLL_ERROR_INVALID,
                     "--first-rank %d is given but --world-size is not: give both, or neither",
                     (int)raw->first_rank);
  }
  if (raw->world_size > 0 && raw->first_rank + settings->ranks > raw->world_size) {
    return base_fail(COLL_ERROR_INVALID, "ranks %d to %d do not exist among %d",
                     (int)raw->first_rank, (int)raw->first_rank + settings->ranks - 1,
                     (int)raw->world_size);
  }
  return COLL_OK;
}

static coll_status_t finish(const raw_t *raw, collrun_settings_t *settings) {
  settings->port = (int)raw->port;
  settings->grace_ms = (int)raw->grace_ms;
  settings->map = (topo_map_t)raw->map;
  settings->is_agent = raw->world_size > 0;
  settings->first_rank = (int)raw->first_rank;
  settings->world_size = settings->is_agent ? (int)raw->world_size : settings->ranks;
  if (raw->folder == NULL || chdir(raw->folder) == 0) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "--folder %s", raw->folder);
}

coll_status_t collrun_settings_parse(int argc, char **argv, collrun_settings_t *settings,
                                     bool *help_printed) {
  raw_t raw = {.grace_ms = 2500};
  collrun_settings_t parsed = {.agent = "ssh -o BatchMode=yes {host}"};
  int first;
  COLL_TRY(base_knob_word(&map_knob, &raw.map));
  COLL_TRY(parse(argc, argv, &raw, &parsed, &first, help_printed));
  if (raw.knobs && !*help_printed) {
    base_tool_print_knobs(coll_knob_get);
    *help_printed = true;
  }
  if (*help_printed) return COLL_OK;
  parsed.bind = raw.bind == 0;
  COLL_TRY(collrun_mpirun_apply(&raw.mpirun, &parsed.bind));
  parsed.exports = raw.mpirun.exports;
  coll_status_t status = parsed.print_address ? COLL_OK : read_hosts(&raw, &parsed);
  if (status == COLL_OK && !parsed.print_address) status = check(&raw, &parsed, first < argc);
  if (status == COLL_OK) status = finish(&raw, &parsed);
  if (status != COLL_OK) {
    collrun_settings_free(&parsed);
    return status;
  }
  parsed.program = argv + first;
  *settings = parsed;
  return COLL_OK;
}

void collrun_settings_free(collrun_settings_t *settings) {
  collrun_hosts_free(&settings->hosts);
}
