/*
 * Copying otherwise than by the C library: a few bytes in place, many by the processor's string
 * instructions, and many past the caches. Some processors store whole lines by string instructions
 * without having read them, which spares a third of the traffic of a copy; what is copied stays in
 * the caches.
 */
#ifndef BASE_MOVE_H
#define BASE_MOVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* There are such instructions, and no sanitizer that would not see them. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define BASE_MOVES_PAST_CACHES 1
#else
#define BASE_MOVES_PAST_CACHES 0
#endif

#define BASE_MOVE_SHORT 48
#define BASE_MOVE_LINE 64

/* Whether this processor says that its string instructions are good for it. Cheap. */
bool base_moves_strings(void);

/* As memcpy; which it is where there are no such instructions, or a sanitizer would not see them.
 */
static inline void base_move_string(void *dst, const void *src, size_t bytes) {
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
  __asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(bytes) : : "memory");
#else
  memcpy(dst, src, bytes);
#endif
}

/* As memcpy, to memory rather than to the caches where BASE_MOVES_PAST_CACHES. dst is aligned to
 * BASE_MOVE_LINE. What the caller stores next is not seen by others before this is. */
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
  __asm__ volatile("sfence" : : : "memory"); /* else they are ordered with nothing behind them */
#endif
  memcpy(to + i, from + i, bytes - i);
}

/* As memcpy, of at most BASE_MOVE_SHORT bytes, for less than a call costs. dst may equal src. */
static inline void base_move_short(void *dst, const void *src, size_t bytes) {
  char *to = dst;
  const char *from = src;
  if (bytes >= 16) { /* pieces that may overlap, of which the last ends with the bytes */
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
