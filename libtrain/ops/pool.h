/*
 * The threads that a rank computes with. One call runs a number of tasks; the caller works too, and
 * everyone takes the next task as soon as it is free, so that a thread that loses its core to
 * another rank delays nobody. What a task computes never depends on who runs it.
 */
#ifndef LIBTRAIN_OPS_POOL_H
#define LIBTRAIN_OPS_POOL_H

#include "base/status.h"

typedef struct train_pool train_pool_t;

/* `thread` is 0 .. threads - 1, one task at a time on each: the place of a scratch array. */
typedef void train_task_t(void *context, int task, int thread);

/* threads >= 1, the caller's among them. Wherever a pool is asked for, NULL stands for the caller
 * alone. COLL_ERROR_SYSTEM when a thread cannot be started. */
coll_status_t train_pool_create(int threads, train_pool_t **pool);
void train_pool_destroy(train_pool_t *pool);

int train_pool_threads(const train_pool_t *pool);

/* Runs tasks 0 .. tasks - 1 and returns when all are done; they start in this order. One call at a
 * time for each pool, and none from inside a task. */
void train_pool_run(train_pool_t *pool, int tasks, train_task_t *run, void *context);

#endif
