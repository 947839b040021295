/* Runs a plan of one rank, once or repeatedly. */
#ifndef TESTS_ENGINE_ALONE_H
#define TESTS_ENGINE_ALONE_H

#include "engine/run.h"

enum { ALONE_SCRATCH_BYTES = 16, ALONE_SLOT_BYTES = 4096 };

typedef struct alone {
  char scratch[ALONE_SCRATCH_BYTES];
  engine_view_t view;
  engine_world_t world;
  engine_run_t run;
} alone_t;

void alone_open(alone_t *alone, const device_ops_t *device);
void alone_close(alone_t *alone);

/* Fails the running test unless the call completes at once. */
void alone_run(alone_t *alone, const plan_t *plan, const plan_program_t *program,
               const engine_call_t *call);

#endif
