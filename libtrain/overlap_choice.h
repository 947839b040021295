/*
 * Chooses how far the collectives of the tensor axis overlap with matrix products
 * (train_model_axes_t.tensor_overlap): the candidates take turns in the first steps of a run, and
 * the one whose median step is shortest remains. Without overlap is kept unless another one is
 * faster by TRAIN_OVERLAP_GAIN, as differences below that are noise.
 *
 * Which candidate a measured step has depends on its number only; what rank 0 has measured decides
 * for all.
 */
#ifndef LIBTRAIN_OVERLAP_CHOICE_H
#define LIBTRAIN_OVERLAP_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#define TRAIN_OVERLAP_CANDIDATES 4
#define TRAIN_OVERLAP_TRIES 3
#define TRAIN_OVERLAP_GAIN 0.02

/* train_overlap_candidates[0] is 0, without overlap. */
extern const int train_overlap_candidates[TRAIN_OVERLAP_CANDIDATES];

/* Zeroed, it has measured nothing. */
typedef struct train_overlap_choice {
  double ms[TRAIN_OVERLAP_CANDIDATES][TRAIN_OVERLAP_TRIES]; /* of steps */
  int chosen; /* index of a candidate, from the step after the decision on */
} train_overlap_choice_t;

/* The index of the candidate of a step; `step` counts those of the run, from 0. */
int train_overlap_of_step(const train_overlap_choice_t *choice, uint64_t step);

/* Stores the time of the step, if it is a measured one. */
void train_overlap_add(train_overlap_choice_t *choice, uint64_t step, double ms);

/* Whether this is the step in whose course the choice is to be made: all times are there. */
bool train_overlap_decides(uint64_t step);

/* The median time of a candidate, and the index of the best one. */
double train_overlap_ms(const train_overlap_choice_t *choice, int candidate);
int train_overlap_best(const train_overlap_choice_t *choice);

#endif
