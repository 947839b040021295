/*
 * The thread's last error. Its buffer is allocated at the thread's first failure and freed when the
 * thread ends: thread-local arrays would take so much of the static TLS that glibc has left for
 * libraries loaded by dlopen that these could not be loaded (1.6 KiB for all of them).
 */
#include "base/status.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ERROR_BYTES 1024

static _Thread_local char *last_error;
static pthread_key_t last_error_key; /* frees it */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool has_key;

static void create_key(void) {
  has_key = pthread_key_create(&last_error_key, free) == 0;
}

/* The thread's buffer, or NULL if there is no memory for one. */
static char *error_buffer(void) {
  if (last_error != NULL) return last_error;
  pthread_once(&once, create_key);
  char *made = has_key ? calloc(1, ERROR_BYTES) : NULL;
  if (made != NULL && pthread_setspecific(last_error_key, made) != 0) {
    free(made);
    made = NULL;
  }
  last_error = made;
  return made;
}

coll_status_t base_fail(coll_status_t status, const char *format, ...) {
  char text[ERROR_BYTES]; /* a separate buffer, because an argument may be the old last error */
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  char *buffer = error_buffer();
  if (buffer != NULL) memcpy(buffer, text, sizeof text);
  return status;
}

coll_status_t base_fail_errno(coll_status_t status, const char *format, ...) {
  int error = errno;
  char text[ERROR_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return base_fail(status, "%s: %s", text, strerror(error));
}

const char *base_last_error(void) {
  return last_error != NULL ? last_error : "";
}

const char *base_status_string(coll_status_t status) {
  switch (status) {
    case COLL_OK: return "ok";
    case COLL_ERROR_INVALID: return "invalid argument";
    case COLL_ERROR_MISMATCH: return "the ranks' calls do not match";
    case COLL_ERROR_RANK_LOST: return "a rank was lost";
    case COLL_ERROR_TIMEOUT: return "timed out";
    case COLL_ERROR_SYSTEM: return "system error";
    case COLL_ERROR_MEMORY: return "out of memory";
    case COLL_ERROR_UNSUPPORTED: return "unsupported";
    case COLL_ERROR_INTERNAL: return "internal error";
    case COLL_IN_PROGRESS: return "in progress";
    case COLL_STATUS_COUNT: break;
  }
  return "unknown status";
}
