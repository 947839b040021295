/* A second, slow decision whether a schedule is valid, which shares no code with check.c: it looks
 * up where each pass is and looks for a cycle in the graph of all dependencies. */
#ifndef TESTS_LIBTRAIN_SCHEDULE_ORACLE_H
#define TESTS_LIBTRAIN_SCHEDULE_ORACLE_H

#include "libtrain/schedule/schedule.h"

/* `original` is a valid schedule of the same shape: a valid schedule has on each stage the same
 * actions in some order. */
bool oracle_accepts(const train_schedule_t *schedule, const train_schedule_t *original);

#endif
