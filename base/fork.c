/*
 * All locks are taken before fork, each without waiting for it while others are held, so their
 * order does not matter. One that stays taken is made anew in the child: its holder may be the
 * forking thread.
 */
#include "base/fork.h"

#include <stddef.h>
#include <unistd.h>

#include "base/clock.h"

#define MARK UINT64_C(0x6c696263) /* upper half of every tag: "libc" */
#define GENERATIONS UINT64_C(0x1000000)
#define TRIES_MAX 1000
#define TRY_NS 50000u

uint64_t base_fork_tag = MARK << 32;

static base_fork_part_t *first; /* written while the library is loaded */
static pthread_mutex_t forking = PTHREAD_MUTEX_INITIALIZER; /* guards base_fork_part_t.held */

static uint64_t generation_of(uint64_t tag) {
  return tag / BASE_FORK_KINDS % GENERATIONS;
}

int base_fork_inherited(uint64_t tag) {
  bool is_tag = tag >> 32 == MARK;
  bool is_older = is_tag && generation_of(tag) < generation_of(base_fork_tag);
  return is_older ? (int)(tag % BASE_FORK_KINDS) : -1;
}

coll_status_t base_fork_fail(const char *what, pid_t maker, const char *instead) {
  return base_fail(COLL_ERROR_INVALID,
                   "%s was made by process %d, from which this process (%d) was forked, and works "
                   "there only: %s",
                   what, (int)maker, (int)getpid(), instead);
}

void base_fork_attach(base_fork_part_t *part) {
  part->next = first;
  first = part;
}

static void release_all(void) {
  for (base_fork_part_t *part = first; part != NULL; part = part->next) {
    if (part->held) pthread_mutex_unlock(part->lock);
    part->held = false;
  }
}

/* False: some are held by other threads. */
static bool try_all(void) {
  bool all = true;
  for (base_fork_part_t *part = first; part != NULL; part = part->next) {
    if (part->lock == NULL) continue;
    part->held = pthread_mutex_trylock(part->lock) == 0;
    all = all && part->held;
  }
  return all;
}

static void before_fork(void) {
  pthread_mutex_lock(&forking);
  for (int tries = 0; !try_all() && tries < TRIES_MAX; tries++) {
    release_all();
    base_clock_sleep_ns(TRY_NS);
  }
}

static void after_fork(void) {
  release_all();
  pthread_mutex_unlock(&forking);
}

static void after_fork_in_child(void) {
  uint64_t generation = (generation_of(base_fork_tag) + 1) % GENERATIONS;
  base_fork_tag = MARK << 32 | generation * BASE_FORK_KINDS;
  for (base_fork_part_t *part = first; part != NULL; part = part->next) {
    if (part->lock != NULL && !part->held) pthread_mutex_init(part->lock, NULL);
    if (part->forget != NULL) part->forget();
  }
  after_fork();
}

__attribute__((constructor)) static void attach(void) {
  (void)pthread_atfork(before_fork, after_fork, after_fork_in_child);
}
