/*
 * The order in which the windows of a dataset are trained on: every window once an epoch, shuffled
 * anew for each. It is a function of seed and position alone, so nobody keeps or sends a list, any
 * number of ranks share it, and a run goes on exactly where it was.
 */
#ifndef LIBTRAIN_DATA_ORDER_H
#define LIBTRAIN_DATA_ORDER_H

#include <stdint.h>

/* The window, below `windows`, that is drawn as number `draw` since the beginning of the run;
 * epochs are `windows` draws long. windows > 0. A Feistel network over the next larger domain,
 * walked until it comes back into range (Black and Rogaway 2002). */
uint64_t train_order_window(uint64_t seed, uint64_t windows, uint64_t draw);

#endif
