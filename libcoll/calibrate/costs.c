/* Each process reads the cache at most once, as every communicator needs the costs. */
#include "calibrate/costs.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "base/fork.h"
#include "base/net/socket.h"
#include "calibrate/exclusive.h"
#include "calibrate/pair.h"
#include "device/ops.h"
#include "lifetime/create.h"
#include "topo/cost_cache.h"

/* ---- in the cache ---------------------------------------------------------------------------*/

enum { COSTS = TUNE_FIXED_COUNT + TUNE_MOVE_COUNT * TUNE_SIZES, NAME_BYTES = 32 };

/* Besides the costs: when they were measured, in seconds since 1970, and on which CPUs. */
enum { MEASURED_S = COSTS, CPUS, FIGURES = CPUS + 2 };

_Static_assert(FIGURES < TOPO_COST_CACHE_MAX, "the costs must fit the cache");

typedef struct figures {
  char texts[COSTS][NAME_BYTES];
  const char *names[FIGURES];
  int64_t values[FIGURES];
} figures_t;

static uint32_t *cost_at(tune_machine_t *costs, int index) {
  if (index < TUNE_FIXED_COUNT) return &costs->fixed_ps[index];
  index -= TUNE_FIXED_COUNT;
  return &costs->move_ps[index / TUNE_SIZES][index % TUNE_SIZES];
}

static void name_figures(figures_t *figures) {
  figures->names[MEASURED_S] = "measured_s";
  figures->names[CPUS] = "first_cpu";
  figures->names[CPUS + 1] = "second_cpu";
  for (int i = 0; i < COSTS; i++) {
    int move = i - TUNE_FIXED_COUNT;
    if (move < 0) {
      snprintf(figures->texts[i], NAME_BYTES, "%s_ps", tune_fixed_name((tune_fixed_t)i));
    } else {
      snprintf(figures->texts[i], NAME_BYTES, "%s_%zuK_ps_kib",
               tune_move_name((tune_move_t)(move / TUNE_SIZES)),
               tune_sizes[move % TUNE_SIZES] >> 10);
    }
    figures->names[i] = figures->texts[i];
  }
}

#define HOLD_S 60 /* costs hold for so long without a look */

/* By the time of a hop, which is quickly measured and varies most. */
static bool still_hold(const figures_t *figures) {
  int64_t age_s = (int64_t)time(NULL) - figures->values[MEASURED_S];
  if (age_s >= 0 && age_s < HOLD_S) return true;
  const int cpus[2] = {(int)figures->values[CPUS], (int)figures->values[CPUS + 1]};
  int64_t was_ps = figures->values[TUNE_HOP], is_ps = calibrate_pair_hop_ps(cpus);
  return is_ps == 0 || (is_ps < 2 * was_ps && was_ps < 2 * is_ps);
}

/* Whether there are costs that still hold. Old ones are loaded too: the machine may be too busy to
 * measure better ones. */
static bool load(const char *variant, tune_machine_t *costs) {
  figures_t figures;
  name_figures(&figures);
  if (!topo_cost_cache_load(variant, figures.names, FIGURES, figures.values)) return false;
  for (int i = 0; i < COSTS; i++) {
    if (figures.values[i] > UINT32_MAX) return false;
  }
  for (int i = 0; i < COSTS; i++) *cost_at(costs, i) = (uint32_t)figures.values[i];
  return still_hold(&figures);
}

static void save(const char *variant, tune_machine_t *costs, const int cpus[2]) {
  figures_t figures;
  name_figures(&figures);
  for (int i = 0; i < COSTS; i++) figures.values[i] = *cost_at(costs, i);
  figures.values[MEASURED_S] = (int64_t)time(NULL);
  for (int i = 0; i < 2; i++) figures.values[CPUS + i] = cpus[i];
  topo_cost_cache_save(variant, figures.names, FIGURES, figures.values);
}

/* ---- once per process -----------------------------------------------------------------------*/

static pthread_mutex_t finding = PTHREAD_MUTEX_INITIALIZER;
static tune_machine_t found; /* both guarded by `finding` */
static bool is_found;

/* Another thread may hold it for as long as a measurement takes. */
static void forget(void) {
  pthread_mutex_init(&finding, NULL);
}
BASE_FORK_PART(NULL, forget);

#define EXCLUSIVE_NS UINT64_C(5000000000) /* longer than a measurement may take */

static void measure(const char *variant, tune_machine_t *costs) {
  tune_machine_t measured;
  int cpus[2];
  if (!calibrate_costs_measure(&measured, cpus)) return;
  *costs = measured;
  save(variant, costs, cpus);
}

/* Leaves the costs as they are where the machine is too busy. Another process may have measured
 * while this one waited. */
static void measure_or_load(const char *variant, tune_machine_t *costs) {
  int exclusive = calibrate_exclusive_begin(EXCLUSIVE_NS);
  if (exclusive < 0) return;
  if (!load(variant, costs)) measure(variant, costs);
  base_socket_close(exclusive);
}

coll_status_t calibrate_costs_find(tune_machine_t *costs) {
  const device_ops_t *device;
  COLL_TRY(device_host_open(&device));
  pthread_mutex_lock(&finding);
  if (!is_found) {
    found = tune_machine_builtin;
    if (!load(device->name, &found)) measure_or_load(device->name, &found);
    is_found = true;
  }
  *costs = found;
  pthread_mutex_unlock(&finding);
  return COLL_OK;
}
