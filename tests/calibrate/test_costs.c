/*
 * When cached costs hold: for a minute, and then as long as a hop takes what it took. Each case is
 * a process of its own, as costs are found once per process. The functions defined here override
 * the library's at link time.
 */
#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/net/socket.h"
#include "calibrate/costs.h"
#include "calibrate/exclusive.h"
#include "calibrate/pair.h"
#include "device/ops.h"
#include "topo/cost_cache.h"

enum { HOP_PS = 70000 };

static uint32_t hop_ps; /* as it is now */
static bool busy;       /* nothing can be measured */
static int measured, looked;

bool __wrap_calibrate_costs_measure(tune_machine_t *costs, int cpus[2]);
bool __wrap_calibrate_costs_measure(tune_machine_t *costs, int cpus[2]) {
  *costs = tune_machine_builtin;
  if (busy) return false;
  costs->fixed_ps[TUNE_HOP] = hop_ps;
  cpus[0] = 3;
  cpus[1] = 5;
  measured++;
  return true;
}

uint32_t __wrap_calibrate_pair_hop_ps(const int cpus[2]);
uint32_t __wrap_calibrate_pair_hop_ps(const int cpus[2]) {
  if (cpus[0] == 3 && cpus[1] == 5) looked++;
  return hop_ps;
}

/* Other processes of this machine, which may measure, are not waited for. */
int __wrap_calibrate_exclusive_begin(uint64_t limit_ns);
int __wrap_calibrate_exclusive_begin(uint64_t limit_ns) {
  (void)limit_ns;
  return base_socket(AF_UNIX, SOCK_DGRAM, 0);
}

/* 0: there are none. */
static uint32_t find(void) {
  tune_machine_t costs;
  return calibrate_costs_find(&costs) == COLL_OK ? costs.fixed_ps[TUNE_HOP] : 0;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *info) {
  (void)status, (void)kind, (void)info;
  return remove(path);
}

typedef struct later {
  int64_t seconds; /* since the costs were measured */
  uint32_t ps;     /* what a hop takes by then */
  int measured, looked;
  uint32_t found;
  bool busy;
} later_t;

static void save_measured_s(int64_t measured_s) {
  const char *const names[] = {"measured_s"};
  const device_ops_t *device;
  if (device_host_open(&device) == COLL_OK)
    topo_cost_cache_save(device->name, names, 1, &measured_s);
}

/* Two processes, one after the other, as the first answer stays in each. They end with 0 if all is
 * as wanted. */
static _Noreturn void measure_first(void) {
  hop_ps = HOP_PS;
  _exit(find() == HOP_PS && measured == 1 && looked == 0 ? 0 : 1);
}

static _Noreturn void find_later(const later_t *later) {
  save_measured_s((int64_t)time(NULL) - later->seconds);
  hop_ps = later->ps;
  busy = later->busy;
  uint32_t found = find();
  bool good = found == later->found && measured == later->measured && looked == later->looked;
  if (!good) fprintf(stderr, "measured %d times, looked %d, found %u\n", measured, looked, found);
  _exit(good ? 0 : 1);
}

static int end_of(pid_t child) {
  int status;
  return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

static void run(const later_t *later) {
  pid_t child = fork();
  if (child == 0) measure_first();
  cr_assert_eq(end_of(child), 0, "they are measured if there are none");
  child = fork();
  if (child == 0) find_later(later);
  cr_expect_eq(end_of(child), 0, "%d s later, a hop of %u ps: not as wanted", (int)later->seconds,
               later->ps);
}

static void run_in_empty_cache(const later_t *later) {
  char folder[] = "/tmp/libcoll-costs-XXXXXX";
  cr_assert_not_null(mkdtemp(folder));
  setenv("XDG_CACHE_HOME", folder, 1);
  run(later);
  nftw(folder, remove_one, 4, FTW_DEPTH | FTW_PHYS);
}

Test(costs, hold_for_a_minute_and_then_by_a_hop) {
  static const later_t table[] = {
      {0, 9 * HOP_PS, 0, 0, HOP_PS},
      {50, 9 * HOP_PS, 0, 0, HOP_PS},
      {70, HOP_PS, 0, 1, HOP_PS},
      {70, 2 * HOP_PS - 1, 0, 1, HOP_PS},
      {70, HOP_PS / 2 + 1, 0, 1, HOP_PS},
      {70, 0, 0, 1, HOP_PS}, /* unknown */
      /* Looked at once more when no other process measures: one may just have done so. */
      {70, 2 * HOP_PS, 1, 2, 2 * HOP_PS},
      {70, HOP_PS / 2, 1, 2, HOP_PS / 2},
      {-100, 4 * HOP_PS, 1, 2, 4 * HOP_PS}, /* a clock that was set back */
      {70, 2 * HOP_PS, 0, 2, HOP_PS, true}, /* old ones are better than none */
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) run_in_empty_cache(&table[i]);
}
