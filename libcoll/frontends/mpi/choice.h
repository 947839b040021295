/*
 * Whether libcoll or the MPI carries out the calls of one verb and size on one communicator.
 *
 * A trial decides: blocks of a few calls go to libcoll and to the MPI in the order ABBA, and of
 * each block all calls but the first ones are timed, which find other data in the caches. After two
 * blocks, four and eight, the ranks agree: rank 0 gets when the first rank has entered and the last
 * rank has left each call, compares the medians, and broadcasts what it has decided, so that all
 * ranks do the same in the same call. Where the difference is small, the MPI has the calls.
 *
 * The choice holds for a number of calls in proportion to what the trial has cost, so that trials
 * take about 0.5 % of the time. Then another one begins: programs change, and so does the load of a
 * machine. Verbs whose sizes not all ranks know have one choice for all sizes, for which sums of
 * times are compared.
 */
#ifndef FRONTENDS_MPI_CHOICE_H
#define FRONTENDS_MPI_CHOICE_H

#include <stddef.h>

#include "frontends/mpi/layer.h"

#define LAYER_CLASS_COUNT 34 /* 0 bytes, 1 byte, up to 2, up to 4, ... */
#define LAYER_VERBS_MAX 16
#define LAYER_SAMPLES_MAX 16 /* timed calls of either way in a trial */

typedef enum layer_way { LAYER_SERVED, LAYER_PASSED, LAYER_WAY_COUNT } layer_way_t;

/* When a call has begun and ended, in microseconds of a clock that all ranks of a host share. */
typedef struct layer_times {
  double begin_us[LAYER_WAY_COUNT][LAYER_SAMPLES_MAX], end_us[LAYER_WAY_COUNT][LAYER_SAMPLES_MAX];
} layer_times_t;

typedef struct layer_choice {
  bool is_made;
  layer_way_t way;                 /* if it is made */
  unsigned hold;                   /* calls that go this way, until the next trial */
  unsigned confirmed;              /* trials in sequence that have made the same choice */
  double time_us[LAYER_WAY_COUNT]; /* what the last trial has found */
  unsigned calls;                  /* of the present trial */
  unsigned samples[LAYER_WAY_COUNT];
  layer_times_t times;
} layer_choice_t;

/* Rows of LAYER_CLASS_COUNT choices, allocated when first used. */
typedef struct layer_choices {
  layer_choice_t **rows[LAYER_VERBS_MAX];
} layer_choices_t;

/* What a trial has to know of its calls; the same on all ranks. */
typedef struct layer_trial {
  MPI_Comm comm;
  int rank;
  size_t bytes;       /* the upper end of the class: all calls of a trial have the same */
  bool has_one_clock; /* its ranks are in one host */
  bool is_sum;        /* compares sums, as the sizes of calls differ */
} layer_trial_t;

void layer_choices_free(layer_choices_t *choices);

int layer_class_of(size_t bytes);

/* The upper end of a class, in bytes. */
size_t layer_class_bytes(int class);

/* NULL: no memory. */
layer_choice_t *layer_choice_find(layer_choices_t *choices, int verb, int class);

/* Which way the next call of a trial goes. */
layer_way_t layer_choice_next(const layer_choice_t *choice, const layer_trial_t *trial);

/* Records a call of a trial, and where the ranks have to agree, carries out two collectives of the
 * MPI. */
void layer_choice_record(layer_choice_t *choice, const layer_trial_t *trial, double begin_us,
                         double end_us);

#endif
