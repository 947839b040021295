/*
 * The lock, and what ThreadSanitizer is told about order. The lock would order everything that
 * different streams do, and so hide their races. So TSan ignores it and what happens under it, and
 * is told of the order that the driver promises alone: from a call to the work that it queues, from
 * work to what waits for it.
 */
#include "gpu/standin/state.h"

#ifdef __SANITIZE_THREAD__
void AnnotateIgnoreSyncBegin(const char *file, int line);
void AnnotateIgnoreSyncEnd(const char *file, int line);
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
void __tsan_acquire(void *object);
void __tsan_release(void *object);

void standin_ignore(void) {
  AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}

void standin_heed(void) {
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
}

void standin_publish(void *object) {
  AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  __tsan_release(object);
  AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
}

void standin_observe(void *object) {
  AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  __tsan_acquire(object);
  AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
}
#else
void standin_ignore(void) {
}

void standin_heed(void) {
}

void standin_publish(void *object) {
  (void)object;
}

void standin_observe(void *object) {
  (void)object;
}
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

void standin_lock(void) {
  standin_ignore();
  pthread_mutex_lock(&lock);
}

void standin_unlock(void) {
  pthread_mutex_unlock(&lock);
  standin_heed();
}

void standin_wait(void) {
  pthread_cond_wait(&changed, &lock);
}

void standin_wake(void) {
  pthread_cond_broadcast(&changed);
}
