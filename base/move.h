/*
 * Alternatives to memcpy: short copies inline, long copies by the processor's string instructions,
 * and long copies with non-temporal stores. Some processors store full lines by string instructions
 * without reading them first, which saves a third of the memory traffic of a copy; the destination
 * stays cached.
 */
#ifndef BASE_MOVE_H
#define BASE_MOVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* 1 if non-temporal stores are used: not with sanitizers, which cannot see inline assembly. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define BASE_MOVES_PAST_CACHES 1
#else
#define BASE_MOVES_PAST_CACHES 0
#endif

#define BASE_MOVE_SHORT 48
#define BASE_MOVE_LINE 64

/* Returns whether the processor reports fast string instructions (ERMS). Cheap. */
bool base_moves_strings(void);

/* As memcpy, by string instructions where available. Sanitizers cannot see those, so it is memcpy
 * in their builds. */
static inline void base_move_string(void *dst, const void *src, size_t bytes) {
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
  __asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(bytes) : : "memory");
#else
  memcpy(dst, src, bytes);
#endif
}

/* As memcpy, with non-temporal stores if BASE_MOVES_PAST_CACHES. dst is aligned to BASE_MOVE_LINE.
 * Other threads see the data before anything that the caller stores afterwards. */
static inline void base_move_past_caches(void *dst, const void *src, size_t bytes) {
  char *to = dst;
  const char *from = src;
  size_t i = 0;
#if BASE_MOVES_PAST_CACHES
  for (; i + BASE_MOVE_LINE <= bytes; i += BASE_MOVE_LINE) {
    for (size_t part = i; part < i + BASE_MOVE_LINE; part += sizeof(uint64_t)) {
      uint64_t word;
      memcpy(&word, from + part, sizeof word);
      __asm__ volatile("movnti %1, %0" : "=m"(*(uint64_t *)(void *)(to + part)) : "r"(word));
    }
  }
  /* orders the non-temporal stores before later stores */
  __asm__ volatile("sfence" : : : "memory");
#endif
  memcpy(to + i, from + i, bytes - i);
}

/* As memcpy, for at most BASE_MOVE_SHORT bytes, faster than a function call. dst may equal src. */
static inline void base_move_short(void *dst, const void *src, size_t bytes) {
  char *to = dst;
  const char *from = src;
  if (bytes >= 16) { /* blocks that may overlap; the last one ends with the last byte */
    if (bytes > 32) memcpy(to + 16, from + 16, 16);
    memcpy(to, from, 16);
    memcpy(to + bytes - 16, from + bytes - 16, 16);
  } else if (bytes >= 8) {
    memcpy(to, from, 8);
    memcpy(to + bytes - 8, from + bytes - 8, 8);
  } else if (bytes >= 4) {
    memcpy(to, from, 4);
    memcpy(to + bytes - 4, from + bytes - 4, 4);
  } else if (bytes > 0) {
    to[0] = from[0];
    to[bytes / 2] = from[bytes / 2];
    to[bytes - 1] = from[bytes - 1];
  }
}

#endif
