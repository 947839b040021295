/*
 * Streams: a thread each, which carries out the queued operations in order. The legacy default
 * stream waits for the blocking streams of its context, and they for it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "gpu/standin/graph.h"

#define LEGACY_HANDLE ((cuda_stream_t)1)
#define PER_THREAD_HANDLE ((cuda_stream_t)2)

static void *run(void *argument);

/* A stream with its thread; NULL: the system refuses the thread. */
static cuda_stream_t create(cuda_context_t context, unsigned flags) {
  pthread_t thread;
  cuda_stream_t stream = calloc(1, sizeof *stream);
  if (stream == NULL) return NULL;
  stream->context = context;
  stream->flags = flags;
  stream->random = (standin.seed + ++standin.last_id) * 0x9e3779b97f4a7c15u;
  if (pthread_create(&thread, NULL, run, stream) != 0) {
    free(stream);
    return NULL;
  }
  pthread_detach(thread);
  stream->next = standin.streams;
  standin.streams = stream;
  return stream;
}

cuda_stream_t standin_stream_hidden(cuda_context_t context) {
  cuda_stream_t stream = create(context, CUDA_STREAM_NON_BLOCKING);
  if (stream != NULL) stream->hidden = true;
  return stream;
}

/* The default stream of the calling thread, made anew if the context was destroyed. */
static cuda_stream_t per_thread(cuda_context_t context) {
  static _Thread_local cuda_stream_t streams[STANDIN_GPUS_MAX];
  cuda_stream_t *stream = &streams[context->device];
  if (*stream != NULL && !(*stream)->destroyed) return *stream;
  *stream = create(context, 0);
  if (*stream != NULL) (*stream)->hidden = true;
  return *stream;
}

cuda_stream_t standin_stream(cuda_context_t context, cuda_stream_t handle) {
  if (handle == PER_THREAD_HANDLE) return per_thread(context);
  if (handle == NULL || handle == LEGACY_HANDLE) {
    if (context->legacy == NULL) context->legacy = create(context, 0);
    return context->legacy;
  }
  for (cuda_stream_t s = standin.streams; s != NULL; s = s->next) {
    if (s != handle) continue;
    if (s->destroyed) standin_misuse("use of a stream that was destroyed");
    return s->destroyed ? NULL : s;
  }
  standin_misuse("use of a stream that does not exist");
  return NULL;
}

void standin_stream_end(cuda_stream_t stream) {
  stream->destroyed = true;
  standin_wake();
}

void standin_stream_destroy_all(cuda_context_t context, bool reset) {
  for (cuda_stream_t s = standin.streams; s != NULL; s = s->next) {
    if (s->context != context || s->destroyed) continue;
    if (s != context->legacy && !s->hidden && !reset) {
      standin_misuse("a stream was left when the context of GPU %d was destroyed", context->device);
    }
    standin_stream_end(s);
  }
  context->legacy = NULL;
  for (cuda_event_t e = standin.events; e != NULL; e = e->next) {
    if (e->context != context || e->destroyed) continue;
    if (!reset) {
      standin_misuse("an event was left when the context of GPU %d was destroyed", context->device);
    }
    e->destroyed = true;
  }
}

static void wait_for(cuda_stream_t stream, uint64_t number) {
  while (stream->completed < number) standin_wait();
  standin_observe(stream);
}

void standin_drain(cuda_context_t context) {
  for (cuda_stream_t s = standin.streams; s != NULL; s = s->next) {
    if (s->context == context) wait_for(s, s->submitted);
  }
}

/* ---- queues ----------------------------------------------------------------------------------*/

cuda_result_t standin_append(cuda_stream_t stream, const operation_t *operation) {
  operation_t *copy = malloc(sizeof *copy);
  if (copy == NULL) return CUDA_RESULT_OUT_OF_MEMORY;
  *copy = *operation;
  copy->next = NULL;
  if (copy->kind == OPERATION_KERNEL) {
    while (stream->launches >= standin.queue) standin_wait();
    stream->launches++;
  }
  if (stream->first == NULL) {
    stream->first = copy;
  } else {
    stream->last->next = copy;
  }
  stream->last = copy;
  stream->submitted++;
  standin_publish(copy);
  standin_wake();
  return CUDA_RESULT_OK;
}

cuda_result_t standin_append_after(cuda_stream_t stream, cuda_stream_t other) {
  operation_t after = {.kind = OPERATION_AFTER, .other = other, .value = other->submitted};
  return standin_append(stream, &after);
}

cuda_result_t standin_queue(cuda_stream_t stream, const operation_t *operation) {
  cuda_context_t context = stream->context;
  cuda_result_t result = CUDA_RESULT_OK;
  if (stream->graph != NULL) return standin_capture_add(stream, operation);
  if (stream == context->legacy) {
    result = standin_capture_check_legacy(context);
    for (cuda_stream_t s = standin.streams; s != NULL && result == CUDA_RESULT_OK; s = s->next) {
      if (s->context != context || s == stream || (s->flags & CUDA_STREAM_NON_BLOCKING) != 0) {
        continue;
      }
      result = standin_append_after(stream, s);
    }
  } else if ((stream->flags & CUDA_STREAM_NON_BLOCKING) == 0 && context->legacy != NULL) {
    result = standin_append_after(stream, context->legacy);
  }
  return result == CUDA_RESULT_OK ? standin_append(stream, operation) : result;
}

bool standin_in_use(uintptr_t base, size_t bytes) {
  for (cuda_stream_t s = standin.streams; s != NULL; s = s->next) {
    for (const operation_t *o = s->first; o != NULL; o = o->next) {
      if (o->bytes == 0) continue;
      if (o->dst < base + bytes && base < o->dst + o->bytes) return true;
      if (o->src != 0 && o->src < base + bytes && base < o->src + o->bytes) return true;
    }
  }
  return false;
}

/* ---- the threads -----------------------------------------------------------------------------*/

/* Whether the operation may still touch its memory, which may have been unmapped since. */
static bool allowed(cuda_context_t context, const operation_t *o) {
  bool copies = o->kind == OPERATION_COPY;
  bool reads = o->kind == OPERATION_WAIT32 || o->kind == OPERATION_WAIT64;
  if (o->bytes == 0) return true;
  return copies ? standin_copy_allowed(context, o)
                : standin_accessible(context, o->dst, o->bytes, !reads, false);
}

/* A flag that is so far above what is waited for is no count: it ends the waits of a call that has
 * failed (device/cuda/copy_watch.c). What was queued cannot be taken back. It is then carried out
 * in no order, on memory whose contents are undefined: streams that went on without their peers
 * copy from slots and SCRATCH that these still write. */
#define CUT_SHORT (INT64_C(1) << 61)

static bool reaches(int64_t above) {
  if (above >= CUT_SHORT) __atomic_store_n(&standin.cut, true, __ATOMIC_RELAXED);
  return above >= 0;
}

static bool fulfilled(const operation_t *o) {
  uint64_t value = o->kind == OPERATION_WAIT32
                       ? __atomic_load_n((const uint32_t *)o->dst, __ATOMIC_ACQUIRE)
                       : __atomic_load_n((const uint64_t *)o->dst, __ATOMIC_ACQUIRE);
  uint64_t mask = o->kind == OPERATION_WAIT32 ? UINT32_MAX : UINT64_MAX;
  switch (o->flags) {
    case CUDA_WAIT_EQ: return value == o->value;
    case CUDA_WAIT_AND: return (value & o->value) != 0;
    case CUDA_WAIT_NOR: return (~(value | o->value) & mask) != 0;
    default:
      return o->kind == OPERATION_WAIT32 ? (int32_t)(uint32_t)(value - o->value) >= 0
                                         : reaches((int64_t)(value - o->value));
  }
}

static void pause_for(unsigned us) {
  struct timespec time = {us / 1000000, us % 1000000 * 1000};
  if (us > 0) nanosleep(&time, NULL);
}

/* Of 0 to COLL_STANDIN_DELAY_US (xorshift64, Marsaglia 2003). */
static unsigned random_delay(cuda_stream_t stream) {
  stream->random ^= stream->random << 13;
  stream->random ^= stream->random >> 7;
  stream->random ^= stream->random << 17;
  return standin.delay_us == 0 ? 0 : (unsigned)(stream->random % (standin.delay_us + 1));
}

static void copy_words(const operation_t *o) {
  uint64_t *to = (uint64_t *)o->dst;
  const uint64_t *from = (const uint64_t *)o->src;
  for (size_t i = 0; i < o->bytes / 8; i++) to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

/* Zeros of whole pages need no memory: arenas of gigabytes are cleared, and little of them used. */
static void set_bytes(char *dst, int value, size_t bytes) {
  size_t before = -(uintptr_t)dst % STANDIN_PAGE;
  size_t pages = bytes < before ? 0 : (bytes - before) / STANDIN_PAGE * STANDIN_PAGE;
  if (value == 0 && pages > 0 && madvise(dst + before, pages, MADV_REMOVE) == 0) {
    memset(dst, 0, before);
    memset(dst + before + pages, 0, bytes - before - pages);
  } else {
    memset(dst, value, bytes);
  }
}

/* Without the lock. */
static void carry_out(const operation_t *o) {
  switch (o->kind) {
    case OPERATION_COPY:
      if (o->words) {
        copy_words(o);
      } else {
        memmove((void *)o->dst, (const void *)o->src, o->bytes);
      }
      break;
    case OPERATION_SET8: set_bytes((char *)o->dst, (int)o->value, o->bytes); break;
    case OPERATION_SET32:
      for (size_t i = 0; i < o->bytes / 4; i++) ((uint32_t *)o->dst)[i] = (uint32_t)o->value;
      break;
    case OPERATION_WRITE32:
      __atomic_store_n((uint32_t *)o->dst, (uint32_t)o->value, __ATOMIC_RELEASE);
      break;
    case OPERATION_WRITE64: __atomic_store_n((uint64_t *)o->dst, o->value, __ATOMIC_RELEASE); break;
    case OPERATION_WAIT32:
    case OPERATION_WAIT64:
      while (!fulfilled(o)) pause_for(20);
      break;
    case OPERATION_HOST: o->host(o->context); break;
    case OPERATION_KERNEL: o->kernel(o->launch); break;
    default: break;
  }
}

/* The same, when a wait was cut short. */
static void carry_out_in_no_order(const operation_t *o) {
  bool moves = o->kind == OPERATION_COPY || o->kind == OPERATION_SET8 ||
               o->kind == OPERATION_SET32 || o->kind == OPERATION_KERNEL;
  if (moves) standin_ignore();
  carry_out(o);
  if (moves) standin_heed();
}

/* With the lock, which is released while the operation runs. */
static void step(cuda_stream_t stream, operation_t *o) {
  cuda_context_t context = stream->context;
  struct timespec now;
  standin_observe(o);
  if (o->kind == OPERATION_AFTER && o->event == NULL) {
    wait_for(o->other, o->value);
  } else if (o->kind == OPERATION_AFTER) {
    while (o->other->completed < o->value) standin_wait();
    standin_observe(o->event);
  } else if (o->kind == OPERATION_EVENT) {
    clock_gettime(CLOCK_MONOTONIC, &now);
    o->event->time_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    standin_publish(o->event);
  } else if (o->kind == OPERATION_FREE) {
    if (!standin_free_queued(o->dst)) standin_misuse("cuMemFreeAsync of memory that was freed");
  } else if (context->failure != CUDA_RESULT_OK) {
    /* A failed context carries nothing out. */
  } else if (!allowed(context, o)) {
    standin_misuse("queued work of GPU %d uses memory that it cannot access", context->device);
    context->failure = CUDA_RESULT_ILLEGAL_ADDRESS;
  } else {
    unsigned delay_us = random_delay(stream);
    standin_unlock();
    pause_for(delay_us);
    if (__atomic_load_n(&standin.cut, __ATOMIC_RELAXED)) {
      carry_out_in_no_order(o);
    } else {
      carry_out(o);
    }
    standin_lock();
  }
}

static void *run(void *argument) {
  cuda_stream_t stream = argument;
  standin_lock();
  while (stream->first != NULL || !stream->destroyed) {
    operation_t *o = stream->first;
    if (o == NULL) {
      standin_wait();
      continue;
    }
    step(stream, o);
    stream->first = o->next;
    stream->completed++;
    if (o->kind == OPERATION_KERNEL) stream->launches--;
    standin_publish(stream);
    free(o->launch);
    free(o);
    standin_wake();
  }
  standin_unlock();
  return NULL;
}

/* ---- functions -------------------------------------------------------------------------------*/

/* Enters; *stream is what the handle means in the current context. */
static cuda_result_t enter(cuda_stream_t handle, cuda_stream_t *stream) {
  cuda_context_t context;
  cuda_result_t result = standin_enter_context(&context);
  if (result != CUDA_RESULT_OK) return result;
  *stream = standin_stream(context, handle);
  if (*stream == NULL) return standin_leave(CUDA_RESULT_INVALID_HANDLE);
  if ((*stream)->context->failure != CUDA_RESULT_OK) {
    return standin_leave((*stream)->context->failure);
  }
  return CUDA_RESULT_OK;
}

cuda_result_t cuStreamCreateWithPriority(cuda_stream_t *stream, unsigned flags, int priority) {
  cuda_context_t context;
  (void)priority; /* the driver brings it into its range */
  cuda_result_t result = standin_enter_context(&context);
  if (result != CUDA_RESULT_OK) return result;
  if (stream == NULL || flags > CUDA_STREAM_NON_BLOCKING) {
    return standin_leave(CUDA_RESULT_INVALID_VALUE);
  }
  *stream = create(context, flags);
  return standin_leave(*stream == NULL ? CUDA_RESULT_OUT_OF_MEMORY : CUDA_RESULT_OK);
}

struct CUgreenCtx_st *standin_green(int device) {
  static struct CUgreenCtx_st contexts[STANDIN_GPUS_MAX];
  contexts[device].device = device;
  return &contexts[device];
}

/* The stream is of the green context, whatever context is current. */
cuda_result_t cuGreenCtxStreamCreate(cuda_stream_t *stream, cuda_green_t green, unsigned flags,
                                     int priority) {
  (void)priority;
  cuda_result_t result = standin_enter();
  if (result != CUDA_RESULT_OK) return result;
  if (stream == NULL || green == NULL || flags != CUDA_STREAM_NON_BLOCKING) {
    return standin_leave(CUDA_RESULT_INVALID_VALUE);
  }
  cuda_context_t primary = &standin.contexts[green->device];
  if (primary->retains == 0) return standin_leave(CUDA_RESULT_INVALID_CONTEXT);
  *stream = create(primary, flags);
  if (*stream != NULL) (*stream)->green = green;
  return standin_leave(*stream == NULL ? CUDA_RESULT_OUT_OF_MEMORY : CUDA_RESULT_OK);
}

cuda_result_t cuStreamGetGreenCtx(cuda_stream_t handle, cuda_green_t *green) {
  cuda_stream_t stream;
  cuda_result_t result = enter(handle, &stream);
  if (result != CUDA_RESULT_OK) return result;
  *green = stream->green;
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  cuda_context_t context;
  cuda_result_t result = standin_enter_context(&context);
  if (result != CUDA_RESULT_OK) return result;
  if (least != NULL) *least = 0;
  if (greatest != NULL) *greatest = -5;
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuStreamDestroy_v2(cuda_stream_t handle) {
  cuda_stream_t stream;
  if ((uintptr_t)handle <= (uintptr_t)PER_THREAD_HANDLE) return CUDA_RESULT_INVALID_HANDLE;
  cuda_result_t result = enter(handle, &stream);
  if (result != CUDA_RESULT_OK) return result;
  if (stream->graph != NULL) return standin_leave(CUDA_RESULT_CAPTURE_UNSUPPORTED);
  standin_stream_end(stream); /* what is queued is still carried out */
  return standin_leave(CUDA_RESULT_OK);
}

/* The same to ask or wait for the stream, which is refused during captures. */
static cuda_result_t enter_uncaptured(cuda_stream_t handle, cuda_stream_t *stream) {
  cuda_context_t context;
  cuda_result_t result = standin_enter_uncaptured(&context);
  if (result != CUDA_RESULT_OK) return result;
  standin_leave(result);
  result = enter(handle, stream);
  if (result != CUDA_RESULT_OK) return result;
  if (*stream == (*stream)->context->legacy) {
    result = standin_capture_check_legacy((*stream)->context);
  } else if ((*stream)->graph != NULL) {
    (*stream)->graph->is_invalid = true;
    result = CUDA_RESULT_CAPTURE_UNSUPPORTED;
  }
  return result == CUDA_RESULT_OK ? result : standin_leave(result);
}

cuda_result_t cuStreamQuery(cuda_stream_t handle) {
  cuda_stream_t stream;
  cuda_result_t result = enter_uncaptured(handle, &stream);
  if (result != CUDA_RESULT_OK) return result;
  bool idle = stream->completed == stream->submitted;
  if (idle) standin_observe(stream);
  return standin_leave(idle ? CUDA_RESULT_OK : CUDA_RESULT_NOT_READY);
}

cuda_result_t cuStreamSynchronize(cuda_stream_t handle) {
  cuda_stream_t stream;
  cuda_result_t result = enter_uncaptured(handle, &stream);
  if (result != CUDA_RESULT_OK) return result;
  wait_for(stream, stream->submitted);
  return standin_leave(stream->context->failure);
}

cuda_result_t cuStreamGetCtx(cuda_stream_t handle, cuda_context_t *context) {
  cuda_stream_t stream;
  cuda_result_t result = enter(handle, &stream);
  if (result != CUDA_RESULT_OK) return result;
  *context = stream->green != NULL ? &stream->green->handle : stream->context;
  return standin_leave(CUDA_RESULT_OK);
}
