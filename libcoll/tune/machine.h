/*
 * What things cost on this machine, as plain data: the fixed price of each kind of step, and the
 * price of moving a KiB by whose memory it is and how much of it is in use. Whole numbers
 * throughout, so that all ranks, whatever they were compiled with, come to the same sums.
 */
#ifndef TUNE_MACHINE_H
#define TUNE_MACHINE_H

#include <stddef.h>
#include <stdint.h>

typedef enum tune_fixed {
  TUNE_CALL,    /* a call that does nothing */
  TUNE_ENTRY,   /* with every peer, to tell each other where the buffers are */
  TUNE_HOP,     /* until what one core has stored is seen by another that looks for it */
  TUNE_MESSAGE, /* one end of a message, without its bytes */
  TUNE_LINES,   /* the same, more, of one that does not fit the cache line of its flag */
  TUNE_FLAG,    /* one end of a signal */
  TUNE_STEP,    /* a copy or a reduction, without its bytes */
  TUNE_SWITCH,  /* until a core has turned from one rank to another */
  TUNE_FIXED_COUNT
} tune_fixed_t;

typedef enum tune_move {
  TUNE_LOAD, /* users' memory, the rank's own */
  TUNE_STORE,
  TUNE_LOAD_FAR, /* users' memory, a peer's */
  TUNE_STORE_FAR,
  TUNE_ALONG, /* store a reduction's result there as well as in one's own */
  TUNE_PUSH,  /* store what a peer will load next */
  TUNE_PULL,  /* load what a peer has just stored */
  TUNE_NEAR,  /* load or store scratch that no peer looks at */
  TUNE_FOLD,  /* take one more operand into a reduction, beyond loading it */
  TUNE_MOVE_COUNT
} tune_move_t;

#define TUNE_LINE_BYTES 64

/* Calls of so many bytes were measured, on buffers that take turns. */
#define TUNE_SIZES 4
extern const size_t tune_sizes[TUNE_SIZES];

typedef struct tune_machine {
  uint32_t fixed_ps[TUNE_FIXED_COUNT];
  uint32_t move_ps[TUNE_MOVE_COUNT][TUNE_SIZES]; /* per KiB */
} tune_machine_t;

/* Some machine of today: where nothing can be measured, and where nothing should depend on it. */
extern const tune_machine_t tune_machine_builtin;

/* Where a size stands among all: 0 for 0 and 1 bytes, and two more with each doubling. */
#define TUNE_CLASSES 128
static inline int tune_class_of(size_t bytes) {
  if (bytes < 2) return 0;
  int log = 63 - __builtin_clzll((unsigned long long)bytes);
  return 2 * log + (int)(bytes >> (log - 1) & 1);
}
size_t tune_class_bytes(int class); /* the least of the class */

/* Picoseconds per KiB in calls of `bytes`. */
uint64_t tune_machine_move_ps(const tune_machine_t *machine, tune_move_t move, size_t bytes);

const char *tune_fixed_name(tune_fixed_t fixed); /* "hop" */
const char *tune_move_name(tune_move_t move);    /* "load_far" */

#endif
