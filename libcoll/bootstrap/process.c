/* The initial pid namespaces of all systems have the same number, hence the identity of the kernel.
 */
#include "bootstrap/process.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "flight/process.h"
#include "topo/host.h"

#define SETTLE_LOOKS 40
#define SETTLE_NS UINT64_C(10000000)

static uint32_t hash_of(uint64_t first, uint64_t second) {
  char text[48];
  snprintf(text, sizeof text, "%llu %llu", (unsigned long long)first, (unsigned long long)second);
  uint64_t hash = base_text_hash(BASE_TEXT_HASH_OF_NOTHING, text);
  return (uint32_t)(hash ^ hash >> 32);
}

static uint32_t own_space(void) {
  uint64_t kernel = topo_host_kernel(), space = flight_pid_space();
  return kernel != 0 && space != 0 ? hash_of(kernel, space) : 0;
}

static uint32_t start_of(int pid) {
  uint64_t start = flight_process_start((int32_t)pid);
  return start != 0 ? hash_of(start, (uint64_t)pid) : 0;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t number; /* written once */

static void draw_number(void) {
  if (getrandom(&number, sizeof number, 0) < 0) number = 0;
}

uint64_t bootstrap_process_number(void) {
  pthread_once(&once, draw_number);
  return number;
}

uint64_t bootstrap_process_id(void) {
  return bootstrap_process_number() + (uint64_t)getpid() * 0x9e3779b97f4a7c15u;
}

bootstrap_process_t bootstrap_process_own(void) {
  return (bootstrap_process_t){.space = own_space(), .start = start_of((int)getpid())};
}

bootstrap_process_state_t bootstrap_process_look(const bootstrap_process_t *process, int pid) {
  if (process->space == 0 || process->space != own_space()) return BOOTSTRAP_PROCESS_UNKNOWN;
  uint64_t space = flight_pid_space();
  flight_process_t state = flight_process_of((int32_t)pid, space);
  if (state == FLIGHT_PROCESS_UNKNOWN) return BOOTSTRAP_PROCESS_UNKNOWN;
  bool is_other = flight_process_ends((int32_t)pid, space) || start_of(pid) != process->start;
  return is_other ? BOOTSTRAP_PROCESS_ENDED : BOOTSTRAP_PROCESS_LIVES;
}

bootstrap_process_state_t bootstrap_process_settle(const bootstrap_process_t *process, int pid) {
  bootstrap_process_state_t state = bootstrap_process_look(process, pid);
  for (int i = 0; i < SETTLE_LOOKS && state == BOOTSTRAP_PROCESS_LIVES; i++) {
    base_clock_sleep_ns(SETTLE_NS);
    state = bootstrap_process_look(process, pid);
  }
  return state;
}
