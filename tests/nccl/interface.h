/*
 * NCCL's interface for the tests: NVIDIA's own header where it is installed (with cuda_runtime.h,
 * which it includes), so that the tests are programs compiled for NCCL; else our declarations.
 */
#ifndef TESTS_NCCL_INTERFACE_H
#define TESTS_NCCL_INTERFACE_H

#ifdef NCCL_VENDOR_HEADER
#include <nccl.h>
#else
#define NCCL_API /* a program's references are not weak */
#include "frontends/nccl/abi.h"
#define NCCL_CONFIG_INITIALIZER                                                              \
  {                                                                                          \
    sizeof(ncclConfig_t), NCCL_MAGIC, 22809, NCCL_UNDEFINED, NCCL_UNDEFINED, NCCL_UNDEFINED, \
        NCCL_UNDEFINED, NULL, NCCL_UNDEFINED, NCCL_UNDEFINED, NULL,                          \
  }
#define NCCL_SIM_INFO_INITIALIZER \
  { sizeof(ncclSimInfo_t), NCCL_SIM_MAGIC, 22809, -1.0f }
#define NCCL_SPLIT_NOCOLOR NCCL_NO_COLOR
#define ncclChar ncclInt8
#define ncclInt ncclInt32
#define ncclFloat ncclFloat32
#endif

#include "harness/harness.h"

/* Returns from a body of the harness if a call does not have the result, with NCCL's texts. */
#define NCCL_RESULT(expected, call)                                                                \
  do {                                                                                             \
    ncclResult_t nccl_result = (call);                                                             \
    if (nccl_result != (expected)) {                                                               \
      return harness_fail("line %d, %s: %s: %s", __LINE__, #call, ncclGetErrorString(nccl_result), \
                          ncclGetLastError(NULL));                                                 \
    }                                                                                              \
  } while (0)
#define NCCL_OK(call) NCCL_RESULT(ncclSuccess, call)

#define NCCL_REQUIRE(condition)                                                 \
  do {                                                                          \
    if (!(condition)) return harness_fail("line %d: %s", __LINE__, #condition); \
  } while (0)

/* Runs a body as processes; fails the Criterion test with the ranks' texts. */
#define NCCL_RUN(size, body)                                                         \
  do {                                                                               \
    harness_result_t nccl_run;                                                       \
    cr_assert(harness_run(size, 20000, body, NULL, &nccl_run), "%s", nccl_run.text); \
  } while (0)

/* Makes this process rank `rank` of `size` by an id on the board. Returns 0 or 1, like a body. */
int nccl_test_init(int rank, int size, ncclComm_t *comm);

/* Polls until the communicator is ready; returns what it then is. */
ncclResult_t nccl_test_wait(ncclComm_t comm);

/* Fills with element i of a rank's contribution, (rank + 1) * (i % 5 + 1): sums are exact. */
void nccl_test_fill(float *buffer, size_t count, int rank);

/* Whether the elements from `first` on are `factor` times those of rank 0. */
int nccl_test_holds(const float *buffer, size_t first, size_t count, float factor);

#endif
