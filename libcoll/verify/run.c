/* The queue of lanes that may be able to continue. */
#include "verify/run.h"

void verify_run_wake(verify_run_t *run, int32_t rank, int32_t lane) {
  uint32_t number = verify_lane_number(run->plan, rank, lane);
  if (run->lanes[number].queued) return;
  run->lanes[number].queued = true;
  run->queue[(run->queue_head + run->queue_length++) % run->lane_count] = number;
}
