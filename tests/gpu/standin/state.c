/*
 * Start, devices, contexts, errors and the report at exit.
 */
#include "gpu/standin/state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STACK_MAX 32

standin_t standin;

static _Thread_local cuda_context_t stack[STACK_MAX];
static _Thread_local int stack_depth;

long standin_setting(const char *name, long fallback) {
  const char *text = getenv(name);
  return text == NULL || text[0] == '\0' ? fallback : strtol(text, NULL, 10);
}

cuda_result_t standin_enter(void) {
  standin_lock();
  if (standin.pid == getpid()) return CUDA_RESULT_OK;
  return standin_leave(CUDA_RESULT_NOT_INITIALIZED);
}

cuda_result_t standin_leave(cuda_result_t result) {
  standin_unlock();
  return result;
}

static bool alive(cuda_context_t context) {
  for (int i = 0; i < standin.device_count; i++) {
    if (context == &standin.contexts[i]) return context->retains > 0;
  }
  return false;
}

cuda_result_t standin_enter_context(cuda_context_t *context) {
  cuda_result_t result = standin_enter();
  if (result != CUDA_RESULT_OK) return result;
  *context = stack_depth == 0 ? NULL : stack[stack_depth - 1];
  if (*context == NULL) return standin_leave(CUDA_RESULT_INVALID_CONTEXT);
  if (!alive(*context)) {
    standin_misuse("the current context was destroyed");
    return standin_leave(CUDA_RESULT_INVALID_CONTEXT);
  }
  if ((*context)->failure != CUDA_RESULT_OK) return standin_leave((*context)->failure);
  return CUDA_RESULT_OK;
}

void standin_misuse(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("libcuda stand-in: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  standin.misuses++;
}

int standin_misuses(void) {
  standin_lock();
  int count = standin.misuses;
  standin_unlock();
  return count;
}

int standin_ordinal(int gpu) {
  for (int i = 0; i < standin.device_count; i++) {
    if (standin.gpus[i] == gpu) return i;
  }
  return -1;
}

/* ---- start -----------------------------------------------------------------------------------*/

bool standin_reaches(int gpu, int other) {
  return (standin.apart[gpu] >> other & 1) == 0;
}

static void set_apart(int gpu, int other) {
  if (gpu == other) return;
  standin.apart[gpu] |= 1u << other;
  standin.apart[other] |= 1u << gpu;
}

/* COLL_STANDIN_PEERS. */
static void find_apart(void) {
  const char *text = getenv("COLL_STANDIN_PEERS");
  memset(standin.apart, 0, sizeof standin.apart);
  if (text == NULL || strcmp(text, "1") == 0) return;
  if (strcmp(text, "0") == 0) {
    for (int i = 0; i < STANDIN_GPUS_MAX * STANDIN_GPUS_MAX; i++) {
      set_apart(i / STANDIN_GPUS_MAX, i % STANDIN_GPUS_MAX);
    }
    return;
  }
  do {
    char *end;
    long gpu = strtol(text, &end, 10), other = *end == '-' ? strtol(end + 1, &end, 10) : -1;
    if (gpu < 0 || other < 0 || gpu >= STANDIN_GPUS_MAX || other >= STANDIN_GPUS_MAX) {
      fprintf(stderr, "stand-in: COLL_STANDIN_PEERS is 0, 1, or pairs of GPUs, as 0-1,2-3\n");
      abort();
    }
    set_apart((int)gpu, (int)other);
    text = end;
  } while (*text++ == ',');
}

/* CUDA_VISIBLE_DEVICES: numbers up to the first that does not exist. */
static void find_devices(int gpus) {
  const char *text = getenv("CUDA_VISIBLE_DEVICES");
  standin.device_count = 0;
  if (text == NULL) {
    for (int i = 0; i < gpus; i++) standin.gpus[standin.device_count++] = i;
    return;
  }
  while (*text != '\0' && standin.device_count < STANDIN_GPUS_MAX) {
    char *end;
    long gpu = strtol(text, &end, 10);
    if (end == text || gpu < 0 || gpu >= gpus) return;
    standin.gpus[standin.device_count++] = (int)gpu;
    text = *end == ',' ? end + 1 : end;
  }
}

cuda_result_t cuInit(unsigned flags) {
  standin_lock();
  if (flags != 0) return standin_leave(CUDA_RESULT_INVALID_VALUE);
  if (standin.pid != 0) {
    bool forked = standin.pid != getpid();
    return standin_leave(forked ? CUDA_RESULT_NOT_INITIALIZED : CUDA_RESULT_OK);
  }
  long gpus = standin_setting("COLL_STANDIN_GPUS", 2);
  if (gpus > STANDIN_GPUS_MAX) gpus = STANDIN_GPUS_MAX;
  find_devices((int)gpus);
  find_apart();
  standin.nvlink = standin_setting("COLL_STANDIN_NVLINK", 1) != 0;
  standin.vmm = standin_setting("COLL_STANDIN_NO_VMM", 0) == 0;
  standin.domains = (int)standin_setting("COLL_STANDIN_DOMAINS", 4);
  standin.mps = standin_setting("COLL_STANDIN_MPS", 0) != 0;
  standin.delay_us = (unsigned)standin_setting("COLL_STANDIN_DELAY_US", 0);
  standin.seed = (uint64_t)standin_setting("COLL_STANDIN_SEED", 1);
  standin.queue = standin_setting("COLL_STANDIN_QUEUE", 1024);
  standin.gpu_bytes = (size_t)standin_setting("COLL_STANDIN_BYTES", 16L << 30);
  for (int i = 0; i < standin.device_count; i++) standin.contexts[i].device = i;
  if (standin.device_count == 0) return standin_leave(CUDA_RESULT_NO_DEVICE);
  standin.pid = getpid();
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuDriverGetVersion(int *version) {
  if (version == NULL) return CUDA_RESULT_INVALID_VALUE;
  *version = (int)standin_setting("COLL_STANDIN_VERSION", STANDIN_VERSION);
  return CUDA_RESULT_OK;
}

/* ---- contexts --------------------------------------------------------------------------------*/

static bool exists(cuda_device_t device) {
  return device >= 0 && device < standin.device_count;
}

cuda_result_t cuDevicePrimaryCtxRetain(cuda_context_t *context, cuda_device_t device) {
  cuda_result_t result = standin_enter();
  if (result != CUDA_RESULT_OK) return result;
  if (!exists(device)) return standin_leave(CUDA_RESULT_INVALID_DEVICE);
  *context = &standin.contexts[device];
  if (standin_setting("COLL_STANDIN_TAKEN", 0) != 0) {
    return standin_leave(CUDA_RESULT_DEVICE_UNAVAILABLE);
  }
  (*context)->retains++;
  return standin_leave(CUDA_RESULT_OK);
}

void standin_lose(int device) {
  standin_lock();
  standin.contexts[device].failure = CUDA_RESULT_ILLEGAL_ADDRESS;
  standin_unlock();
}

static void destroy_objects(cuda_context_t context, bool reset) {
  standin_drain(context);
  standin_stream_destroy_all(context, reset);
  standin_memory_destroy_all(context, reset);
  memset(context->peers, 0, sizeof context->peers);
  context->failure = CUDA_RESULT_OK;
}

cuda_result_t cuDevicePrimaryCtxRelease_v2(cuda_device_t device) {
  cuda_result_t result = standin_enter();
  if (result != CUDA_RESULT_OK) return result;
  if (!exists(device)) return standin_leave(CUDA_RESULT_INVALID_DEVICE);
  cuda_context_t context = &standin.contexts[device];
  if (context->retains == 0) {
    standin_misuse("the context of GPU %d was released more often than retained", device);
    return standin_leave(CUDA_RESULT_INVALID_CONTEXT);
  }
  if (--context->retains == 0) {
    destroy_objects(context, false);
  }
  return standin_leave(CUDA_RESULT_OK);
}

/* Destroys all objects of the context. Unlike the driver's, it stays active where others than the
 * CUDA runtime retain it. */
cuda_result_t cuDevicePrimaryCtxReset_v2(cuda_device_t device) {
  cuda_result_t result = standin_enter();
  if (result != CUDA_RESULT_OK) return result;
  if (!exists(device)) return standin_leave(CUDA_RESULT_INVALID_DEVICE);
  destroy_objects(&standin.contexts[device], true);
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuDevicePrimaryCtxGetState(cuda_device_t device, unsigned *flags, int *active) {
  cuda_result_t result = standin_enter();
  if (result != CUDA_RESULT_OK) return result;
  if (!exists(device)) return standin_leave(CUDA_RESULT_INVALID_DEVICE);
  *flags = 0;
  *active = standin.contexts[device].retains > 0;
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuCtxPushCurrent_v2(cuda_context_t context) {
  cuda_result_t result = standin_enter();
  if (result != CUDA_RESULT_OK) return result;
  if (!alive(context)) return standin_leave(CUDA_RESULT_INVALID_CONTEXT);
  if (stack_depth == STACK_MAX) return standin_leave(CUDA_RESULT_OUT_OF_MEMORY);
  stack[stack_depth++] = context;
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuCtxPopCurrent_v2(cuda_context_t *context) {
  cuda_result_t result = standin_enter();
  if (result != CUDA_RESULT_OK) return result;
  if (stack_depth == 0) return standin_leave(CUDA_RESULT_INVALID_CONTEXT);
  *context = stack[--stack_depth];
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuCtxGetCurrent(cuda_context_t *context) {
  cuda_result_t result = standin_enter();
  if (result != CUDA_RESULT_OK) return result;
  *context = stack_depth == 0 ? NULL : stack[stack_depth - 1];
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuCtxSetCurrent(cuda_context_t context) {
  cuda_result_t result = standin_enter();
  if (result != CUDA_RESULT_OK) return result;
  if (context != NULL && !alive(context)) return standin_leave(CUDA_RESULT_INVALID_CONTEXT);
  if (stack_depth > 0) stack_depth--;
  if (context != NULL) stack[stack_depth++] = context;
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuCtxGetDevice(cuda_device_t *device) {
  cuda_context_t context;
  cuda_result_t result = standin_enter_context(&context);
  if (result != CUDA_RESULT_OK) return result;
  *device = context->device;
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuCtxSynchronize(void) {
  cuda_context_t context;
  cuda_result_t result = standin_enter_uncaptured(&context);
  if (result != CUDA_RESULT_OK) return result;
  standin_drain(context);
  return standin_leave(context->failure);
}

cuda_result_t cuCtxEnablePeerAccess(cuda_context_t peer, unsigned flags) {
  cuda_context_t context;
  cuda_result_t result = standin_enter_context(&context);
  if (result != CUDA_RESULT_OK) return result;
  if (flags != 0) return standin_leave(CUDA_RESULT_INVALID_VALUE);
  if (!alive(peer) || peer == context) return standin_leave(CUDA_RESULT_INVALID_CONTEXT);
  if (!standin_reaches(standin.gpus[context->device], standin.gpus[peer->device])) {
    return standin_leave(CUDA_RESULT_PEER_ACCESS_UNSUPPORTED);
  }
  if (context->peers[peer->device]) return standin_leave(CUDA_RESULT_PEER_ACCESS_ALREADY_ENABLED);
  context->peers[peer->device] = true;
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuCtxDisablePeerAccess(cuda_context_t peer) {
  cuda_context_t context;
  cuda_result_t result = standin_enter_context(&context);
  if (result != CUDA_RESULT_OK) return result;
  if (!alive(peer)) return standin_leave(CUDA_RESULT_INVALID_CONTEXT);
  if (!context->peers[peer->device]) return standin_leave(CUDA_RESULT_PEER_ACCESS_NOT_ENABLED);
  context->peers[peer->device] = false;
  return standin_leave(CUDA_RESULT_OK);
}
