/*
 * Loads NVIDIA's driver. Symbols come from cuGetProcAddress, which knows their versions, and from
 * dlsym, with the suffix of the version, for a library that lacks it.
 */
#include "device/cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define TEXT_BYTES 512

typedef cuda_result_t (*get_version_t)(int *version);
typedef cuda_result_t (*get_symbol_t)(const char *name, void **function, int version,
                                      uint64_t flags, cuda_symbol_status_t *status);

typedef struct symbols {
  void *library;
  get_symbol_t get; /* NULL: the library has no cuGetProcAddress_v2 */
} symbols_t;

/* Sets a pointer to a function, which C cannot convert from a pointer to data. */
static void find_exported(void *library, const char *symbol, void *function) {
  void *found = dlsym(library, symbol);
  memcpy(function, &found, sizeof found);
}

/* symbol: the name with the suffix of its version. */
static bool find(const symbols_t *symbols, int since, const char *name, const char *symbol,
                 void *function) {
  void *found = NULL;
  cuda_symbol_status_t status = CUDA_SYMBOL_FOUND;
  if (symbols->get == NULL) {
    found = dlsym(symbols->library, symbol);
  } else if (symbols->get(name, &found, since, CUDA_SYMBOL_LEGACY_STREAM, &status) !=
                 CUDA_RESULT_OK ||
             status != CUDA_SYMBOL_FOUND) {
    found = NULL;
  }
  memcpy(function, &found, sizeof found);
  return found != NULL;
}

/* The name of the first required function that is missing; NULL: none. */
static const char *find_all(const symbols_t *symbols, cuda_driver_t *driver) {
  const char *missing = NULL;
#define FIND(since, name, suffix, parameters)                       \
  if (!find(symbols, since, #name, #name #suffix, &driver->name) && \
      since <= CUDA_DRIVER_VERSION_MIN && missing == NULL) {        \
    missing = #name;                                                \
  }
  CUDA_FUNCTIONS(FIND)
#undef FIND
  return missing;
}

static coll_status_t check_version(void *library, const char *file, int *version) {
  get_version_t get;
  find_exported(library, "cuDriverGetVersion", &get);
  if (get == NULL) {
    return base_fail(COLL_ERROR_UNSUPPORTED, "%s is not NVIDIA's driver: no cuDriverGetVersion",
                     file);
  }
  cuda_result_t result = get(version);
  if (result != CUDA_RESULT_OK) {
    return base_fail(COLL_ERROR_UNSUPPORTED, "%s does not say its version (CUDA error %d)%s", file,
                     (int)result,
                     result == CUDA_RESULT_STUB_LIBRARY ? ": it is the CUDA toolkit's stub" : "");
  }
  if (*version < CUDA_DRIVER_VERSION_MIN) {
    return base_fail(COLL_ERROR_UNSUPPORTED,
                     "NVIDIA's driver on this machine supports CUDA %d.%d, and GPUs need CUDA "
                     "%d.%d: install driver 525 or later",
                     *version / 1000, *version % 1000 / 10, CUDA_DRIVER_VERSION_MIN / 1000,
                     CUDA_DRIVER_VERSION_MIN % 1000 / 10);
  }
  return COLL_OK;
}

static coll_status_t start(cuda_driver_t *driver) {
  cuda_result_t result = driver->cuInit(0);
  if (result == CUDA_RESULT_OK) {
    COLL_TRY(cuda_driver_check(driver, driver->cuDeviceGetCount(&driver->device_count),
                               "cuDeviceGetCount", CUDA_NO_DEVICE));
  }
  if (result == CUDA_RESULT_NO_DEVICE || (result == CUDA_RESULT_OK && driver->device_count == 0)) {
    return base_fail(COLL_ERROR_UNSUPPORTED,
                     "NVIDIA's driver finds no GPU that this process may use (see nvidia-smi and "
                     "CUDA_VISIBLE_DEVICES)");
  }
  return cuda_driver_check(driver, result, "cuInit", CUDA_NO_DEVICE);
}

coll_status_t cuda_driver_open(const char *library, cuda_driver_t *driver) {
  symbols_t symbols = {.library = dlopen(library, RTLD_NOW | RTLD_LOCAL)};
  memset(driver, 0, sizeof *driver);
  if (symbols.library == NULL) {
    return base_fail(COLL_ERROR_UNSUPPORTED, "NVIDIA's driver cannot be loaded: %s", dlerror());
  }
  COLL_TRY(check_version(symbols.library, library, &driver->version));
  find_exported(symbols.library, "cuGetProcAddress_v2", &symbols.get);
  const char *missing = find_all(&symbols, driver);
  if (missing != NULL) {
    return base_fail(COLL_ERROR_UNSUPPORTED,
                     "%s supports CUDA %d.%d, but has no function %s: install NVIDIA's driver anew",
                     library, driver->version / 1000, driver->version % 1000 / 10, missing);
  }
  return start(driver);
}

/* ---- the driver of this process --------------------------------------------------------------*/

static pthread_once_t once = PTHREAD_ONCE_INIT;
static cuda_driver_t loaded;
static coll_status_t load_status;
static char load_text[TEXT_BYTES];

static void load(void) {
  load_status = cuda_driver_open(CUDA_DRIVER_LIBRARY, &loaded);
  if (load_status != COLL_OK) snprintf(load_text, sizeof load_text, "%s", base_last_error());
}

coll_status_t cuda_driver_load(const cuda_driver_t **driver) {
  pthread_once(&once, load);
  if (load_status != COLL_OK) return base_fail(load_status, "%s", load_text);
  *driver = &loaded;
  return COLL_OK;
}

bool cuda_driver_is_present(void) {
  void *library = dlopen(CUDA_DRIVER_LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
  if (library != NULL) dlclose(library);
  return library != NULL;
}

int cuda_driver_current(void) {
  typedef cuda_result_t (*get_device_t)(cuda_device_t * device);
  get_device_t get = NULL;
  cuda_device_t device;
  void *library = dlopen(CUDA_DRIVER_LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
  if (library == NULL) return CUDA_NO_DEVICE;
  find_exported(library, "cuCtxGetDevice", &get);
  bool has_one = get != NULL && get(&device) == CUDA_RESULT_OK;
  dlclose(library);
  return has_one ? device : CUDA_NO_DEVICE;
}

/* ---- errors ----------------------------------------------------------------------------------*/

typedef struct reason {
  cuda_result_t result;
  coll_status_t status;
  const char *advice; /* appended to the text */
} reason_t;

static const reason_t reasons[] = {
    {CUDA_RESULT_OUT_OF_MEMORY, COLL_ERROR_MEMORY, ""},
    {CUDA_RESULT_NOT_INITIALIZED, COLL_ERROR_SYSTEM,
     "; a process that was forked after its parent had used CUDA must exec first"},
    {CUDA_RESULT_DEINITIALIZED, COLL_ERROR_SYSTEM, "; the process is exiting"},
    {CUDA_RESULT_DEVICE_UNAVAILABLE, COLL_ERROR_SYSTEM,
     "; another process has it (compute mode exclusive, see nvidia-smi)"},
    {CUDA_RESULT_NO_DEVICE, COLL_ERROR_UNSUPPORTED, ""},
    {CUDA_RESULT_INVALID_DEVICE, COLL_ERROR_INVALID, ""},
    {CUDA_RESULT_NO_BINARY_FOR_GPU, COLL_ERROR_UNSUPPORTED,
     "; this build has no code for that generation of GPU"},
    {CUDA_RESULT_NO_PTX_COMPILER, COLL_ERROR_UNSUPPORTED,
     "; this build has no machine code for that generation of GPU: -Dgpu_targets adds it"},
    {CUDA_RESULT_UNSUPPORTED_PTX, COLL_ERROR_UNSUPPORTED,
     "; this build has no machine code for that generation of GPU, and the driver is older than "
     "its "
     "PTX: update the driver, or add the generation to -Dgpu_targets"},
    {CUDA_RESULT_PEER_ACCESS_UNSUPPORTED, COLL_ERROR_UNSUPPORTED,
     "; these GPUs cannot access each other's memory"},
    {CUDA_RESULT_NOT_SUPPORTED, COLL_ERROR_UNSUPPORTED, ""},
    {CUDA_RESULT_NOT_PERMITTED, COLL_ERROR_UNSUPPORTED, ""},
    {CUDA_RESULT_ECC_UNCORRECTABLE, COLL_ERROR_SYSTEM, "; see the Xid in the kernel's log"},
    {CUDA_RESULT_NVLINK_UNCORRECTABLE, COLL_ERROR_SYSTEM, "; see the Xid in the kernel's log"},
    {CUDA_RESULT_ILLEGAL_ADDRESS, COLL_ERROR_SYSTEM,
     "; an earlier kernel or copy used memory that is not mapped, and the GPU's context is lost"},
    {CUDA_RESULT_LAUNCH_FAILED, COLL_ERROR_SYSTEM,
     "; an earlier kernel failed, and the GPU's context is lost"},
    {CUDA_RESULT_SYSTEM_NOT_READY, COLL_ERROR_SYSTEM,
     "; GPUs behind NVSwitch need nvidia-fabricmanager to run"},
    {CUDA_RESULT_SYSTEM_DRIVER_MISMATCH, COLL_ERROR_SYSTEM,
     "; the kernel module has another version than libcuda.so.1: restart the machine"},
};

coll_status_t cuda_driver_check(const cuda_driver_t *driver, cuda_result_t result,
                                const char *function, int device) {
  const char *name = NULL, *text = NULL, *advice = "";
  char where[32] = "";
  coll_status_t status = COLL_ERROR_SYSTEM;
  if (result == CUDA_RESULT_OK) return COLL_OK;
  for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
    if (reasons[i].result != result) continue;
    status = reasons[i].status;
    advice = reasons[i].advice;
  }
  if (device != CUDA_NO_DEVICE) snprintf(where, sizeof where, " on GPU %d", device);
  if (driver->cuGetErrorName(result, &name) != CUDA_RESULT_OK || name == NULL) {
    return base_fail(status, "%s%s: CUDA error %d%s", function, where, (int)result, advice);
  }
  if (driver->cuGetErrorString(result, &text) != CUDA_RESULT_OK || text == NULL) text = "no text";
  return base_fail(status, "%s%s: %s (%s)%s", function, where, name, text, advice);
}

coll_status_t cuda_driver_check_device(const cuda_driver_t *driver, int device) {
  if (device >= 0 && device < driver->device_count) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "GPU %d does not exist: this process has %d, from 0 to %d",
                   device, driver->device_count, driver->device_count - 1);
}

/* ---- contexts --------------------------------------------------------------------------------*/

coll_status_t cuda_context_enter(const cuda_driver_t *driver, int device) {
  cuda_context_t context;
  COLL_TRY(cuda_driver_check_device(driver, device));
  COLL_TRY(cuda_driver_check(driver, driver->cuDevicePrimaryCtxRetain(&context, device),
                             "cuDevicePrimaryCtxRetain", device));
  cuda_result_t result = driver->cuCtxPushCurrent(context);
  if (result != CUDA_RESULT_OK) (void)driver->cuDevicePrimaryCtxRelease(device);
  return cuda_driver_check(driver, result, "cuCtxPushCurrent", device);
}

void cuda_context_leave(const cuda_driver_t *driver, int device) {
  cuda_context_t context;
  (void)driver->cuCtxPopCurrent(&context);
  (void)driver->cuDevicePrimaryCtxRelease(device);
}

coll_status_t cuda_context_enter_relaxed(const cuda_driver_t *driver, int device,
                                         cuda_capture_mode_t *mode) {
  *mode = CUDA_CAPTURE_RELAXED;
  COLL_TRY(cuda_context_enter(driver, device));
  coll_status_t status = cuda_driver_check(driver, driver->cuThreadExchangeStreamCaptureMode(mode),
                                           "cuThreadExchangeStreamCaptureMode", device);
  if (status != COLL_OK) cuda_context_leave(driver, device);
  return status;
}

void cuda_context_leave_relaxed(const cuda_driver_t *driver, int device, cuda_capture_mode_t mode) {
  (void)driver->cuThreadExchangeStreamCaptureMode(&mode);
  cuda_context_leave(driver, device);
}
