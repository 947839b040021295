/*
 * Choices that were measured on this machine, kept in a file of the user's cache folder
 * ($XDG_CACHE_HOME/libcoll or ~/.cache/libcoll). All processes of a machine make the same choice,
 * because one measures it while the others wait, and later runs read it.
 */
#ifndef LIBTRAIN_GEMM_CHOICE_H
#define LIBTRAIN_GEMM_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#define TRAIN_CHOICE_BYTES 32

typedef struct train_choice {
  char name[TRAIN_CHOICE_BYTES]; /* one word */
  double rate;                   /* FLOP/s */
} train_choice_t;

/* Measures and chooses. False if nothing could be measured. */
typedef bool train_choose_t(void *context, train_choice_t *choice);

/* The choice for `question`, one line of at most 100 bytes, among the machine's of the same
 * processor and `variant` (versions of libraries, a line of at most 250 bytes). If there is none,
 * calls `choose` and stores its choice. It must not ask a question itself. False, without having
 * called it, if there is no folder to write to. */
bool train_choice_get(const char *variant, const char *question, train_choose_t *choose,
                      void *context, train_choice_t *choice);

/* Processor time of the calling thread, in nanoseconds. Unlike elapsed time it does not count the
 * time that other processes run on the core, so that choices are the same on a busy machine. */
uint64_t train_choice_now_ns(void);

#endif
