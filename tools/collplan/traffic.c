/* Counts every span that is sent, loaded or stored between two ranks. */
#include "tools/collplan/traffic.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "plan/transfers.h"
#include "tools/collplan/rounds.h"

typedef struct counter {
  const plan_t *plan;
  int64_t chunk_bytes;
  int64_t *sent; /* [size]: by the rank that acts */
  int64_t *slow; /* [size * 2 * TOPO_GRID_DIMS_MAX]: of a link from a rank; of a host */
} counter_t;

static int64_t *link_of(const counter_t *counter, int32_t rank, int32_t dim, bool forwards) {
  return &counter->slow[(rank * TOPO_GRID_DIMS_MAX + dim) * 2 + forwards];
}

/* Moves along one dimension, from coordinate `at` to `to`; returns the rank that is reached. */
static int32_t cross(const counter_t *counter, int32_t rank, int32_t dim, int32_t stride,
                     int32_t to, int64_t bytes) {
  const topo_layout_t *layout = counter->plan->shape.layout;
  int32_t extent = layout->extents[dim], at = rank / stride % extent;
  int32_t ahead = (to - at + extent) % extent;
  bool forwards = layout->wraps ? 2 * ahead <= extent : to > at;
  while (at != to) {
    *link_of(counter, rank, dim, forwards) += bytes;
    int32_t next = (at + (forwards ? 1 : extent - 1)) % extent;
    rank += (next - at) * stride;
    at = next;
  }
  return rank;
}

static void count_slow(const counter_t *counter, int32_t from, int32_t to, int64_t bytes) {
  const topo_layout_t *layout = counter->plan->shape.layout;
  if (layout == NULL) return;
  for (int32_t dim = layout->dims - 1, stride = 1; dim >= 0; dim--) {
    from = cross(counter, from, dim, stride, to / stride % layout->extents[dim], bytes);
    stride *= layout->extents[dim];
  }
  if (layout->dims > 0 || layout->levels == 0) return;
  const int32_t *host_of = layout->level[0].group_of;
  if (host_of[from] != host_of[to]) counter->slow[host_of[from]] += bytes;
}

static coll_status_t count(void *context, const plan_transfer_t *transfer) {
  const counter_t *counter = context;
  int64_t bytes = transfer->chunks * counter->chunk_bytes;
  counter->sent[transfer->by] += bytes;
  count_slow(counter, transfer->from, transfer->to, bytes);
  return COLL_OK;
}

static int64_t most(const int64_t values[], size_t count) {
  int64_t found = 0;
  for (size_t i = 0; i < count; i++) found = values[i] > found ? values[i] : found;
  return found;
}

coll_status_t traffic_count(const plan_t *plan, int64_t block_bytes, traffic_t *traffic) {
  const topo_layout_t *layout = plan->shape.layout;
  size_t size = (size_t)plan->shape.size, links = size * 2 * TOPO_GRID_DIMS_MAX;
  counter_t counter = {.plan = plan, .chunk_bytes = block_bytes / plan->parts};
  if (block_bytes % plan->parts != 0) {
    return base_fail(COLL_ERROR_INVALID, "%s: %lld bytes are not %d equal chunks", plan->algorithm,
                     (long long)block_bytes, (int)plan->parts);
  }
  rounds_t rounds;
  COLL_TRY(rounds_create(plan, &rounds));
  traffic->rounds = rounds.last;
  rounds_free(&rounds);
  coll_status_t status = base_alloc(size, sizeof *counter.sent, "traffic", (void **)&counter.sent);
  if (status == COLL_OK) {
    status = base_alloc(links, sizeof *counter.slow, "traffic", (void **)&counter.slow);
  }
  if (status == COLL_OK) status = plan_visit_transfers(plan, count, &counter);
  if (status == COLL_OK) {
    traffic->sent = most(counter.sent, size);
    traffic->slow = layout == NULL ? -1 : most(counter.slow, links);
  }
  free(counter.sent);
  free(counter.slow);
  return status;
}
