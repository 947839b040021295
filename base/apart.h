/*
 * Functions kept out of line: what a call usually passes by then costs the function that may call
 * it no registers to save, and the usual path lies together.
 */
#ifndef BASE_APART_H
#define BASE_APART_H

#define BASE_APART __attribute__((noinline))

/* The same for failures and first times, which may be slow. */
#define BASE_COLD __attribute__((noinline, cold))

#endif
