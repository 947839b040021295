/* A communicator of one rank without peers, for plans that need none. */
#include "alone.h"

#include <criterion/criterion.h>

void alone_open(alone_t *alone, const device_ops_t *device) {
  *alone = (alone_t){
      .view = {.buffers = {[PLAN_SCRATCH] = alone->scratch}},
      .world = {.size = 1,
                .device = device,
                .room = {.slot_bytes = ALONE_SLOT_BYTES, .scratch_bytes = ALONE_SCRATCH_BYTES},
                .views = &alone->view}};
}

void alone_close(alone_t *alone) {
  engine_run_free(&alone->run);
}

void alone_run(alone_t *alone, const plan_t *plan, const plan_program_t *program,
               const engine_call_t *call) {
  bool moved, done;
  cr_assert_eq(engine_run_begin(&alone->run, &alone->world, plan, program, call), COLL_OK);
  cr_assert_eq(engine_run_advance(&alone->run, &moved, &done), COLL_OK);
  cr_assert(moved && done);
}
