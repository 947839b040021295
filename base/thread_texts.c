/*
 * The pointer is kept under a key alone. glibc sets it to NULL before it calls free, so that a
 * function called by a later destructor of the thread finds none and allocates it again.
 */
#include "base/thread_texts.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/* Written once. */
static pthread_key_t key;
static bool has_key;

static void create_key(void) {
  has_key = pthread_key_create(&key, free) == 0;
}

static bool find_key(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, create_key);
  return has_key;
}

base_thread_texts_t *base_thread_texts_find(void) {
  return find_key() ? pthread_getspecific(key) : NULL;
}

base_thread_texts_t *base_thread_texts_allocate(void) {
  base_thread_texts_t *texts = base_thread_texts_find();
  if (texts != NULL || !has_key) return texts;
  texts = calloc(1, sizeof *texts);
  if (texts == NULL || pthread_setspecific(key, texts) == 0) return texts;
  free(texts);
  return NULL;
}
