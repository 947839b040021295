/* A list under a mutex: a process has few contexts. */
#include "device/cuda/code.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/names.h"
#include "device/cuda/image.h"

#define NAME_BYTES 48

typedef struct loaded {
  cuda_code_t code; /* first: what users hold */
  const cuda_driver_t *driver;
  cuda_context_t context;
  int device, users;
  cuda_module_t modules[COLL_DTYPE_COUNT][GPU_OPS_COUNT];
  struct loaded *next;
} loaded_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static loaded_t *first; /* guarded by lock, as all behind it */

#define CODE_CALL(loaded, function, ...)                                                  \
  cuda_driver_check((loaded)->driver, (loaded)->driver->function(__VA_ARGS__), #function, \
                    (loaded)->device)

/* With the number of blocks that a multiprocessor takes, for which the driver must have loaded the
 * code, also where it is set to load lazily. */
static coll_status_t find_function(const loaded_t *loaded, const char *what, coll_dtype_t dtype,
                                   gpu_ops_t ops, cuda_function_t *function, int *blocks) {
  char name[NAME_BYTES];
  snprintf(name, sizeof name, "%s_%s_%s", what, base_dtype_name(dtype), gpu_ops_name(ops));
  COLL_TRY(CODE_CALL(loaded, cuModuleGetFunction, function, loaded->modules[dtype][ops], name));
  return CODE_CALL(loaded, cuOccupancyMaxActiveBlocksPerMultiprocessor, blocks, *function,
                   GPU_THREADS_MAX, 0);
}

static coll_status_t load_module(loaded_t *loaded, coll_dtype_t dtype, gpu_ops_t ops) {
  cuda_code_t *code = &loaded->code;
  int blocks, unused;
  COLL_TRY(
      CODE_CALL(loaded, cuModuleLoadData, &loaded->modules[dtype][ops], cuda_image(dtype, ops)));
  COLL_TRY(find_function(loaded, "gpu_run", dtype, ops, &code->run[dtype][ops], &blocks));
  if (code->blocks_each == 0 || blocks < code->blocks_each) code->blocks_each = blocks;
  return find_function(loaded, "gpu_compute", dtype, ops, &code->compute[dtype][ops], &unused);
}

static coll_status_t load_modules(loaded_t *loaded) {
  for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++) {
    for (int ops = 0; ops < GPU_OPS_COUNT; ops++) {
      COLL_TRY(load_module(loaded, (coll_dtype_t)dtype, (gpu_ops_t)ops));
    }
  }
  return COLL_OK;
}

static void unload(loaded_t *loaded) {
  for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++) {
    for (int ops = 0; ops < GPU_OPS_COUNT; ops++) {
      cuda_module_t module = loaded->modules[dtype][ops];
      if (module != NULL) (void)loaded->driver->cuModuleUnload(module);
    }
  }
  free(loaded);
}

static coll_status_t load(const cuda_driver_t *driver, int device, cuda_context_t context,
                          loaded_t **loaded) {
  loaded_t *made;
  COLL_TRY(base_alloc(1, sizeof *made, "a GPU's kernels", (void **)&made));
  made->driver = driver;
  made->device = device;
  made->context = context;
  coll_status_t status = load_modules(made);
  if (status != COLL_OK) {
    unload(made);
    return status;
  }
  made->next = first;
  first = *loaded = made;
  return COLL_OK;
}

coll_status_t cuda_code_take(const cuda_driver_t *driver, int device, cuda_context_t context,
                             const cuda_code_t **code) {
  coll_status_t status = COLL_OK;
  pthread_mutex_lock(&lock);
  loaded_t *found = first;
  while (found != NULL && !(found->context == context && found->driver == driver)) {
    found = found->next;
  }
  if (found == NULL) status = load(driver, device, context, &found);
  if (status == COLL_OK) {
    found->users++;
    *code = &found->code;
  }
  pthread_mutex_unlock(&lock);
  return status;
}

void cuda_code_release(const cuda_code_t *code) {
  pthread_mutex_lock(&lock);
  loaded_t **link = &first;
  while (*link != NULL && &(*link)->code != code) link = &(*link)->next;
  loaded_t *found = *link;
  bool ends = found != NULL && --found->users == 0;
  if (ends) *link = found->next;
  pthread_mutex_unlock(&lock);
  if (ends) unload(found);
}
