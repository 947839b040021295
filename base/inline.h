/*
 * Where a function's code goes: what a call usually passes by is kept out of line, so that it costs
 * the function that may call it no registers to save, and the usual path lies together.
 */
#ifndef BASE_INLINE_H
#define BASE_INLINE_H

/* For what shrinks once its constant arguments are known. */
#define BASE_INLINE static inline __attribute__((always_inline))

#define BASE_APART __attribute__((noinline))

/* The same for failures and first times, which may be slow. */
#define BASE_COLD __attribute__((noinline, cold))

/* Keeps compilers from making less of a word of which they see that few bits are used. Out of
 * registers, they would store the part and load the word, and a load of which only a part was just
 * stored waits until that store is through, longer than some calls take. */
#define BASE_WHOLE(word) __asm__("" : "+r"(word))

#endif
