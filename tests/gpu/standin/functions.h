/*
 * Declares everything that the stand-in exports as a driver.
 */
#ifndef TESTS_GPU_STANDIN_FUNCTIONS_H
#define TESTS_GPU_STANDIN_FUNCTIONS_H

#include "device/cuda/driver_functions.h"
#include "device/cuda/driver_types.h"
#include "gpu/standin/program_functions.h"

typedef struct CUgraphExec_st *cuda_graph_exec_t;

#define STANDIN_DECLARE(name, parameters) \
  __attribute__((visibility("default"))) cuda_result_t name parameters;
#define STANDIN_DECLARE_LISTED(since, name, suffix, parameters) \
  STANDIN_DECLARE(name##suffix, parameters)
CUDA_FUNCTIONS(STANDIN_DECLARE_LISTED)
STANDIN_PROGRAM_FUNCTIONS(STANDIN_DECLARE)
STANDIN_DECLARE(cuDriverGetVersion, (int *version))
#undef STANDIN_DECLARE_LISTED
#undef STANDIN_DECLARE

/* Results that only these functions give, and others while a stream is captured. */
#define CUDA_RESULT_CAPTURE_UNSUPPORTED ((cuda_result_t)900)
#define CUDA_RESULT_CAPTURE_INVALIDATED ((cuda_result_t)901)
#define CUDA_RESULT_CAPTURE_MERGE ((cuda_result_t)902)
#define CUDA_RESULT_CAPTURE_UNMATCHED ((cuda_result_t)903)
#define CUDA_RESULT_CAPTURE_UNJOINED ((cuda_result_t)904)
#define CUDA_RESULT_CAPTURE_ISOLATION ((cuda_result_t)905)
#define CUDA_RESULT_CAPTURE_IMPLICIT ((cuda_result_t)906)
#define CUDA_RESULT_CAPTURED_EVENT ((cuda_result_t)907)
#define CUDA_RESULT_CAPTURE_WRONG_THREAD ((cuda_result_t)908)

#endif
