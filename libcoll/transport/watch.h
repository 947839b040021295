/* How a rank that waits for its peers detects that creation has failed on another rank. */
#ifndef TRANSPORT_WATCH_H
#define TRANSPORT_WATCH_H

#include "base/status.h"

typedef struct transport_watch {
  int fd; /* readable when check may report a failure; -1: none */
  /* COLL_OK, or the failure with which creation ends. Called when fd is readable, and every 20 ms.
   */
  coll_status_t (*check)(void *context);
  void *context;
} transport_watch_t;

#endif
