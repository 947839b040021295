/* Runs the call as if a user had made it. */
#include "run/allgather.h"

#include "run/batch.h"

coll_status_t run_allgather(struct coll_comm *comm, int verb, const void *own, size_t bytes,
                            void *all) {
  const comm_traits_t traits = {
      .collective = COLL_ALLGATHER, .dtype = COLL_UINT8, .reach = PLAN_REACH_SCRATCH};
  const run_call_t call = {.kind = RUN_COLLECTIVE,
                           .comm = comm,
                           .shape = comm_shape_make(traits, bytes),
                           .send = own,
                           .recv = all,
                           .part_of = verb};
  return run_call_run(&call);
}
