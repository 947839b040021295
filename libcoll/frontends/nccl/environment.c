/*
 * NCCL's environment variables, and lines for NCCL_DEBUG. The environment is read in the first call
 * of the process, where NCCL reads its own, and not changed: other threads may be reading it.
 */
#include "frontends/nccl/environment.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "frontends/nccl/interfaces.h"

/* 2.28.9: programs that find a later one let kernels of their own use windows and communicators on
 * the device, which are refused here. */
#define VERSION 22809
#define VALUE_BYTES 1024

extern char **environ;

/* ---- lines --------------------------------------------------------------------------------*/

static atomic_int log_level = -1; /* -1: not read yet */

void nccl_log_reset(void) {
  static const char *const names[] = {"VERSION", "WARN", "INFO", "ABORT", "TRACE", NULL};
  static const nccl_log_t levels[] = {NCCL_LOG_VERSION, NCCL_LOG_WARN, NCCL_LOG_INFO, NCCL_LOG_INFO,
                                      NCCL_LOG_INFO};
  const char *value = nccl_variable("NCCL_DEBUG");
  nccl_log_t level = NCCL_LOG_NONE;
  for (int i = 0; value != NULL && names[i] != NULL; i++) {
    if (strcasecmp(value, names[i]) == 0) level = levels[i];
  }
  atomic_store(&log_level, (int)level);
}

static bool is_logged(nccl_log_t level) {
  if (atomic_load_explicit(&log_level, memory_order_relaxed) < 0) nccl_log_reset();
  return (int)level <= atomic_load_explicit(&log_level, memory_order_relaxed);
}

void nccl_log(nccl_log_t level, const char *format, ...) {
  va_list arguments;
  char text[VALUE_BYTES + 256];
  if (!is_logged(level)) return;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "libcoll NCCL %s%s\n", level == NCCL_LOG_WARN ? "WARN " : "", text);
}

/* ---- variables ----------------------------------------------------------------------------*/

static bool is_on(const char *name) {
  const char *value = nccl_variable(name);
  return value != NULL && strcmp(value, "0") != 0 && value[0] != '\0';
}

/* How the value of a variable becomes that of another one; false: it has no equivalent. */
static bool copy(const char *value, char *out, size_t bytes) {
  return (size_t)snprintf(out, bytes, "%s", value) < bytes;
}

static bool off_if_disabled(const char *value, char *out, size_t bytes) {
  return strcmp(value, "0") != 0 && copy("off", out, bytes);
}

static bool one_if_info(const char *value, char *out, size_t bytes) {
  (void)value;
  return is_logged(NCCL_LOG_INFO) && copy("1", out, bytes);
}

/* The transports that NCCL_SHM_DISABLE, NCCL_IB_DISABLE and NCCL_NET leave. */
static bool transports(const char *value, char *out, size_t bytes) {
  const char *net = nccl_variable("NCCL_NET");
  bool shm = !is_on("NCCL_SHM_DISABLE");
  bool verbs = !is_on("NCCL_IB_DISABLE") && (net == NULL || strcasecmp(net, "Socket") != 0);
  (void)value;
  if (shm && verbs) return false;
  snprintf(out, bytes, "%s%stcp", shm ? "shm," : "", verbs ? "verbs," : "");
  return true;
}

/* A list of NCCL's names, or after '^' of those that it shall not use. Ordinary messages are always
 * there. LL128 is off unless it is named, as it is in libcoll. */
static bool protocols(const char *value, char *out, size_t bytes) {
  char text[VALUE_BYTES];
  bool excludes = value[0] == '^', ll = excludes, ll128 = false;
  if (!copy(value + excludes, text, sizeof text)) return false;
  char *rest = NULL;
  for (char *name = strtok_r(text, ",", &rest); name != NULL; name = strtok_r(NULL, ",", &rest)) {
    if (strcasecmp(name, "LL") == 0) {
      ll = !excludes;
    } else if (strcasecmp(name, "LL128") == 0) {
      ll128 = !excludes;
    } else if (strcasecmp(name, "Simple") != 0) {
      return false;
    }
  }
  return (size_t)snprintf(out, bytes, "simple%s%s", ll ? ",ll" : "", ll128 ? ",ll128" : "") < bytes;
}

typedef struct variable {
  const char *name, *target; /* target NULL: the front end itself reads it */
  bool (*translate)(const char *value, char *out, size_t bytes);
} variable_t;

static const variable_t variables[] = {
    {"NCCL_DEBUG", "COLL_DEBUG", one_if_info},
    {"NCCL_SOCKET_IFNAME", "COLL_INTERFACES", nccl_list_translate},
    {"NCCL_IB_HCA", "COLL_IB_HCA", nccl_list_translate},
    {"NCCL_IB_GID_INDEX", "COLL_IB_GID_INDEX", copy},
    {"NCCL_IB_TC", "COLL_IB_TC", copy},
    {"NCCL_IB_SL", "COLL_IB_SL", copy},
    {"NCCL_IB_TIMEOUT", "COLL_IB_TIMEOUT", copy},
    {"NCCL_IB_RETRY_CNT", "COLL_IB_RETRY_CNT", copy},
    {"NCCL_IB_DISABLE", "COLL_TRANSPORTS", transports},
    {"NCCL_SHM_DISABLE", "COLL_TRANSPORTS", transports},
    {"NCCL_NET", "COLL_TRANSPORTS", transports},
    {"NCCL_P2P_DISABLE", "COLL_GET", off_if_disabled},
    {"NCCL_HOSTID", "COLL_HOST_ID", copy},
    {"NCCL_MAX_CTAS", "COLL_CUDA_BLOCKS", copy},
    {"NCCL_PROTO", "COLL_CUDA_PROTOCOLS", protocols},
    {"NCCL_ALGO", NULL, NULL},
    {"NCCL_COMM_BLOCKING", NULL, NULL},
    {"NCCL_COMM_ID", NULL, NULL},
    {"NCCL_CONF_FILE", NULL, NULL},
};

#define VARIABLE_COUNT ((int)(sizeof variables / sizeof variables[0]))

/* Sets a default; what it comes from stands in messages about a wrong value. */
static void set_default(const char *target, const char *value, const char *name,
                        const nccl_config_line_t *line) {
  char source[VALUE_BYTES];
  snprintf(source, sizeof source, "%s%s%s", name, line != NULL ? " of " : "",
           line != NULL ? line->source : "");
  if (coll_knob_default(target, value, source) != COLL_OK) {
    nccl_log(NCCL_LOG_WARN, "%s: %s", source, coll_last_error(NULL));
    return;
  }
  nccl_log(NCCL_LOG_INFO, "%s=%s: %s=%s", source, nccl_variable(name), target, value);
}

/* COLL_* in the environment comes first, then NCCL_* there, then COLL_* and NCCL_* of the files. */
static void apply(const variable_t *variable) {
  char out[VALUE_BYTES];
  const char *value = nccl_variable(variable->name), *target = variable->target;
  if (value == NULL || value[0] == '\0' || target == NULL) return; /* empty is unset for NCCL */
  const nccl_config_line_t *line = nccl_config_line(variable->name);
  const char *set = line != NULL ? nccl_variable(target) : getenv(target);
  if (set != NULL) {
    nccl_log(NCCL_LOG_INFO, "%s=%s: %s=%s is set, too, and is used", variable->name, value, target,
             set);
    return;
  }
  if (variable->translate(value, out, sizeof out)) set_default(target, out, variable->name, line);
}

/* COLL_* in the files. */
static void apply_files(void) {
  const char *missing = nccl_config_missing();
  if (missing != NULL) {
    nccl_log(NCCL_LOG_WARN, "NCCL_CONF_FILE=%s cannot be read and is ignored", missing);
  }
  for (const nccl_config_line_t *line = nccl_config_lines(); line != NULL; line = line->next) {
    bool is_ours = strncmp(line->name, "COLL_", 5) == 0 && getenv(line->name) == NULL;
    if (!is_ours || strcmp(line->name, "COLL_NCCL_VERSION") == 0) continue;
    set_default(line->name, line->value, line->name, line);
  }
}

static bool is_known(const char *name, size_t length) {
  for (int i = 0; i < VARIABLE_COUNT; i++) {
    if (strlen(variables[i].name) == length && strncmp(name, variables[i].name, length) == 0) {
      return true;
    }
  }
  return false;
}

static void report_ignored(void) {
  for (char **each = environ; *each != NULL; each++) {
    size_t length = strcspn(*each, "=");
    if (strncmp(*each, "NCCL_", 5) != 0 || is_known(*each, length)) continue;
    nccl_log(NCCL_LOG_INFO, "%s is ignored: it has no equivalent here", *each);
  }
  for (const nccl_config_line_t *line = nccl_config_lines(); line != NULL; line = line->next) {
    if (strncmp(line->name, "COLL_", 5) == 0 || is_known(line->name, strlen(line->name))) continue;
    nccl_log(NCCL_LOG_INFO, "'%s' of %s is ignored: %s", line->name, line->source,
             strpbrk(line->name, " \t") != NULL ? "the space belongs to the name"
                                                : "it has no equivalent here");
  }
}

static void read_once(void) {
  int major, minor, patch, version = nccl_version();
  coll_version(&major, &minor, &patch);
  nccl_log(NCCL_LOG_VERSION, "%d.%d.%d (libcoll %d.%d.%d)", version / 10000, version / 100 % 100,
           version % 100, major, minor, patch);
  apply_files();
  for (int i = 0; i < VARIABLE_COUNT; i++) apply(&variables[i]);
  if (is_logged(NCCL_LOG_INFO)) report_ignored();
}

void nccl_environment_read(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, read_once);
}

/* The version that COLL_NCCL_VERSION asks for; 0: it is wrong. */
static int asked_version(const char *value) {
  char *end;
  long version = strtol(value, &end, 10);
  return *end == '\0' && version >= 2000 && version < 1000000 ? (int)version : 0;
}

bool nccl_version_is_right(void) {
  const char *value = nccl_variable("COLL_NCCL_VERSION");
  return value == NULL || asked_version(value) != 0;
}

int nccl_version(void) {
  const char *value = nccl_variable("COLL_NCCL_VERSION");
  int asked = value != NULL ? asked_version(value) : 0;
  return asked != 0 ? asked : VERSION;
}

bool nccl_environment_blocking(bool otherwise) {
  const char *value = nccl_variable("NCCL_COMM_BLOCKING");
  return value != NULL && value[0] != '\0' ? is_on("NCCL_COMM_BLOCKING") : otherwise;
}

const char *nccl_environment_name(int index) {
  int distinct = 0;
  for (int i = 0; i < VARIABLE_COUNT; i++) {
    if (i > 0 && strcmp(variables[i].name, variables[i - 1].name) == 0) continue;
    if (distinct++ == index) return variables[i].name;
  }
  return NULL;
}
