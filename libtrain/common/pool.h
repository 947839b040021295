/*
 * The thread pool of a rank. A run executes a number of tasks on all threads including the
 * caller's. Each thread takes the next task when it is free, so a thread that loses its core to
 * another process delays nobody. Results never depend on which thread executes a task.
 */
#ifndef LIBTRAIN_COMMON_POOL_H
#define LIBTRAIN_COMMON_POOL_H

#include "base/status.h"

typedef struct train_pool train_pool_t;

/* `thread` is 0 .. threads - 1 and runs one task at a time, so it can index per-thread scratch. */
typedef void train_task_t(void *context, int task, int thread);

/* threads >= 1, including the caller's. Functions that take a pool accept NULL for the calling
 * thread alone. COLL_ERROR_SYSTEM when a thread cannot be started. */
coll_status_t train_pool_create(int threads, train_pool_t **pool);
void train_pool_destroy(train_pool_t *pool);

int train_pool_threads(const train_pool_t *pool);

/* Runs tasks 0 .. tasks - 1 and returns when all are done; they start in this order. A pool
 * executes one run at a time. Tasks must not start a run. */
void train_pool_run(train_pool_t *pool, int tasks, train_task_t *body, void *context);

#endif
