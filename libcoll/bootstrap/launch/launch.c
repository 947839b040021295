/*
 * Which launcher started this process. The table is in order of precedence: a user's own variables,
 * then those of the launcher that is closest to the process. Slurm's are last, since a job script
 * may start any other launcher. A launcher whose key-value space cannot be used counts only by the
 * variables that it sets.
 */
#include "bootstrap/launch/launch.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/text.h"
#include "bootstrap/launch/ancestor.h"
#include "plan/plan.h"

static const char *const launcher_words[] = {"auto", "variables", "none", NULL};
enum { WORD_AUTO, WORD_VARIABLES, WORD_NONE };

static const base_knob_t knobs[] = {
    {.name = "COLL_LAUNCHER",
     .kind = BASE_KNOB_WORD,
     .fallback = "auto",
     .words = launcher_words,
     .help = "what coll_comm_create_env asks: auto (the launcher, by its key-value space if it has "
             "one), variables (the launcher's environment variables alone) or none (this process "
             "is the only rank)"},
    {.name = "COLL_RANK",
     .kind = BASE_KNOB_TEXT,
     .fallback = "",
     .help = "rank of this process, in place of the launcher's"},
    {.name = "COLL_SIZE",
     .kind = BASE_KNOB_TEXT,
     .fallback = "",
     .help = "number of ranks, with COLL_RANK"},
    {.name = "COLL_ADDRESS",
     .kind = BASE_KNOB_TEXT,
     .fallback = "",
     .help = "host:port or [IPv6 address]:port at which rank 0 listens, with COLL_RANK"}};

enum { KNOB_LAUNCHER, KNOB_RANK, KNOB_SIZE, KNOB_ADDRESS, KNOB_COUNT };

_Static_assert(sizeof knobs / sizeof knobs[0] == KNOB_COUNT, "one name per knob");

const base_knob_t *launch_knob(int index) {
  return index >= 0 && index < KNOB_COUNT ? &knobs[index] : NULL;
}

static const launch_kind_t kinds[] = {
    {.marker = "COLL_RANK", .rank = "COLL_RANK", .size = "COLL_SIZE"},
    {.marker = "TORCHELASTIC_USE_AGENT_STORE",
     .rank = "RANK",
     .size = "WORLD_SIZE",
     .local_size = "LOCAL_WORLD_SIZE",
     .job = "TORCHELASTIC_RUN_ID",
     .store = &launch_store_torch},
    {.marker = "RANK",
     .rank = "RANK",
     .size = "WORLD_SIZE",
     .local_size = "LOCAL_WORLD_SIZE",
     .job = "TORCHELASTIC_RUN_ID"},
    {.marker = "PMIX_RANK",
     .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE",
     .job = "PMIX_NAMESPACE",
     .store = &launch_store_pmix},
    {.marker = "OMPI_COMM_WORLD_RANK",
     .rank = "OMPI_COMM_WORLD_RANK",
     .size = "OMPI_COMM_WORLD_SIZE",
     .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE",
     .job = "PMIX_NAMESPACE"},
    {.marker = "PMI_FD", .local_size = "MPI_LOCALNRANKS", .store = &launch_store_pmi},
    {.marker = "PMI_PORT", .local_size = "MPI_LOCALNRANKS", .store = &launch_store_pmi},
    {.marker = "PMI_RANK", .rank = "PMI_RANK", .size = "PMI_SIZE", .local_size = "MPI_LOCALNRANKS"},
    /* A batch script has the variables of rank 0, but is in no step. */
    {.marker = "SLURM_STEP_ID",
     .rank = "SLURM_PROCID",
     .size = "SLURM_NTASKS",
     .job = "SLURM_JOB_ID",
     .step = "SLURM_STEP_ID"},
};

enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of shares, and of stores' connections */
static unsigned shares;                                  /* texts shared so far */

/* Another thread may hold it for as long as a launcher takes to answer. */
static void forget(void) {
  pthread_mutex_init(&lock, NULL);
}
BASE_FORK_PART(NULL, forget);

const char *launch_value(const char *name) {
  const char *text = name != NULL ? getenv(name) : NULL;
  return text != NULL && text[0] != '\0' ? text : NULL;
}

coll_status_t launch_number(const char *name, int64_t least, int64_t most, int64_t *value) {
  const char *text = launch_value(name);
  if (text != NULL && base_text_integer(text, least, most, value)) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "%s%s%s: the launcher should set a number from %lld to %lld",
                   name, text != NULL ? "=" : "", text != NULL ? text : " is not set",
                   (long long)least, (long long)most);
}

static bool is_true(const char *name) {
  const char *text = launch_value(name);
  return text != NULL && (strcmp(text, "True") == 0 || strcmp(text, "1") == 0);
}

/* Whether the launcher has started this process. */
static bool is_present(const launch_kind_t *kind) {
  if (launch_value(kind->marker) == NULL) return false;
  if (kind->store == &launch_store_torch && !is_true(kind->marker)) return false;
  return kind->rank == NULL ||
         (launch_value(kind->rank) != NULL && launch_value(kind->size) != NULL);
}

static coll_status_t read_variables(const launch_kind_t *kind, launch_t *launch) {
  int64_t rank, size;
  COLL_TRY(launch_number(kind->size, 1, PLAN_RANKS_MAX, &size));
  COLL_TRY(launch_number(kind->rank, 0, size - 1, &rank));
  launch->kind = kind;
  launch->rank = (int)rank;
  launch->size = (int)size;
  return COLL_OK;
}

/* ---- half of a configuration ------------------------------------------------------------------*/

static coll_status_t fail_half(const char *set, const char *missing, const char *why) {
  return base_fail(COLL_ERROR_INVALID,
                   "%s=%s is set but %s is not: set both, or neither for a single rank%s%s%s", set,
                   launch_value(set), missing, why[0] != '\0' ? " (" : "", why,
                   why[0] != '\0' ? ")" : "");
}

/* COLL_RANK, COLL_SIZE and COLL_ADDRESS are set for this library alone, so none of them is left
 * out on purpose. */
static coll_status_t check_own(void) {
  const char *values[KNOB_COUNT] = {NULL}, *set = NULL;
  for (int i = KNOB_RANK; i < KNOB_COUNT; i++) {
    COLL_TRY(base_knob_text(&knobs[i], &values[i]));
    if (values[i][0] != '\0') set = knobs[i].name;
  }
  for (int i = KNOB_RANK; i <= KNOB_SIZE && set != NULL; i++) {
    if (values[i][0] == '\0') return fail_half(set, knobs[i].name, "");
  }
  return COLL_OK;
}

/* Whether the variable says that there are other ranks: any value but 1. */
static bool is_of_several(const char *name) {
  const char *text = launch_value(name);
  return text != NULL && strcmp(text, "1") != 0;
}

/* Which of the launcher's variables is set and which one is missing; NULL: it is all there, or
 * nothing of it. Slurm's count only inside of a step: shells of an allocation have them too. */
static const char *half_of(const launch_kind_t *kind, const char **missing) {
  bool has_rank = launch_value(kind->rank) != NULL, has_size = launch_value(kind->size) != NULL;
  if (kind->rank == NULL || (has_rank && has_size)) return NULL;
  if (kind->step != NULL && launch_value(kind->marker) == NULL) return NULL;
  *missing = has_rank ? kind->size : kind->rank;
  if (has_rank) return kind->rank;
  if (is_of_several(kind->size)) return kind->size;
  if (is_of_several(kind->local_size)) return kind->local_size;
  return kind->store == &launch_store_torch && is_true(kind->marker) ? kind->marker : NULL;
}

/* A launcher whose key-value space was not asked, and that sets no rank. */
static const launch_kind_t *find_unasked(void) {
  for (int i = 0; i < KIND_COUNT; i++) {
    if (kinds[i].rank == NULL && launch_value(kinds[i].marker) != NULL) return &kinds[i];
  }
  return NULL;
}

/* No launcher is all there: fails if a part of one is. why_not: of a key-value space, or "". */
static coll_status_t check_none(const char *why_not) {
  for (int i = 0; i < KIND_COUNT; i++) {
    const char *missing, *set = half_of(&kinds[i], &missing);
    if (set != NULL) return fail_half(set, missing, why_not);
  }
  const launch_kind_t *unasked = find_unasked();
  if (unasked == NULL) return COLL_OK;
  return base_fail(
      COLL_ERROR_INVALID,
      "%s=%s is set, but the rank and the number of ranks are not known: %s "
      "(COLL_LAUNCHER=none: this process is the only rank)",
      unasked->marker, launch_value(unasked->marker),
      why_not[0] != '\0' ? why_not : "COLL_LAUNCHER=variables, and no variable has them");
}

static coll_status_t open_store(const launch_kind_t *kind, uint64_t deadline_ns, launch_t *launch) {
  int rank = 0, size = 1;
  pthread_mutex_lock(&lock);
  coll_status_t status = kind->store->open(deadline_ns, &rank, &size);
  pthread_mutex_unlock(&lock);
  if (status != COLL_OK) return status;
  if (size > PLAN_RANKS_MAX || rank < 0 || rank >= size) {
    return base_fail(COLL_ERROR_INVALID, "%s makes this process rank %d of %d: at most %d can be",
                     kind->store->name, rank, size, PLAN_RANKS_MAX);
  }
  launch->kind = kind;
  launch->rank = rank;
  launch->size = size;
  return COLL_OK;
}

coll_status_t launch_find(uint64_t deadline_ns, launch_t *launch) {
  int word;
  launch_t found = {.size = 1};
  COLL_TRY(base_knob_word(&knobs[KNOB_LAUNCHER], &word));
  if (word != WORD_NONE) COLL_TRY(check_own());
  for (int i = 0; i < KIND_COUNT && word != WORD_NONE; i++) {
    const launch_kind_t *kind = &kinds[i];
    if (!is_present(kind) || (kind->store != NULL && word == WORD_VARIABLES)) continue;
    coll_status_t status =
        kind->store != NULL ? open_store(kind, deadline_ns, &found) : read_variables(kind, &found);
    if (status == COLL_OK) {
      *launch = found;
      return COLL_OK;
    }
    if (status != COLL_ERROR_UNSUPPORTED) return status;
    snprintf(found.no_store, sizeof found.no_store, "%s", base_last_error());
  }
  if (word != WORD_NONE) COLL_TRY(check_none(found.no_store));
  *launch = found;
  return COLL_OK;
}

coll_status_t launch_share(const launch_t *launch, uint64_t deadline_ns,
                           char text[LAUNCH_TEXT_BYTES]) {
  char key[32];
  pthread_mutex_lock(&lock);
  snprintf(key, sizeof key, "coll-%u", shares++);
  coll_status_t status = launch->kind->store->share(key, deadline_ns, text);
  pthread_mutex_unlock(&lock);
  return status;
}

bool launch_is_on_one_host(const launch_t *launch) {
  const char *local = launch_value(launch->kind->local_size);
  const char *nodes = launch_value("SLURM_STEP_NUM_NODES");
  int64_t count;
  if (local != NULL) return base_text_integer(local, 1, INT32_MAX, &count) && count == launch->size;
  return launch_value("SLURM_STEP_ID") != NULL && nodes != NULL && strcmp(nodes, "1") == 0;
}

int launch_pid(void) {
  for (int i = 0; i < KIND_COUNT; i++) {
    if (is_present(&kinds[i])) return launch_ancestor_pid(kinds[i].marker);
  }
  return (int)getppid();
}
