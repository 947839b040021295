/*
 * Ends a sleep in shared memory when something arrives over the network: a thread waits for the
 * network's descriptor while the rank sleeps on its futex. The thread exists once the rank has
 * slept for the first time, and runs only if something arrives while the rank sleeps.
 */
#ifndef TRANSPORT_MIXED_ALARM_H
#define TRANSPORT_MIXED_ALARM_H

#include <pthread.h>
#include <stdbool.h>

#include "base/status.h"

typedef struct mixed_alarm {
  int watched;     /* descriptor of the network: readable when something has arrived */
  int wait_set;    /* an epoll descriptor: `watched`, and `stop` */
  int stop;        /* an eventfd: the thread ends */
  bool has_thread; /* it was started */
  bool failed;     /* it cannot be started */
  pthread_t thread;
  void (*ring)(void *context); /* called by the thread */
  void *context;
} mixed_alarm_t;

/* COLL_ERROR_SYSTEM. */
coll_status_t mixed_alarm_open(mixed_alarm_t *alarm, int watched, void (*ring)(void *context),
                               void *context);

/* From now on rings once, if anything has arrived or arrives. False: there can be no thread. */
bool mixed_alarm_set(mixed_alarm_t *alarm);

void mixed_alarm_close(mixed_alarm_t *alarm);

#endif
