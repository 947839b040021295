/*
 * Loads UCX without disturbing the program. UCX takes settings from UCX_* variables; those that
 * follow are the library's defaults only where the user sets nothing.
 *
 *  - Handlers of SIGSEGV and other signals, which UCX installs when it is loaded, are removed.
 *  - mmap and munmap of the C library are not patched, and so registered memory is not cached.
 *  - Shared memory is off (UCX_TLS): ranks that share a host have a better one, and between network
 *    namespaces, which UCX takes for one host, its wake-ups are lost.
 *  - A frame is copied, not fetched by the receiver, and is one segment over TCP, and the sockets
 *    have room for what a rank may send that then makes no calls for a while: all else would wait
 *    for its next call.
 *  - UCX writes nothing to standard error, for failures are reported by libcoll.
 */
#include "transport/net/wire/ucx/lib.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucm/api/ucm.h>

#define API_MAJOR 1
#define API_MINOR 11

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ucx_lib_t loaded;
static bool is_loaded;

static const struct {
  const char *name, *variable, *value;
} settings[] = {
    {"TLS", "UCX_TLS", "^sm"},
    {"TCP_SNDBUF", "UCX_TCP_SNDBUF", "4M"},
    {"TCP_TX_SEG_SIZE", "UCX_TCP_TX_SEG_SIZE", "80K"},
    {"TCP_RX_SEG_SIZE", "UCX_TCP_RX_SEG_SIZE", "80K"},
    {"SNDBUF", "UCX_TCP_SNDBUF", "4M"}, /* older versions, such as 1.13, know these */
    {"TX_SEG_SIZE", "UCX_TCP_TX_SEG_SIZE", "80K"},
    {"RX_SEG_SIZE", "UCX_TCP_RX_SEG_SIZE", "80K"},
    {"RNDV_THRESH", "UCX_RNDV_THRESH", "inf"},
    {"ZCOPY_THRESH", "UCX_ZCOPY_THRESH", "inf"},
    {"RCACHE_ENABLE", "UCX_RCACHE_ENABLE", "n"},
};

/* Sets a pointer to a function, which C cannot convert from a pointer to data. */
static bool find(void *library, const char *name, void *function) {
  void *symbol = dlsym(library, name);
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

static coll_status_t find_all(void *library, const char *path) {
  const char *missing = NULL;
#define FIND(name) missing = find(library, #name, &loaded.name) ? missing : #name;
  UCX_FUNCTIONS(FIND)
#undef FIND
  if (missing == NULL) return COLL_OK;
  return base_fail(COLL_ERROR_UNSUPPORTED, "%s has no %s: UCX %d.%d or later is needed", path,
                   missing, API_MAJOR, API_MINOR);
}

/* UCX patches the C library when libucs is loaded, whose first call of libucm does it once. Here
 * that call comes before, without events. */
static void keep_mmap(const char *path) {
  char ucm_path[PATH_MAX];
  void (*init)(void);
  ucm_global_config_t *options;
  const char *slash = strrchr(path, '/');
  int folder_bytes = slash != NULL ? (int)(slash + 1 - path) : 0;
  if (getenv("UCX_MEM_EVENTS") != NULL) return;
  snprintf(ucm_path, sizeof ucm_path, "%.*slibucm.so.0", folder_bytes, path);
  void *ucm =
      dlopen(ucm_path, RTLD_LAZY | RTLD_LOCAL); /* lazy: it needs libucs, which comes later */
  if (ucm == NULL || !find(ucm, "ucm_library_init", &init) ||
      !find(ucm, "ucm_global_opts", &options)) {
    return;
  }
  if (options->enable_events == 1) options->enable_events = 0;
  init();
}

/* What UCX does by itself once it is loaded, unless the user has set it. */
static void quiet(void *library) {
  void (*disable)(void);
  ucs_status_t (*set)(const char *name, const char *value);
  if (getenv("UCX_HANDLE_ERRORS") == NULL && getenv("UCX_ERROR_SIGNALS") == NULL &&
      find(library, "ucs_debug_disable_signals", &disable)) {
    disable();
  }
  if (getenv("UCX_LOG_LEVEL") == NULL && find(library, "ucs_global_opts_set_value", &set)) {
    (void)set("LOG_LEVEL", "fatal");
  }
}

static coll_status_t load(const char *path) {
  void *own = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (own == NULL) keep_mmap(path);
  void *library = own != NULL ? own : dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    return base_fail(
        COLL_ERROR_UNSUPPORTED,
        "%s; install UCX (Debian: libucx0), or set COLL_UCX_LIBRARY to its libucp.so.0", dlerror());
  }
  COLL_TRY(find_all(library, path));
  if (own == NULL) quiet(library); /* else the program uses UCX itself */
  is_loaded = true;
  return COLL_OK;
}

coll_status_t ucx_lib_load(const base_knob_t *path, const ucx_lib_t **lib) {
  const char *file;
  COLL_TRY(base_knob_text(path, &file));
  pthread_mutex_lock(&lock);
  coll_status_t status = is_loaded ? COLL_OK : load(file);
  pthread_mutex_unlock(&lock);
  *lib = &loaded;
  return status;
}

coll_status_t ucx_lib_init(const ucx_lib_t *lib, ucp_context_h *context) {
  ucp_config_t *config;
  const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                               .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP};
  ucs_status_t status = lib->ucp_config_read(NULL, NULL, &config);
  if (status != UCS_OK) {
    return base_fail(COLL_ERROR_SYSTEM, "UCX's settings: %s", lib->ucs_status_string(status));
  }
  for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
    if (getenv(settings[i].variable) != NULL) continue;
    (void)lib->ucp_config_modify(config, settings[i].name, settings[i].value);
  }
  status = lib->ucp_init_version(API_MAJOR, API_MINOR, &params, config, context);
  lib->ucp_config_release(config);
  if (status == UCS_OK) return COLL_OK;
  return base_fail(COLL_ERROR_SYSTEM, "UCX cannot start: %s", lib->ucs_status_string(status));
}
