/* Most of them are other names of collrun's own. */
#include "tools/collrun/mpirun_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "tools/collrun/hosts.h"

/* ---- the table ------------------------------------------------------------------------------*/

static void add(collrun_mpirun_t *mpirun, char letter, const char *name, base_option_kind_t kind,
                void *value, const char *value_name) {
  base_option_t *option = &mpirun->table[mpirun->count++];
  *option = (base_option_t){
      .letter = letter, .name = name, .kind = kind, .value = value, .value_name = value_name};
  if (kind == BASE_OPTION_INTEGER) {
    option->min = 1;
    option->max = COLLRUN_RANKS_MAX;
  }
}

static void add_names(collrun_mpirun_t *mpirun, const char *const names[], base_option_kind_t kind,
                      void *value, const char *value_name) {
  for (; *names != NULL; names++) add(mpirun, 0, *names, kind, value, value_name);
}

void collrun_mpirun_list(collrun_mpirun_t *mpirun, const collrun_mpirun_same_t *same) {
  static const char *const ranks[] = {"np", "nproc-per-node", NULL};
  static const char *const files[] = {"machinefile", "machine-file", NULL};
  static const char *const folders[] = {"wdir", "wd", NULL};
  static const char *const per_host[] = {"ppn", "npernode", NULL};
  static const char *const prefixes[] = {"tag-output", "prepend-rank", NULL};
  static const char *const variables[] = {"genv", "env", NULL};
  static const char *const settings[] = {"mca", "prtemca", "pmixmca", NULL};
  static const char *const unused[] = {"allow-run-as-root",
                                       "report-bindings",
                                       "display-map",
                                       "display-allocation",
                                       "quiet",
                                       "verbose",
                                       NULL};
  *mpirun = (collrun_mpirun_t){0};
  add_names(mpirun, ranks, BASE_OPTION_INTEGER, same->ranks, "N");
  add(mpirun, 'H', "host", BASE_OPTION_TEXT, same->hosts, "A:N,B:N");
  add_names(mpirun, files, BASE_OPTION_TEXT, same->hostfile, "FILE");
  add(mpirun, 'f', NULL, BASE_OPTION_TEXT, same->hostfile, "FILE");
  add_names(mpirun, folders, BASE_OPTION_TEXT, same->folder, "DIR");
  add_names(mpirun, per_host, BASE_OPTION_INTEGER, &mpirun->per_host, "N");
  add(mpirun, 'N', NULL, BASE_OPTION_INTEGER, &mpirun->per_host, "N");
  add_names(mpirun, prefixes, BASE_OPTION_FLAG, same->prefix, NULL);
  add(mpirun, 'l', NULL, BASE_OPTION_FLAG, same->prefix, NULL);
  add(mpirun, 0, "output-filename", BASE_OPTION_TEXT, same->output, "DIR");
  add(mpirun, 'x', NULL, BASE_OPTION_LIST, &mpirun->exports, "NAME[=VALUE]");
  add_names(mpirun, variables, BASE_OPTION_PAIR, &mpirun->pairs, "NAME VALUE");
  add_names(mpirun, settings, BASE_OPTION_PAIR, &mpirun->settings, "NAME VALUE");
  add(mpirun, 0, "bind-to", BASE_OPTION_TEXT, &mpirun->bind, "WHAT");
  add(mpirun, 0, "map-by", BASE_OPTION_TEXT, &mpirun->map, "WHAT");
  add(mpirun, 0, "oversubscribe", BASE_OPTION_FLAG, &mpirun->oversubscribe, NULL);
  add_names(mpirun, unused, BASE_OPTION_FLAG, &mpirun->unused, NULL);
  add(mpirun, 'q', NULL, BASE_OPTION_FLAG, &mpirun->unused, NULL);
  add(mpirun, 'v', NULL, BASE_OPTION_FLAG, &mpirun->unused, NULL);
}

/* ---- cores and places -----------------------------------------------------------------------*/

static bool is_word(const char *text, size_t length, const char *const words[]) {
  for (; *words != NULL; words++) {
    if (strlen(*words) == length && strncmp(text, *words, length) == 0) return true;
  }
  return false;
}

/* "core:overload-allowed": what follows the colon is about hosts with too few cores. */
static coll_status_t apply_bind(const char *text, bool *bind) {
  static const char *const cores[] = {"core", "hwthread", NULL};
  static const char *const larger[] = {"socket",  "package", "numa", "board", "l1cache",
                                       "l2cache", "l3cache", "slot", "user",  NULL};
  size_t length = strcspn(text, ":");
  if (is_word(text, length, (const char *const[]){"none", NULL})) {
    *bind = false;
    return COLL_OK;
  }
  if (is_word(text, length, larger)) {
    fprintf(stderr, "collrun: --bind-to %s: ranks are bound to cores, not to more\n", text);
  } else if (!is_word(text, length, cores)) {
    return base_fail(COLL_ERROR_INVALID, "--bind-to %s: give core or none", text);
  }
  *bind = true;
  return COLL_OK;
}

/* "ppr:2:node": so many ranks on each host. */
static coll_status_t apply_per_host(collrun_mpirun_t *mpirun) {
  char number[16];
  const char *count = mpirun->map + 4;
  size_t length = strcspn(count, ":");
  base_text_word(count, length, number, sizeof number);
  if (base_text_integer(number, 1, COLLRUN_RANKS_MAX, &mpirun->per_host) &&
      (strcmp(count + length, ":node") == 0)) {
    return COLL_OK;
  }
  return base_fail(COLL_ERROR_INVALID, "--map-by %s: give ppr:N:node, such as ppr:4:node",
                   mpirun->map);
}

static coll_status_t apply_map(collrun_mpirun_t *mpirun) {
  static const char *const in_order[] = {"", "slot", "core", "hwthread", NULL};
  static const char *const in_turn[] = {"node", "socket", "package", "numa", "board", NULL};
  size_t length = strcspn(mpirun->map, ":");
  if (strncmp(mpirun->map, "ppr:", 4) == 0) return apply_per_host(mpirun);
  if (strcasestr(mpirun->map + length, "oversubscribe") != NULL) {
    mpirun->oversubscribe = strcasestr(mpirun->map, "nooversubscribe") == NULL;
  }
  if (is_word(mpirun->map, length, in_order)) return COLL_OK;
  if (!is_word(mpirun->map, length, in_turn)) {
    return base_fail(COLL_ERROR_INVALID, "--map-by %s: give slot, or ppr:N:node", mpirun->map);
  }
  fprintf(stderr,
          "collrun: --map-by %s: hosts are filled in order; -npernode N starts N ranks on each\n",
          mpirun->map);
  return COLL_OK;
}

/* ---- variables ------------------------------------------------------------------------------*/

/* The ranks inherit collrun's environment. */
static coll_status_t set_variable(const char *name, size_t length, const char *value) {
  char *copy = strndup(name, length);
  if (copy == NULL) return base_fail(COLL_ERROR_MEMORY, "no memory for a variable");
  bool is_set = length > 0 && setenv(copy, value, 1) == 0;
  free(copy);
  if (is_set) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "'%s' is no name of a variable", name);
}

static coll_status_t apply_variables(const collrun_mpirun_t *mpirun) {
  for (size_t i = 0; i < mpirun->exports.count; i++) {
    const char *variable = mpirun->exports.values[i], *value = strchr(variable, '=');
    if (value != NULL) {
      COLL_TRY(set_variable(variable, (size_t)(value - variable), value + 1));
    } else if (getenv(variable) == NULL) {
      fprintf(stderr, "collrun: -x %s: there is no such variable here\n", variable);
    }
  }
  for (size_t i = 0; i + 1 < mpirun->pairs.count; i += 2) {
    const char *name = mpirun->pairs.values[i];
    COLL_TRY(set_variable(name, strlen(name), mpirun->pairs.values[i + 1]));
  }
  return COLL_OK;
}

bool collrun_mpirun_exports(const base_option_list_t *exports, const char *variable) {
  size_t length = strcspn(variable, "=");
  for (size_t i = 0; i < exports->count; i++) {
    const char *exported = exports->values[i];
    if (strcspn(exported, "=") == length && strncmp(exported, variable, length) == 0) return true;
  }
  return false;
}

/* Names of -genv are exported like those of -x. */
static void export_pairs(collrun_mpirun_t *mpirun) {
  for (size_t i = 0; i < mpirun->pairs.count; i += 2) {
    if (mpirun->exports.count == BASE_OPTION_VALUES_MAX) return;
    mpirun->exports.values[mpirun->exports.count++] = mpirun->pairs.values[i];
  }
}

coll_status_t collrun_mpirun_apply(collrun_mpirun_t *mpirun, bool *bind) {
  if (mpirun->bind != NULL) COLL_TRY(apply_bind(mpirun->bind, bind));
  if (mpirun->map != NULL) COLL_TRY(apply_map(mpirun));
  COLL_TRY(apply_variables(mpirun));
  export_pairs(mpirun);
  if (mpirun->settings.count > 0) {
    fprintf(stderr, "collrun: --mca %s and the like have no effect: they are of Open MPI\n",
            mpirun->settings.values[0]);
  }
  return COLL_OK;
}
