/*
 * A rank, a process, that is killed in the middle of a schedule: before one of its products. Each
 * action of a stage begins with one.
 */
#ifndef TESTS_LIBTRAIN_LAYOUTS_VICTIM_H
#define TESTS_LIBTRAIN_LAYOUTS_VICTIM_H

#include <stdint.h>

#include "libtrain/ops/ops.h"

/* The host's, by which victim_die is told of products. */
train_ops_t victim_ops(void);

/* The calling process dies before its product number `products`, from 0; of those that begin once
 * the file `after` is there, if it is not NULL. */
void victim_die(int products, const char *after);

/* When a victim of the present run died; 0: not yet. On the harness's board. */
uint64_t victim_died_ns(void);

#endif
