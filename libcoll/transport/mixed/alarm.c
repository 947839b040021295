/* The descriptor is watched for one event at a time, from mixed_alarm_set on. */
#include "transport/mixed/alarm.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void *watch(void *context) {
  const mixed_alarm_t *alarm = context;
  struct epoll_event event;
  for (;;) {
    int count = epoll_wait(alarm->wait_set, &event, 1, -1);
    if (count < 0 && errno != EINTR) return NULL;
    if (count <= 0) continue;
    if (event.data.fd == alarm->stop) return NULL;
    alarm->ring(alarm->context);
  }
}

/* Signals are for the program's own threads. */
static bool start(mixed_alarm_t *alarm) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  alarm->has_thread = pthread_create(&alarm->thread, NULL, watch, alarm) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  alarm->failed = !alarm->has_thread;
  return alarm->has_thread;
}

coll_status_t mixed_alarm_open(mixed_alarm_t *alarm, int watched, void (*ring)(void *context),
                               void *context) {
  *alarm = (mixed_alarm_t){.watched = watched, .ring = ring, .context = context};
  alarm->wait_set = epoll_create1(EPOLL_CLOEXEC);
  alarm->stop = eventfd(0, EFD_CLOEXEC);
  struct epoll_event stop = {.events = EPOLLIN, .data.fd = alarm->stop};
  struct epoll_event silent = {.data.fd = watched};
  if (alarm->wait_set >= 0 && alarm->stop >= 0 &&
      epoll_ctl(alarm->wait_set, EPOLL_CTL_ADD, alarm->stop, &stop) == 0 &&
      epoll_ctl(alarm->wait_set, EPOLL_CTL_ADD, watched, &silent) == 0) {
    return COLL_OK;
  }
  coll_status_t status =
      base_fail_errno(COLL_ERROR_SYSTEM, "nothing to wait on for shared memory and network");
  mixed_alarm_close(alarm);
  return status;
}

bool mixed_alarm_set(mixed_alarm_t *alarm) {
  struct epoll_event once = {.events = EPOLLIN | EPOLLONESHOT, .data.fd = alarm->watched};
  if (!alarm->has_thread && (alarm->failed || !start(alarm))) return false;
  return epoll_ctl(alarm->wait_set, EPOLL_CTL_MOD, alarm->watched, &once) == 0;
}

void mixed_alarm_close(mixed_alarm_t *alarm) {
  uint64_t one = 1;
  if (alarm->has_thread) {
    (void)!write(alarm->stop, &one, sizeof one);
    pthread_join(alarm->thread, NULL);
  }
  if (alarm->stop >= 0) close(alarm->stop);
  if (alarm->wait_set >= 0) close(alarm->wait_set);
}
