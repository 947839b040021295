/* Runs the call as if a user had made it. */
#include "run/allgather.h"

#include "run/batch.h"

coll_status_t comm_allgather(struct coll_comm *comm, int verb, const void *own, size_t bytes,
                             void *all) {
  const comm_traits_t traits = {
      .collective = COLL_ALLGATHER, .dtype = COLL_UINT8, .reach = PLAN_REACH_SCRATCH};
  const comm_call_t call = {.kind = COMM_COLLECTIVE,
                            .comm = comm,
                            .shape = comm_shape_make(traits, bytes),
                            .send = own,
                            .recv = all,
                            .part_of = verb};
  return comm_call_run(&call);
}
