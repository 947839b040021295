/* The duplicate of a communicator is a split of all its ranks, without a GPU. */
#include "lifetime/duplicate.h"

#include "lifetime/create.h"
#include "lifetime/leave.h"
#include "lifetime/split.h"

static coll_status_t duplicate(struct coll_comm *comm, struct coll_comm **made) {
  comm_split_settings_t settings;
  COLL_TRY(comm_settings_read_split(NULL, comm, CUDA_NO_DEVICE, &settings));
  settings.device = CUDA_NO_DEVICE;
  settings.blocking = true;
  COLL_TRY(lifetime_split(comm, 0, comm->rank, &settings, made));
  (*made)->near_gpu = false; /* its calls never are on a GPU */
  return COLL_OK;
}

const comm_lifetime_t lifetime_table = {
    .duplicate = duplicate, .leave = lifetime_leave, .destroy = lifetime_destroy};
