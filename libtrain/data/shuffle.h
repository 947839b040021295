/*
 * The order in which the windows of a dataset are trained on: each window once per epoch, shuffled
 * anew in every epoch. The order is a pure function of seed and position, so no permutation is
 * stored or sent, any number of ranks can share it, and a resumed run continues exactly where it
 * stopped.
 */
#ifndef LIBTRAIN_DATA_SHUFFLE_H
#define LIBTRAIN_DATA_SHUFFLE_H

#include <stdint.h>

/* The window, in [0, windows), that is drawn as number `draw` since the beginning of the run. An
 * epoch has `windows` draws. windows > 0. A Feistel network over the next larger power-of-four
 * domain with cycle walking (Black and Rogaway 2002). */
uint64_t train_shuffle_window(uint64_t seed, uint64_t windows, uint64_t draw);

#endif
