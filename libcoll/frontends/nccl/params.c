/*
 * ncclParam*: the environment variables that the front end knows, by their names, with the values
 * that they have now. One that is not set has no value.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontends/nccl/environment.h"
#include "frontends/nccl/errors.h"

#define KEYS_MAX 32

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER; /* of that of all keys */

static void forget(void) {
  pthread_mutex_init(&table_lock, NULL);
}
NCCL_IN_CHILD(forget);

/* A handle is the number of the variable, from 1 on. */
static const char *key_of(ncclParamHandle_t handle) {
  uintptr_t number = (uintptr_t)handle;
  return number >= 1 && number <= KEYS_MAX ? nccl_environment_name((int)number - 1) : NULL;
}

static ncclResult_t read_text(ncclParamHandle_t handle, const void *out, const char *function,
                              const char **text) {
  const char *key = key_of(handle);
  if (key == NULL || out == NULL) {
    return nccl_fail(ncclInvalidArgument, "%s: %s", function,
                     key == NULL ? "no such parameter" : "the output is NULL");
  }
  *text = nccl_variable(key);
  if (*text != NULL) return ncclSuccess;
  return nccl_fail(ncclInvalidUsage, "%s: %s is not set", function, key);
}

static ncclResult_t read_signed(ncclParamHandle_t handle, const void *out, int64_t min, int64_t max,
                                int64_t *value) {
  const char *text;
  char *end;
  ncclResult_t result = read_text(handle, out, "ncclParamGet", &text);
  if (result != ncclSuccess) return result;
  errno = 0;
  *value = strtoll(text, &end, 0);
  if (errno == 0 && end != text && *end == '\0' && *value >= min && *value <= max) {
    return ncclSuccess;
  }
  return nccl_fail(ncclInvalidArgument, "ncclParamGet: %s=%s is no integer of this size",
                   key_of(handle), text);
}

ncclResult_t ncclParamBind(ncclParamHandle_t *handle, const char *key) {
  for (int i = 0; key != NULL && handle != NULL && nccl_environment_name(i) != NULL; i++) {
    if (strcmp(nccl_environment_name(i), key) != 0) continue;
    *handle = (ncclParamHandle_t)(uintptr_t)(i + 1);
    return ncclSuccess;
  }
  return nccl_fail(ncclInvalidArgument, "ncclParamBind: no parameter '%s' here",
                   key != NULL ? key : "(null)");
}
NCCL_ALIAS(ncclParamBind);

#define GETTER(NAME, TYPE, MIN, MAX)                                       \
  ncclResult_t NAME(ncclParamHandle_t handle, TYPE *value) {               \
    int64_t read;                                                          \
    ncclResult_t result = read_signed(handle, value, (MIN), (MAX), &read); \
    if (result == ncclSuccess) *value = (TYPE)read;                        \
    return result;                                                         \
  }                                                                        \
  NCCL_ALIAS(NAME)

GETTER(ncclParamGetI8, int8_t, INT8_MIN, INT8_MAX);
GETTER(ncclParamGetI16, int16_t, INT16_MIN, INT16_MAX);
GETTER(ncclParamGetI32, int32_t, INT32_MIN, INT32_MAX);
GETTER(ncclParamGetI64, int64_t, INT64_MIN, INT64_MAX);
GETTER(ncclParamGetU8, uint8_t, 0, UINT8_MAX);
GETTER(ncclParamGetU16, uint16_t, 0, UINT16_MAX);
GETTER(ncclParamGetU32, uint32_t, 0, UINT32_MAX);
/* No variable here has a value above that of an int64_t. */
GETTER(ncclParamGetU64, uint64_t, 0, INT64_MAX);

ncclResult_t ncclParamGetStr(ncclParamHandle_t handle, const char **value) {
  return read_text(handle, value, "ncclParamGetStr", value);
}
NCCL_ALIAS(ncclParamGetStr);

/* The text of the value with its terminating zero, cut where the buffer ends. */
ncclResult_t ncclParamGet(ncclParamHandle_t handle, void *value, int bytes, int *length) {
  const char *text;
  ncclResult_t result = read_text(handle, bytes > 0 ? value : NULL, "ncclParamGet", &text);
  if (result != ncclSuccess) return result;
  snprintf(value, (size_t)bytes, "%s", text);
  if (length != NULL) *length = (int)strlen(value) + 1;
  return ncclSuccess;
}
NCCL_ALIAS(ncclParamGet);

ncclResult_t ncclParamGetParameter(const char *key, const char **value, int *length) {
  ncclParamHandle_t handle;
  ncclResult_t result = ncclParamBind(&handle, key);
  if (result == ncclSuccess) result = read_text(handle, value, "ncclParamGetParameter", value);
  if (result == ncclSuccess && length != NULL) *length = (int)strlen(*value);
  return result;
}
NCCL_ALIAS(ncclParamGetParameter);

ncclResult_t ncclParamGetAllParameterKeys(const char ***keys, int *count) {
  static const char *table[KEYS_MAX];
  int found = 0;
  if (keys == NULL || count == NULL) {
    return nccl_fail(ncclInvalidArgument, "ncclParamGetAllParameterKeys: an output is NULL");
  }
  pthread_mutex_lock(&table_lock); /* every caller writes the same */
  while (found < KEYS_MAX && nccl_environment_name(found) != NULL) {
    table[found] = nccl_environment_name(found);
    found++;
  }
  pthread_mutex_unlock(&table_lock);
  *keys = table;
  *count = found;
  return ncclSuccess;
}
NCCL_ALIAS(ncclParamGetAllParameterKeys);

void ncclParamDumpAll(void) {
  for (int i = 0; nccl_environment_name(i) != NULL; i++) {
    const char *value = nccl_variable(nccl_environment_name(i));
    printf("%s=%s\n", nccl_environment_name(i), value != NULL ? value : "");
  }
}
NCCL_ALIAS(ncclParamDumpAll);
