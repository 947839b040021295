/*
 * Costs on this machine, as plain data: a fixed price per kind of step, and a price per KiB moved,
 * which depends on whose memory it is and on how much memory the call uses (cache effects). All
 * arithmetic uses integers, so all ranks compute the same sums, whatever compiler built them.
 */
#ifndef TUNE_MACHINE_H
#define TUNE_MACHINE_H

#include <stddef.h>
#include <stdint.h>

typedef enum tune_fixed {
  TUNE_CALL,     /* a call without any steps */
  TUNE_ENTRY,    /* the address exchange with one peer */
  TUNE_HOP,      /* latency from a store by one core to its detection by a core that polls for it */
  TUNE_MESSAGE,  /* one end of a message, without its bytes */
  TUNE_LINES,    /* extra cost of one end of a message that does not fit in the cache line of its
                    flag */
  TUNE_FLAG,     /* one end of a signal */
  TUNE_STEP,     /* a copy or a reduction, without its bytes */
  TUNE_SWITCH,   /* a context switch between two ranks of a core */
  TUNE_GET_CALL, /* a get (transport/ops.h), without its bytes */
  TUNE_DISTANT,  /* a core's time for one end of a message or signal between ranks that share no
                    memory, without its bytes: system calls and the kernel's work; at most half of a
                    hop that was measured, or half of the call that sends (lifetime/network.h) */
  TUNE_FIXED_COUNT
} tune_fixed_t;

typedef enum tune_move {
  TUNE_LOAD, /* the rank's own user memory */
  TUNE_STORE,
  TUNE_LOAD_FAR, /* a peer's user memory */
  TUNE_STORE_FAR,
  TUNE_ALONG, /* store a reduction's result to a peer's memory along with the rank's own (fused
                 copy) */
  TUNE_PUSH,  /* store data that a peer loads next (message slots, shared scratch) */
  TUNE_PULL,  /* load data that a peer has just stored */
  TUNE_NEAR,  /* load or store data near in this core's cache: scratch that no peer accesses */
  TUNE_GET,   /* beyond loading a peer's mapped memory: getting memory that is not mapped */
  TUNE_FOLD,  /* compute with one more operand of a reduction (fold), excluding its load */
  TUNE_CROSS, /* beyond TUNE_PUSH or TUNE_PULL: one end of a message between ranks that share no
                 memory. Built in as 0; measured between hosts (lifetime/network.h) */
  TUNE_MOVE_COUNT
} tune_move_t;

#define TUNE_LINE_BYTES 64

/* Sizes of the calls that were measured, on buffers used in rotation. */
#define TUNE_SIZES 4
extern const size_t tune_sizes[TUNE_SIZES];

typedef struct tune_machine {
  uint32_t fixed_ps[TUNE_FIXED_COUNT];
  uint32_t move_ps[TUNE_MOVE_COUNT][TUNE_SIZES]; /* per KiB */
} tune_machine_t;

/* Values of a typical machine: used where nothing can be measured, and where results must not
 * depend on the machine. */
extern const tune_machine_t tune_machine_builtin;

/* The same for ranks whose buffers are a GPU's memory. Links are not included: they are the
 * layout's. */
extern const tune_machine_t tune_machine_gpu;

/* The same where copy engines carry out the calls, each rank on a GPU of its own process, and where
 * processes take turns on a GPU, as ranks do on a core. */
extern const tune_machine_t tune_machine_copy, tune_machine_turns;

/* Size classes: class 0 has sizes 0 and 1; each further power of two is divided into two
 * classes. */
#define TUNE_CLASSES 128
static inline int tune_class_of(size_t bytes) {
  if (bytes < 2) return 0;
  int log = 63 - __builtin_clzll((unsigned long long)bytes);
  return 2 * log + (int)(bytes >> (log - 1) & 1);
}
size_t tune_class_bytes(int class); /* smallest size of the class */

/* Fine size classes: class 0 has sizes 0 and 1; each further power of two is divided into eight. */
#define TUNE_FINE_CLASSES 512
static inline int tune_fine_class_of(size_t bytes) {
  if (bytes < 2) return 0;
  int log = 63 - __builtin_clzll((unsigned long long)bytes);
  return 8 * log + (int)((log < 3 ? bytes << (3 - log) : bytes >> (log - 3)) & 7);
}
size_t tune_fine_class_bytes(size_t bytes); /* smallest size of the class that has `bytes` */

/* Price in picoseconds per KiB in calls that use `bytes` of memory. */
uint64_t tune_machine_move_ps(const tune_machine_t *machine, tune_move_t move, size_t bytes);

const char *tune_fixed_name(tune_fixed_t fixed); /* "hop" */
const char *tune_move_name(tune_move_t move);    /* "load_far" */

#endif
