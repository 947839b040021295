/* Communicators that are made at once, by several threads, share the network while they measure. */
#include <pthread.h>

#include "base/fork.h"
#include "calibrate/network.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by the lock. */
static uint64_t communicator; /* of the first one */
static int count;             /* threads that measure */
static bool are_several;      /* communicators, since count was 0 */

static void forget(void) {
  count = 0;
}

BASE_FORK_PART(&lock, forget);

void calibrate_network_begin(const struct coll_comm *comm) {
  uint64_t own = atomic_load_explicit(&comm->local->flight->communicator, memory_order_relaxed);
  pthread_mutex_lock(&lock);
  are_several = count > 0 && (are_several || communicator != own);
  if (count++ == 0) communicator = own;
  pthread_mutex_unlock(&lock);
}

bool calibrate_network_is_alone(void) {
  pthread_mutex_lock(&lock);
  bool is_alone = !are_several;
  pthread_mutex_unlock(&lock);
  return is_alone;
}

void calibrate_network_end(void) {
  pthread_mutex_lock(&lock);
  count--;
  pthread_mutex_unlock(&lock);
}
