/* The thread's last error. */
#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/thread_memory.h"

#define ERROR_BYTES 1024

static base_thread_memory_t last_error = {.bytes = ERROR_BYTES};
static _Thread_local bool has_lost_text; /* there was no memory for the last error */

coll_status_t base_fail(coll_status_t status, const char *format, ...) {
  char text[ERROR_BYTES]; /* a separate buffer, because an argument may be the old last error */
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  char *kept = base_thread_memory_allocate(&last_error);
  has_lost_text = kept == NULL;
  if (kept != NULL) memcpy(kept, text, sizeof text);
  return status;
}

coll_status_t base_fail_errno(coll_status_t status, const char *format, ...) {
  int error = errno;
  char text[ERROR_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return base_fail(status, "%s: %s%s", text, strerror(error),
                   error == EMFILE ? " (raise the limit: ulimit -n)" : "");
}

const char *base_last_error(void) {
  const char *kept = base_thread_memory_find(&last_error);
  if (has_lost_text) return base_status_string(COLL_ERROR_MEMORY);
  return kept != NULL ? kept : "";
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
