/* How many threads a rank computes with, when nobody says. */
#ifndef LIBTRAIN_THREADS_H
#define LIBTRAIN_THREADS_H

/* This process's fair share of the cores it may run on, when `ranks_here` ranks share the machine;
 * at least 1. */
int train_threads_share(int ranks_here);

#endif
