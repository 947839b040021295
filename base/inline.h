/*
 * Control over inlining. Code that most calls skip is kept out of line: the calling function then
 * saves fewer registers, and its hot path is contiguous.
 */
#ifndef BASE_INLINE_H
#define BASE_INLINE_H

/* For functions that become small once their constant arguments are known. */
#define BASE_INLINE static inline __attribute__((always_inline))

#define BASE_APART __attribute__((noinline))

/* Out of line and in the cold section: for failures and first uses, which may be slow. */
#define BASE_COLD __attribute__((noinline, cold))

/* Keeps compilers from narrowing a word of which only few bits are used. Short of registers, they
 * would store the narrow part and reload the full word; such a load cannot be forwarded from the
 * store and waits until the store has reached the cache, which takes longer than some calls. */
#define BASE_WHOLE(word) __asm__("" : "+r"(word))

#endif
