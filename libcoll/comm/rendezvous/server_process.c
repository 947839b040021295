/* The initial pid namespaces of all systems have the same number, hence the identity of the kernel.
 */
#include "comm/rendezvous/server_process.h"

#include <stdbool.h>
#include <stdio.h>
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

rendezvous_process_t rendezvous_process_own(void) {
  return (rendezvous_process_t){.space = own_space(), .start = start_of((int)getpid())};
}

rendezvous_process_state_t rendezvous_process_look(const rendezvous_process_t *process, int pid) {
  if (process->space == 0 || process->space != own_space()) return RENDEZVOUS_PROCESS_UNKNOWN;
  flight_process_t state = flight_process_of((int32_t)pid, flight_pid_space());
  if (state == FLIGHT_PROCESS_UNKNOWN) return RENDEZVOUS_PROCESS_UNKNOWN;
  bool is_other = state == FLIGHT_PROCESS_EXITED || start_of(pid) != process->start;
  return is_other ? RENDEZVOUS_PROCESS_ENDED : RENDEZVOUS_PROCESS_LIVES;
}

rendezvous_process_state_t rendezvous_process_settle(const rendezvous_process_t *process, int pid) {
  rendezvous_process_state_t state = rendezvous_process_look(process, pid);
  for (int i = 0; i < SETTLE_LOOKS && state == RENDEZVOUS_PROCESS_LIVES; i++) {
    base_clock_sleep_ns(SETTLE_NS);
    state = rendezvous_process_look(process, pid);
  }
  return state;
}
