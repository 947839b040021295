/*
 * Reductions of a store's gradients, which its provider starts and its step completes. A stream can
 * only be waited for as a whole: waiting for one reduction waits for all collectives.
 */
#ifndef LIBTRAIN_PARALLEL_STORE_REDUCTIONS_H
#define LIBTRAIN_PARALLEL_STORE_REDUCTIONS_H

#include <coll.h>

struct train_store;

/* The buffer to which the passes write the unit's gradients. */
float *store_gradient_buffer(const struct train_store *store, int unit);

/* Queues the reductions of units whose gradients are complete. */
coll_status_t store_queue_ready_reductions(struct train_store *store);

/* Waits for the collectives of both queues. */
coll_status_t store_wait(struct train_store *store);

/* The same, after which the gradients of the reductions in flight are where they are kept. */
coll_status_t store_wait_for_reductions(struct train_store *store);

/* Queues the reductions that are ready and waits for all collectives. Afterwards all gradients are
 * in store->gradients. */
coll_status_t store_finish_reductions(struct train_store *store);

#endif
