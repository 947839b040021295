/*
 * Calls of the library in a thread of their own.
 */
#ifndef TESTS_HARNESS_THREAD_CALL_H
#define TESTS_HARNESS_THREAD_CALL_H

#include <coll.h>
#include <pthread.h>
#include <stdlib.h>

typedef struct thread_call {
  pthread_t thread;
  coll_status_t (*body)(void *context); /* makes the calls; returns the status of the last one */
  void *context;
  coll_status_t status; /* what it returned, once it has been joined */
} thread_call_t;

static inline void *thread_call_run(void *argument) {
  thread_call_t *call = (thread_call_t *)argument;
  call->status = call->body(call->context);
  return NULL;
}

static inline void thread_call_start(thread_call_t *call, coll_status_t (*body)(void *context),
                                     void *context) {
  call->body = body;
  call->context = context;
  if (pthread_create(&call->thread, NULL, thread_call_run, call) != 0) abort();
}

/* Waits until the calls have ended. */
static inline coll_status_t thread_call_join(thread_call_t *call) {
  pthread_join(call->thread, NULL);
  return call->status;
}

#endif
