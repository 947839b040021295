/*
 * The knobs of this room, and what a config has in their place.
 */
#include "comm/settings.h"

#include <stddef.h>
#include <string.h>

#include "base/knob.h"
#include "comm/algorithms.h"

#define NS_PER_MS UINT64_C(1000000)

static const char *const tune_words[] = {"auto", "builtin", NULL};
enum { WORD_AUTO, WORD_BUILTIN };

static const char *const get_words[] = {"auto", "off", NULL};
enum { WORD_GET_AUTO, WORD_GET_OFF };

/* In the order of cuda_engine_t. */
static const char *const engine_words[] = {"auto", "kernel", "copy", "staged", NULL};

static const base_knob_t knobs[] = {
    {.name = "COLL_TIMEOUT_MS",
     .kind = BASE_KNOB_INTEGER,
     .fallback = "60000",
     .min = 1,
     .max = 86400000,
     .help = "milliseconds to wait for the other ranks when a communicator is created"},
    {.name = "COLL_INTERFACE_ADDRESS",
     .kind = BASE_KNOB_TEXT,
     .fallback = "",
     .help = "numeric address at which coll_unique_id_create listens, and rank 0 of a job whose "
             "ranks meet through their launcher; empty: at all addresses"},
    {.name = "COLL_TUNE",
     .kind = BASE_KNOB_WORD,
     .fallback = "auto",
     .words = tune_words,
     .help = "the costs by which algorithms are chosen: auto (measured on rank 0's "
             "machine, and between hosts) or builtin (the same on every machine)"},
    {.name = "COLL_ALGO",
     .kind = BASE_KNOB_TEXT,
     .fallback = "",
     .help = "algorithms that are used where they support a call, in place of what the library "
             "chooses: allreduce=ring,broadcast=chain (names: collplan list); must be the same on "
             "all ranks"},
    {.name = "COLL_REPRODUCIBLE",
     .kind = BASE_KNOB_INTEGER,
     .fallback = "0",
     .max = 1,
     .help = "1: the bits of a reduction depend only on values, dtype, op and the number of "
             "ranks, not on machine, memory or algorithm; must be the same on all ranks"},
    {.name = "COLL_HANG_MS",
     .kind = BASE_KNOB_INTEGER,
     .fallback = "30000",
     .max = 86400000,
     .help = "milliseconds that a call waits before it reports on standard error which ranks it "
             "waits for; 0: never"},
    {.name = "COLL_CALL_TIMEOUT_MS",
     .kind = BASE_KNOB_INTEGER,
     .fallback = "0",
     .max = 86400000,
     .help = "milliseconds that a call waits before it fails and ends the communicator on all "
             "ranks; 0: never"},
    {.name = "COLL_GET",
     .kind = BASE_KNOB_WORD,
     .fallback = "auto",
     .words = get_words,
     .help = "whether ranks read buffers that are not memory of coll_mem_alloc directly from their "
             "peers' processes: auto (where the system permits it and it is faster) or off"},
    {.name = "COLL_TOPO_FILE",
     .kind = BASE_KNOB_TEXT,
     .fallback = "",
     .help =
         "a topology (JSON of colltopo, or XML of NCCL or hwloc): the library behaves as if the "
         "ranks were on its hosts, filled evenly; must be the same on all ranks"},
    {.name = "COLL_TOPO_MAP",
     .kind = BASE_KNOB_WORD,
     .fallback = "by-host",
     .words = topo_map_words,
     .help = "how the ranks are given to the hosts of COLL_TOPO_FILE: by-host (contiguous blocks), "
             "by-rail (in turn) or grid (tiles of a process grid); must be the same on all ranks"},
    {.name = "COLL_TOPO_PACED",
     .kind = BASE_KNOB_INTEGER,
     .fallback = "0",
     .max = 1,
     .help = "1: messages take as long as the links of COLL_TOPO_FILE do, to measure on a network "
             "that is not there; must be the same on all ranks"},
    {.name = "COLL_CUDA_ENGINE",
     .kind = BASE_KNOB_WORD,
     .fallback = "auto",
     .words = engine_words,
     .help =
         "what carries out calls on GPUs of a host: kernel, copy (the GPU's copy engines, without "
         "graphs), staged (the host, through pinned memory) or auto (staged if GPUs cannot access "
         "each other's memory, copy if two processes share a GPU without MPS, else kernel); must "
         "be the same on all ranks"},
    {.name = "COLL_CUDA_BLOCKS",
     .kind = BASE_KNOB_INTEGER,
     .fallback = "0",
     .max = 65535,
     .help =
         "blocks that a rank's kernel on a GPU has at most; the communicators of a process take "
         "theirs from those that the GPU keeps resident, for as long as they live; 0: a "
         "quarter of the GPU's multiprocessors, and less the more communicators there are"},
    {.name = "COLL_CUDA_PROTOCOLS",
     .kind = BASE_KNOB_TEXT,
     .fallback = "simple,ll",
     .help = "how the kernel's messages between GPUs may travel, a list: simple (data, then a "
             "flag; always there), ll (small calls: a flag in every 8 bytes), ll128 (calls of "
             "middle size, on one GPU or over NVLink: a flag in every 128 bytes; has not run on "
             "GPUs yet); must be the same on all ranks"},
    {.name = "COLL_DEBUG",
     .kind = BASE_KNOB_INTEGER,
     .fallback = "0",
     .max = 1,
     .help =
         "1: report on standard error what this machine is, how the ranks of a communicator are "
         "grouped, and how they access their peers' memory"},
};

enum {
  KNOB_TIMEOUT,
  KNOB_ADDRESS,
  KNOB_TUNE,
  KNOB_ALGO,
  KNOB_REPRODUCIBLE,
  KNOB_HANG,
  KNOB_CALL_TIMEOUT,
  KNOB_GET,
  KNOB_TOPO_FILE,
  KNOB_TOPO_MAP,
  KNOB_TOPO_PACED,
  KNOB_CUDA_ENGINE,
  KNOB_CUDA_BLOCKS,
  KNOB_CUDA_PROTOCOLS,
  KNOB_DEBUG,
  KNOB_COUNT
};

_Static_assert(sizeof knobs / sizeof knobs[0] == KNOB_COUNT, "one name per knob");

const base_knob_t *comm_knob(int index) {
  return index >= 0 && index < KNOB_COUNT ? &knobs[index] : NULL;
}

#define CONFIG_BYTES_MIN (offsetof(coll_comm_config_t, reserved) + sizeof(int))

/* Copies the config; fields that a shorter one lacks are as in COLL_COMM_CONFIG_INIT, and those
 * that a longer one has besides, of a later version, are not read. */
static coll_status_t read_config(const coll_comm_config_t *config, coll_comm_config_t *full) {
  *full = (coll_comm_config_t)COLL_COMM_CONFIG_INIT;
  if (config == NULL) return COLL_OK;
  if (config->struct_bytes < CONFIG_BYTES_MIN || config->create_timeout_ms < 0) {
    return base_fail(COLL_ERROR_INVALID,
                     "the communicator's config is invalid: start from COLL_COMM_CONFIG_INIT, "
                     "and set no negative timeout");
  }
  size_t bytes = config->struct_bytes < sizeof *full ? config->struct_bytes : sizeof *full;
  memcpy(full, config, bytes);
  if (full->reserved != 0) {
    return base_fail(COLL_ERROR_INVALID,
                     "the communicator's config has reserved %d: start from COLL_COMM_CONFIG_INIT",
                     full->reserved);
  }
  if (full->blocking == 0 || full->blocking == 1) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "the communicator's config has blocking %d: give 1 (creation returns when it is "
                   "done) or 0 (it goes on in the background)",
                   full->blocking);
}

/* In the config 0 means the knob's value and a negative value means no limit. */
static coll_status_t read_limit(int knob, int configured_ms, uint64_t *limit_ns) {
  int64_t limit_ms;
  COLL_TRY(base_knob_integer(&knobs[knob], &limit_ms));
  if (configured_ms != 0 && !base_knob_is_set(&knobs[knob])) {
    limit_ms = configured_ms > 0 ? configured_ms : 0;
  }
  *limit_ns = (uint64_t)limit_ms * NS_PER_MS;
  return COLL_OK;
}

static coll_status_t read_reproducible(int configured, int32_t *reproducible) {
  int64_t value;
  COLL_TRY(base_knob_integer(&knobs[KNOB_REPRODUCIBLE], &value));
  if (configured < -1 || configured > 1) {
    return base_fail(COLL_ERROR_INVALID,
                     "the communicator's config has reproducible %d: give 1 (yes), -1 (no) or 0 "
                     "(the value of COLL_REPRODUCIBLE)",
                     configured);
  }
  if (configured != 0) value = configured > 0;
  *reproducible = (int32_t)value;
  return COLL_OK;
}

static coll_status_t read_access(comm_access_t *access) {
  int word;
  int64_t debug;
  COLL_TRY(base_knob_word(&knobs[KNOB_GET], &word));
  COLL_TRY(base_knob_integer(&knobs[KNOB_DEBUG], &debug));
  *access = (comm_access_t){.get = word == WORD_GET_AUTO, .reports = debug != 0};
  return COLL_OK;
}

static coll_status_t read_map(topo_map_t *map) {
  int word;
  COLL_TRY(base_knob_word(&knobs[KNOB_TOPO_MAP], &word));
  *map = (topo_map_t)word;
  return COLL_OK;
}

static coll_status_t read_tune(const char *configured, bool *measures) {
  int word;
  COLL_TRY(base_knob_choose_word(&knobs[KNOB_TUNE], configured, &word));
  *measures = word == WORD_AUTO;
  return COLL_OK;
}

static coll_status_t read_algorithms(const char *configured, comm_inherited_t *settings) {
  char source[BASE_KNOB_SOURCE_BYTES];
  const char *text;
  COLL_TRY(base_knob_choose_text(&knobs[KNOB_ALGO], configured, &text));
  return comm_algorithms_read(text, base_knob_source(&knobs[KNOB_ALGO], configured, source),
                              settings->algorithms);
}

static transport_config_t transport_config_of(const coll_comm_config_t *config) {
  return (transport_config_t){
      .transports = config->transports, .host = config->host_id, .interfaces = config->interfaces};
}

static coll_status_t read_inherited(const coll_comm_config_t *full, comm_inherited_t *settings) {
  const transport_config_t config = transport_config_of(full);
  COLL_TRY(transport_settings_read(&config, &settings->transport));
  return read_algorithms(full->algorithms, settings);
}

/* What the config of a split names; the rest stays as its parent has it. */
static coll_status_t change_inherited(const coll_comm_config_t *full, comm_inherited_t *settings) {
  const transport_config_t config = transport_config_of(full);
  COLL_TRY(transport_settings_change(&config, &settings->transport));
  return full->algorithms != NULL ? read_algorithms(full->algorithms, settings) : COLL_OK;
}

static coll_status_t read_flag(int knob, bool *set) {
  int64_t value;
  COLL_TRY(base_knob_integer(&knobs[knob], &value));
  *set = value != 0;
  return COLL_OK;
}

coll_status_t comm_settings_read(const coll_comm_config_t *config,
                                 const comm_calibration_t *calibration, comm_settings_t *settings) {
  coll_comm_config_t full;
  comm_settings_t made = {.calibration = calibration};
  COLL_TRY(read_config(config, &full));
  COLL_TRY(base_knob_text(&knobs[KNOB_TOPO_FILE], &made.topo_file));
  COLL_TRY(read_limit(KNOB_TIMEOUT, full.create_timeout_ms, &made.timeout_ns));
  COLL_TRY(read_limit(KNOB_HANG, full.hang_ms, &made.limits.hang_ns));
  COLL_TRY(read_limit(KNOB_CALL_TIMEOUT, full.call_timeout_ms, &made.limits.timeout_ns));
  COLL_TRY(read_reproducible(full.reproducible, &made.agreed.reproducible));
  COLL_TRY(read_access(&made.access));
  COLL_TRY(read_inherited(&full, &made.inherited));
  made.agreed.algorithms = comm_algorithms_digest(made.inherited.algorithms);
  COLL_TRY(read_tune(full.tune, &made.measures));
  COLL_TRY(read_map(&made.topo_map));
  COLL_TRY(read_flag(KNOB_TOPO_PACED, &made.topo_paced));
  if (made.topo_paced && made.topo_file[0] == '\0') {
    return base_fail(COLL_ERROR_INVALID,
                     "COLL_TOPO_PACED=1 is set but COLL_TOPO_FILE is not: set both, or neither");
  }
  made.blocking = full.blocking != 0;
  made.device = cuda_driver_current();
  *settings = made;
  return COLL_OK;
}

coll_status_t comm_settings_read_split(const coll_comm_config_t *config,
                                       const struct coll_comm *parent, int device,
                                       comm_split_settings_t *settings) {
  coll_comm_config_t full;
  comm_split_settings_t made = {.limits = parent->watched.limits,
                                .blocking = !parent->nonblocking,
                                .inherited = parent->inherited};
  COLL_TRY(read_config(config, &full));
  COLL_TRY(change_inherited(&full, &made.inherited));
  COLL_TRY(read_limit(KNOB_TIMEOUT, full.create_timeout_ms, &made.timeout_ns));
  if (full.hang_ms != 0) COLL_TRY(read_limit(KNOB_HANG, full.hang_ms, &made.limits.hang_ns));
  if (full.call_timeout_ms != 0) {
    COLL_TRY(read_limit(KNOB_CALL_TIMEOUT, full.call_timeout_ms, &made.limits.timeout_ns));
  }
  if (full.reproducible != 0 && (full.reproducible > 0) != parent->reproducible) {
    return base_fail(COLL_ERROR_INVALID,
                     "the config of a split has reproducible %d, which the communicator that is "
                     "split is%s: leave it at 0",
                     full.reproducible, parent->reproducible ? "" : " not");
  }
  if (config != NULL) made.blocking = full.blocking != 0;
  made.device = device != CUDA_NO_DEVICE ? device : cuda_driver_current();
  *settings = made;
  return COLL_OK;
}

coll_status_t comm_engine_setting(cuda_engine_t *engine) {
  int word;
  COLL_TRY(base_knob_word(&knobs[KNOB_CUDA_ENGINE], &word));
  *engine = (cuda_engine_t)word;
  return COLL_OK;
}

coll_status_t comm_cuda_blocks_setting(uint32_t *blocks) {
  int64_t value;
  COLL_TRY(base_knob_integer(&knobs[KNOB_CUDA_BLOCKS], &value));
  *blocks = (uint32_t)value;
  return COLL_OK;
}

/* The bit of the word at `text`; 0: there is none of that name. */
static uint32_t protocol_of(const char *text, size_t length) {
  static const char *const names[] = {"simple", "ll", "ll128"}; /* of the bits, in their order */
  for (int i = 0; i < (int)(sizeof names / sizeof *names); i++) {
    if (strlen(names[i]) == length && strncmp(text, names[i], length) == 0) return 1u << i;
  }
  return 0;
}

coll_status_t comm_cuda_protocols_setting(uint32_t *protocols) {
  const char *text;
  *protocols = CUDA_PROTOCOL_SIMPLE;
  COLL_TRY(base_knob_text(&knobs[KNOB_CUDA_PROTOCOLS], &text));
  for (const char *at = text;; at++) {
    size_t length = strcspn(at, ",");
    uint32_t protocol = protocol_of(at, length);
    if (protocol == 0) {
      return base_fail(COLL_ERROR_INVALID,
                       "COLL_CUDA_PROTOCOLS is \"%s\": give one or more of simple, ll and ll128, "
                       "separated by commas",
                       text);
    }
    *protocols |= protocol;
    at += length;
    if (*at == '\0') return COLL_OK;
  }
}
