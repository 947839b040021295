/* The default number of threads of a rank. */
#ifndef LIBTRAIN_COMMON_THREADS_H
#define LIBTRAIN_COMMON_THREADS_H

/* This process's share of the cores it may run on, when `ranks_here` ranks share the machine; at
 * least 1. */
int train_threads_default(int ranks_here);

#endif
