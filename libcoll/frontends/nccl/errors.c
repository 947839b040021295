/*
 * Failures and their texts. NCCL has one text per process; here a thread sees its own first, and
 * one that has failed in nothing sees the latest of all, for watchdog threads.
 */
#include "frontends/nccl/errors.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontends/nccl/environment.h"
#include "frontends/nccl/handle.h"

/* Of one thread. Allocated, as a library that is loaded by dlopen may have little static TLS. */
typedef struct texts {
  char own[NCCL_TEXT_BYTES], shown[NCCL_TEXT_BYTES];
} texts_t;

static pthread_key_t texts_key;
static bool has_key;
static char process_text[NCCL_TEXT_BYTES];
static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;

static void forget(void) {
  pthread_mutex_init(&process_lock, NULL);
}
NCCL_IN_CHILD(forget);

static void create_key(void) {
  has_key = pthread_key_create(&texts_key, free) == 0;
}

/* NULL if there is no memory. */
static texts_t *thread_texts(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, create_key);
  texts_t *texts = has_key ? pthread_getspecific(texts_key) : NULL;
  if (texts != NULL || !has_key) return texts;
  texts = calloc(1, sizeof *texts);
  if (texts != NULL) pthread_setspecific(texts_key, texts);
  return texts;
}

ncclResult_t nccl_fail(ncclResult_t result, const char *format, ...) {
  va_list arguments;
  char text[NCCL_TEXT_BYTES];
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  nccl_repeat(result, text);
  pthread_mutex_lock(&process_lock);
  memcpy(process_text, text, sizeof text);
  pthread_mutex_unlock(&process_lock);
  nccl_log(NCCL_LOG_WARN, "%s", text);
  return result;
}

ncclResult_t nccl_repeat(ncclResult_t result, const char *text) {
  texts_t *texts = thread_texts();
  if (texts != NULL) snprintf(texts->own, sizeof texts->own, "%s", text);
  return result;
}

const char *nccl_last_text(void) {
  texts_t *texts = thread_texts();
  if (texts == NULL) return "out of memory";
  if (texts->own[0] != '\0') return texts->own;
  pthread_mutex_lock(&process_lock);
  memcpy(texts->shown, process_text, sizeof texts->shown);
  pthread_mutex_unlock(&process_lock);
  return texts->shown;
}

ncclResult_t nccl_result_of(coll_status_t status) {
  switch (status) {
    case COLL_OK: return ncclSuccess;
    case COLL_IN_PROGRESS: return ncclInProgress;
    case COLL_ERROR_INVALID: return ncclInvalidArgument;
    case COLL_ERROR_MISMATCH:
    case COLL_ERROR_UNSUPPORTED: return ncclInvalidUsage;
    case COLL_ERROR_RANK_LOST: return ncclRemoteError;
    /* Releases before 2.30 have no result for it; their programs print the text of any other. */
    case COLL_ERROR_TIMEOUT: return nccl_version() >= 23000 ? ncclTimeout : ncclSystemError;
    case COLL_ERROR_SYSTEM:
    case COLL_ERROR_MEMORY: return ncclSystemError;
    default: return ncclInternalError;
  }
}

ncclResult_t nccl_result(coll_status_t status, const char *function) {
  ncclResult_t result = nccl_result_of(status);
  if (result == ncclSuccess || result == ncclInProgress) return result;
  return nccl_fail(result, "%s: %s", function, coll_last_error(NULL));
}

const char *ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "CUDA is not supported here (ncclGetLastError says more)";
    case ncclSystemError: return "a system call failed (ncclGetLastError says which)";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument (ncclGetLastError says which)";
    case ncclInvalidUsage: return "invalid usage (ncclGetLastError says why)";
    case ncclRemoteError: return "another rank has failed (ncclGetLastError says which)";
    case ncclInProgress: return "in progress";
    case ncclTimeout: return "timeout (ncclGetLastError says what for)";
    default: return "unknown result code";
  }
}
NCCL_ALIAS(ncclGetErrorString);

const char *ncclGetLastError(ncclComm_t comm) {
  texts_t *texts = thread_texts();
  if (texts == NULL) return "out of memory";
  if (nccl_handle_failure(comm, texts->shown, sizeof texts->shown)) return texts->shown;
  return nccl_last_text();
}
NCCL_ALIAS(ncclGetLastError);
