/* How many threads a rank computes with: those of the matrix products. */
#ifndef LIBTRAIN_THREADS_H
#define LIBTRAIN_THREADS_H

/* This process's fair share of the cores it may run on, when `ranks_here` ranks share the machine;
 * at least 1. */
int train_threads_share(int ranks_here);

/* Sets the number for all later work of this process; threads >= 1. */
void train_threads_set(int threads);

#endif
