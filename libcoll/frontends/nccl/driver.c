/*
 * CUDA's driver: some of its functions, by the interface of its reference manual.
 */
#include "frontends/nccl/driver.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "frontends/nccl/errors.h"

#define MEMORY_TYPE 2 /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE */
#define IS_MANAGED 8  /* CU_POINTER_ATTRIBUTE_IS_MANAGED */
#define TYPE_HOST 1   /* CU_MEMORYTYPE_HOST */
#define TYPE_DEVICE 2 /* CU_MEMORYTYPE_DEVICE */

typedef struct driver {
  int (*pointer_attribute)(void *value, int attribute, uintptr_t ptr);
  int (*context_device)(int *device);
  int (*init)(unsigned flags);
  int (*count)(int *devices);
  int (*retain)(void **context, int device);
  int (*release)(int device);
  int (*push)(void *context);
  int (*pop)(void **context);
  int (*copy)(uintptr_t dst, uintptr_t src, size_t bytes, void *stream);
  int (*synchronize)(void *stream);
} driver_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static driver_t functions;               /* written before `driver` */
static _Atomic(const driver_t *) driver; /* NULL until it is found */

static void forget(void) {
  pthread_mutex_init(&lock, NULL);
}
NCCL_IN_CHILD(forget);

/* dlsym returns an object pointer; ISO C has no cast from that to a function. */
static bool look_up(void *library, const char *name, void *function) {
  void *found = dlsym(library, name);
  memcpy(function, &found, sizeof found);
  return found != NULL;
}

/* The handle is kept: what was found must stay loaded. */
static bool look_up_all(void *library) {
  driver_t *f = &functions;
  bool found = look_up(library, "cuPointerGetAttribute", &f->pointer_attribute);
  found = look_up(library, "cuCtxGetDevice", &f->context_device) && found;
  (void)look_up(library, "cuInit", &f->init);
  (void)look_up(library, "cuDeviceGetCount", &f->count);
  (void)look_up(library, "cuDevicePrimaryCtxRetain", &f->retain);
  (void)look_up(library, "cuDevicePrimaryCtxRelease_v2", &f->release);
  (void)look_up(library, "cuCtxPushCurrent_v2", &f->push);
  (void)look_up(library, "cuCtxPopCurrent_v2", &f->pop);
  (void)look_up(library, "cuMemcpyAsync", &f->copy);
  (void)look_up(library, "cuStreamSynchronize", &f->synchronize);
  return found;
}

bool nccl_driver_find(void) {
  if (atomic_load_explicit(&driver, memory_order_acquire) != NULL) return true;
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == NULL) return false;
  pthread_mutex_lock(&lock);
  if (atomic_load(&driver) == NULL && look_up_all(library)) atomic_store(&driver, &functions);
  pthread_mutex_unlock(&lock);
  return atomic_load(&driver) != NULL;
}

static const driver_t *found_driver(void) {
  return atomic_load_explicit(&driver, memory_order_acquire);
}

int nccl_driver_device(void) {
  int device = -1;
  const driver_t *d = found_driver();
  return d != NULL && d->context_device(&device) == 0 ? device : -1;
}

int nccl_driver_devices(void) {
  int devices = 0;
  const driver_t *d = found_driver();
  if (d == NULL || d->init == NULL || d->count == NULL || d->init(0) != 0) return 0;
  return d->count(&devices) == 0 ? devices : 0;
}

nccl_memory_t nccl_driver_memory(const void *ptr) {
  unsigned type = 0, managed = 0;
  const driver_t *d = found_driver();
  if (d == NULL || ptr == NULL) return NCCL_MEMORY_PLAIN;
  if (d->pointer_attribute(&type, MEMORY_TYPE, (uintptr_t)ptr) != 0) return NCCL_MEMORY_PLAIN;
  if (type == TYPE_HOST) return NCCL_MEMORY_SHARED;
  if (type != TYPE_DEVICE) return NCCL_MEMORY_PLAIN;
  bool is_managed = d->pointer_attribute(&managed, IS_MANAGED, (uintptr_t)ptr) == 0 && managed != 0;
  return is_managed ? NCCL_MEMORY_SHARED : NCCL_MEMORY_DEVICE;
}

bool nccl_driver_enter(int device) {
  void *context;
  const driver_t *d = found_driver();
  if (d == NULL || d->retain == NULL || d->release == NULL || d->push == NULL || d->pop == NULL) {
    return false;
  }
  if (d->retain(&context, device) != 0) return false;
  if (d->push(context) == 0) return true;
  (void)d->release(device);
  return false;
}

void nccl_driver_leave(int device) {
  void *context;
  const driver_t *d = found_driver();
  (void)d->pop(&context);
  (void)d->release(device);
}

bool nccl_driver_read(int device, void *host, const void *ptr, size_t bytes) {
  const driver_t *d = found_driver();
  if (d == NULL || d->copy == NULL || d->synchronize == NULL) return false;
  if (!nccl_driver_enter(device)) return false;
  bool read =
      d->copy((uintptr_t)host, (uintptr_t)ptr, bytes, NULL) == 0 && d->synchronize(NULL) == 0;
  nccl_driver_leave(device);
  return read;
}
