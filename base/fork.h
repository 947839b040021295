/*
 * fork(2). A child has its parent's memory and descriptors, but of its threads only the one that
 * called fork: a lock that another thread held is never released there, and what the parent shares
 * with other processes is not the child's.
 *
 * A handle begins with a tag: base_fork_tag, plus a number that says what the handle is. In a child
 * base_fork_tag has another value, so the comparison that tells a live handle from any other tells
 * it also from those of the parent, for one load.
 */
#ifndef BASE_FORK_H
#define BASE_FORK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

/* Written by fork alone, in the child. Hidden, so that it is read without its address being loaded
 * before. */
extern uint64_t base_fork_tag __attribute__((visibility("hidden")));

#define BASE_FORK_KINDS 256 /* a tag is base_fork_tag plus a number below this */

/* The number in a tag that a process made from which this one was forked. -1: it is no such tag. */
int base_fork_inherited(uint64_t tag);

/* Returns COLL_ERROR_INVALID. what: "the communicator"; instead: "make one by coll_comm_create". */
coll_status_t base_fork_fail(const char *what, pid_t maker, const char *instead);

/* State of the process that other threads may be changing when one calls fork. */
typedef struct base_fork_part {
  pthread_mutex_t *lock; /* held during fork, so that what it guards is whole in the child. Threads
                            hold it shortly, and none calls fork meanwhile. NULL: none */
  void (*forget)(void);  /* called in the child, where it drops what is the parent's; or NULL */
  bool held;
  struct base_fork_part *next;
} base_fork_part_t;

void base_fork_attach(base_fork_part_t *part);

/* At most once in a file: attaches a part when the library is loaded. */
#define BASE_FORK_PART(lock, forget)                           \
  static base_fork_part_t fork_part = {lock, forget, 0, 0};    \
  __attribute__((constructor)) static void attach_part(void) { \
    base_fork_attach(&fork_part);                              \
  }                                                            \
  _Static_assert(1, "for the semicolon")

#endif
