/*
 * Modules and kernels: a kernel is a function of the host that a test has registered by name.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu/standin/state.h"

#define KERNELS_MAX 128
#define MODULES_MAX 512

struct CUfunc_st {
  const char *name;
  standin_kernel_t kernel;
  int argument_count;
  size_t argument_bytes[STANDIN_ARGUMENTS_MAX];
};

struct CUmod_st {
  cuda_context_t context; /* NULL: not loaded */
};

static struct CUfunc_st kernels[KERNELS_MAX];
static int kernel_count;
static struct CUmod_st modules[MODULES_MAX];
static int launches[CUDA_DOMAIN_REMOTE + 1];

int standin_kernel_register(const char *name, standin_kernel_t kernel, int argument_count,
                            const size_t argument_bytes[]) {
  standin_lock();
  bool fits = kernel_count < KERNELS_MAX && argument_count <= STANDIN_ARGUMENTS_MAX;
  if (fits) {
    struct CUfunc_st *function = &kernels[kernel_count++];
    function->name = name;
    function->kernel = kernel;
    function->argument_count = argument_count;
    for (int i = 0; i < argument_count; i++) function->argument_bytes[i] = argument_bytes[i];
  }
  standin_unlock();
  return fits;
}

cuda_result_t cuModuleLoadData(cuda_module_t *module, const void *image) {
  cuda_context_t context;
  cuda_result_t result = standin_enter_context(&context);
  if (result != CUDA_RESULT_OK) return result;
  if (module == NULL || image == NULL) return standin_leave(CUDA_RESULT_INVALID_VALUE);
  long loaded = standin_setting("COLL_STANDIN_LOADED", CUDA_RESULT_OK);
  if (loaded != CUDA_RESULT_OK) return standin_leave((cuda_result_t)loaded);
  for (int i = 0; i < MODULES_MAX; i++) {
    if (modules[i].context != NULL) continue;
    modules[i].context = context;
    standin.modules++;
    *module = &modules[i];
    return standin_leave(CUDA_RESULT_OK);
  }
  return standin_leave(CUDA_RESULT_OUT_OF_MEMORY);
}

/* Enters; the module is loaded in the current context. */
static cuda_result_t enter(cuda_module_t module) {
  cuda_context_t context;
  cuda_result_t result = standin_enter_context(&context);
  if (result != CUDA_RESULT_OK) return result;
  for (int i = 0; i < MODULES_MAX; i++) {
    if (module == &modules[i] && module->context == context) return CUDA_RESULT_OK;
  }
  return standin_leave(CUDA_RESULT_INVALID_HANDLE);
}

cuda_result_t cuModuleUnload(cuda_module_t module) {
  cuda_result_t result = enter(module);
  if (result != CUDA_RESULT_OK) return result;
  module->context = NULL;
  standin.modules--;
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuModuleGetFunction(cuda_function_t *function, cuda_module_t module,
                                  const char *name) {
  cuda_result_t result = enter(module);
  if (result != CUDA_RESULT_OK) return result;
  for (int i = 0; i < kernel_count; i++) {
    if (strcmp(kernels[i].name, name) != 0) continue;
    *function = &kernels[i];
    return standin_leave(CUDA_RESULT_OK);
  }
  return standin_leave(CUDA_RESULT_NOT_FOUND);
}

/* Enters; the function exists. */
static cuda_result_t enter_function(cuda_function_t function, cuda_context_t *context) {
  cuda_result_t result = standin_enter_context(context);
  if (result != CUDA_RESULT_OK) return result;
  for (int i = 0; i < kernel_count; i++) {
    if (function == &kernels[i]) return CUDA_RESULT_OK;
  }
  return standin_leave(CUDA_RESULT_INVALID_HANDLE);
}

cuda_result_t cuFuncGetAttribute(int *value, cuda_function_attribute_t attribute,
                                 cuda_function_t function) {
  cuda_context_t context;
  cuda_result_t result = enter_function(function, &context);
  if (result != CUDA_RESULT_OK) return result;
  *value = attribute == CUDA_FUNCTION_MAX_THREADS ? 1024 : 0;
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuFuncSetAttribute(cuda_function_t function, cuda_function_attribute_t attribute,
                                 int value) {
  cuda_context_t context;
  cuda_result_t result = enter_function(function, &context);
  if (result != CUDA_RESULT_OK) return result;
  bool valid = attribute == CUDA_FUNCTION_MAX_DYNAMIC_SHARED && value >= 0 && value <= 227 << 10;
  return standin_leave(valid ? CUDA_RESULT_OK : CUDA_RESULT_INVALID_VALUE);
}

cuda_result_t cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, cuda_function_t function,
                                                          int block_threads, size_t shared_bytes) {
  cuda_context_t context;
  cuda_result_t result = enter_function(function, &context);
  if (result != CUDA_RESULT_OK) return result;
  if (block_threads < 1 || block_threads > 1024) return standin_leave(CUDA_RESULT_INVALID_VALUE);
  int by_threads = STANDIN_MULTIPROCESSOR_THREADS / block_threads;
  int by_memory = shared_bytes == 0 ? 32 : (int)(((size_t)228 << 10) / (shared_bytes + 1024));
  *blocks = by_threads < by_memory ? by_threads : by_memory;
  if (*blocks > 32) *blocks = 32;
  return standin_leave(CUDA_RESULT_OK);
}

/* ---- launches --------------------------------------------------------------------------------*/

/* A launch with copies of its arguments behind it, each aligned to 16 bytes. */
static standin_launch_t *copy_arguments(cuda_function_t function, void **arguments, size_t *bytes) {
  size_t count = (size_t)function->argument_count;
  size_t offset = sizeof(standin_launch_t) + count * sizeof(void *), total = offset + 16;
  for (size_t i = 0; i < count; i++) total += (function->argument_bytes[i] + 15) / 16 * 16;
  standin_launch_t *launch = calloc(1, total);
  if (launch == NULL) return NULL;
  *bytes = total;
  launch->arguments = (void **)(launch + 1);
  offset = (offset + 15) / 16 * 16;
  for (size_t i = 0; i < count; i++) {
    launch->arguments[i] = (char *)launch + offset;
    memcpy(launch->arguments[i], arguments[i], function->argument_bytes[i]);
    offset += (function->argument_bytes[i] + 15) / 16 * 16;
  }
  return launch;
}

int standin_launches(bool in_default_domain) {
  standin_lock();
  int count = launches[in_default_domain ? CUDA_DOMAIN_DEFAULT : CUDA_DOMAIN_REMOTE];
  standin_unlock();
  return count;
}

/* Finds the domain of a launch. Attributes that the stand-in does not know are refused. */
static cuda_result_t find_domain(const cuda_launch_config_t *config, cuda_domain_t *domain) {
  *domain = CUDA_DOMAIN_DEFAULT;
  if (config->attribute_count > 0 && config->attributes == NULL) return CUDA_RESULT_INVALID_VALUE;
  for (unsigned i = 0; i < config->attribute_count; i++) {
    const cuda_launch_attribute_t *attribute = &config->attributes[i];
    if (attribute->id == CUDA_LAUNCH_IGNORE) continue;
    if (attribute->id != CUDA_LAUNCH_SYNC_DOMAIN) return CUDA_RESULT_NOT_SUPPORTED;
    *domain = attribute->value.domain;
    if (*domain > CUDA_DOMAIN_REMOTE) return CUDA_RESULT_INVALID_VALUE;
  }
  return CUDA_RESULT_OK;
}

static bool is_valid(const cuda_launch_config_t *config) {
  uint64_t grid = (uint64_t)config->grid_x * config->grid_y * config->grid_z;
  uint64_t block = (uint64_t)config->block_x * config->block_y * config->block_z;
  return grid > 0 && block > 0 && block <= 1024 && config->shared_bytes <= 227u << 10;
}

/* With the lock. */
static cuda_result_t queue_launch(cuda_stream_t stream, cuda_function_t function,
                                  const cuda_launch_config_t *config, void **arguments) {
  size_t launch_bytes;
  standin_launch_t *launch = copy_arguments(function, arguments, &launch_bytes);
  if (launch == NULL) return CUDA_RESULT_OUT_OF_MEMORY;
  *launch = (standin_launch_t){.name = function->name,
                               .grid = {config->grid_x, config->grid_y, config->grid_z},
                               .block = {config->block_x, config->block_y, config->block_z},
                               .shared_bytes = config->shared_bytes,
                               .device = stream->context->device,
                               .arguments = launch->arguments};
  operation_t o = {.kind = OPERATION_KERNEL,
                   .kernel = function->kernel,
                   .launch = launch,
                   .launch_bytes = launch_bytes,
                   .argument_count = function->argument_count};
  cuda_result_t result = standin_queue(stream, &o);
  if (result != CUDA_RESULT_OK) free(launch);
  return result;
}

cuda_result_t cuLaunchKernelEx(const cuda_launch_config_t *config, cuda_function_t function,
                               void **arguments, void **extra) {
  cuda_context_t context;
  cuda_domain_t domain;
  cuda_result_t result = enter_function(function, &context);
  if (result != CUDA_RESULT_OK) return result;
  if (config == NULL || extra != NULL || !is_valid(config) ||
      (arguments == NULL && function->argument_count > 0)) {
    return standin_leave(CUDA_RESULT_INVALID_VALUE);
  }
  cuda_stream_t stream = standin_stream(context, config->stream);
  if (stream == NULL || stream->context != context) {
    return standin_leave(CUDA_RESULT_INVALID_HANDLE);
  }
  result = find_domain(config, &domain);
  if (result == CUDA_RESULT_OK) result = queue_launch(stream, function, config, arguments);
  if (result == CUDA_RESULT_OK) launches[domain]++;
  return standin_leave(result);
}

cuda_result_t cuLaunchKernel(cuda_function_t function, unsigned grid_x, unsigned grid_y,
                             unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                             unsigned shared_bytes, cuda_stream_t stream, void **arguments,
                             void **extra) {
  const cuda_launch_config_t config = {grid_x,  grid_y,       grid_z, block_x, block_y,
                                       block_z, shared_bytes, stream, NULL,    0};
  return cuLaunchKernelEx(&config, function, arguments, extra);
}
