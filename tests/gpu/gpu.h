/*
 * What the tests of device/cuda share.
 */
#ifndef TESTS_GPU_GPU_H
#define TESTS_GPU_GPU_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "device/cuda/driver.h"
#include "gpu/standin/standin.h"

/* The driver of this process, which is the stand-in: it is linked, so dlopen finds it by its name.
 */
static inline const cuda_driver_t *gpu_driver(void) {
  const cuda_driver_t *driver = NULL;
  cr_assert(cuda_driver_load(&driver) == COLL_OK, "%s", base_last_error());
  return driver;
}

static inline void gpu_setting(const char *name, const char *value) {
  cr_assert(setenv(name, value, 1) == 0);
}

/* Nothing is left, and nothing was done that the driver leaves undefined. */
static inline void gpu_expect_clean(void) {
  char text[256];
  cr_assert(standin_leaks(text, sizeof text) == 0, "%s", text);
  cr_assert(standin_misuses() == 0);
}

#define GPU_OK(call)                                                      \
  do {                                                                    \
    coll_status_t gpu_status = (call);                                    \
    cr_assert(gpu_status == COLL_OK, "%s: %s", #call, base_last_error()); \
  } while (0)

/* The call fails with that status, and the text contains `part`. */
#define GPU_FAILS(status, part, call)                                               \
  do {                                                                              \
    coll_status_t gpu_status = (call);                                              \
    cr_assert(gpu_status == (status), "%s: status %d: %s", #call, (int)gpu_status,  \
              base_last_error());                                                   \
    cr_assert(strstr(base_last_error(), part) != NULL, "'%s' is not in '%s'", part, \
              base_last_error());                                                   \
  } while (0)

/* The function of the driver returns that result. */
#define GPU_RESULT(result, call)                                                                \
  do {                                                                                          \
    cuda_result_t gpu_result = (call);                                                          \
    cr_assert(gpu_result == (result), "%s: %d instead of %s", #call, (int)gpu_result, #result); \
  } while (0)
#define GPU_DONE(call) GPU_RESULT(CUDA_RESULT_OK, call)

#endif
