/* The effect of each kind of step on the symbolic state. */
#include "verify/steps.h"

#include <stdlib.h>

#include "base/alloc.h"

static verify_place_t place_of(const plan_span_t *span, int32_t index) {
  return (verify_place_t){.rank = span->rank, .buffer = span->buffer, .chunk = span->first + index};
}

static coll_status_t read_chunk(verify_run_t *run, const verify_lane_t *lane,
                                const plan_span_t *span, int32_t index, verify_value_t *value) {
  return verify_memory_read(&run->memory, lane->at, &lane->view, place_of(span, index), value);
}

static coll_status_t write_chunk(verify_run_t *run, const verify_lane_t *lane,
                                 const plan_span_t *span, int32_t index, verify_value_t value) {
  verify_place_t place = place_of(span, index);
  if (!verify_expected_fits(&run->expected, place, value)) {
    char holds[64];
    verify_value_describe(&run->values, value, holds, sizeof holds);
    return verify_reject(run->plan, run->report, VERIFY_SIZE, lane->at,
                         "puts %s into %s[%d] of rank %d, a block of another size", holds,
                         plan_buffer_name(place.buffer), place.chunk, place.rank);
  }
  return verify_memory_write(&run->memory, lane->at, &lane->view, place, value);
}

static coll_status_t operands_reserve(verify_run_t *run, int32_t count) {
  return base_grow((void **)&run->operands, &run->operand_capacity, (size_t)count,
                   sizeof *run->operands, "operands");
}

/* A source may be the destination itself, chunk by chunk. If it overlaps the destination with a
 * shift, the step would overwrite chunks before it reads them. */
static coll_status_t check_overlap(verify_run_t *run, const verify_lane_t *lane,
                                   const plan_span_t *dst, const plan_span_t *src) {
  if (src->rank != dst->rank) return COLL_OK;
  verify_place_t first = verify_memory_place(&run->memory, place_of(dst, 0));
  for (int32_t i = 0; i < src->count; i++) {
    verify_place_t place = verify_memory_place(&run->memory, place_of(src, i));
    int32_t index = place.chunk - first.chunk;
    if (place.buffer == first.buffer && index >= 0 && index < dst->count && index != i) {
      return verify_reject(run->plan, run->report, VERIFY_RACE, lane->at,
                           "%s[%d] of rank %d is both read and, as another chunk, written by it",
                           plan_buffer_name(src->buffer), src->first + i, src->rank);
    }
  }
  return COLL_OK;
}

static coll_status_t run_copy(verify_run_t *run, verify_lane_t *lane, const plan_step_t *step) {
  const plan_span_t *dst = &step->copy.dst, *src = &step->copy.src;
  COLL_TRY(check_overlap(run, lane, dst, src));
  for (int32_t i = 0; i < dst->count; i++) {
    verify_value_t value = VERIFY_UNDEFINED;
    COLL_TRY(read_chunk(run, lane, src, i, &value));
    COLL_TRY(write_chunk(run, lane, dst, i, value));
  }
  return COLL_OK;
}

static coll_status_t run_reduce(verify_run_t *run, verify_lane_t *lane, const plan_step_t *step) {
  const plan_span_t *dst = &step->reduce.dst;
  const plan_span_t *sources =
      &run->plan->programs[lane->at.rank].sources[step->reduce.first_source];
  int32_t count = step->reduce.source_count;
  COLL_TRY(operands_reserve(run, count));
  for (int32_t k = 0; k < count; k++) COLL_TRY(check_overlap(run, lane, dst, &sources[k]));
  for (int32_t i = 0; i < dst->count; i++) {
    verify_value_t value = VERIFY_UNDEFINED;
    for (int32_t k = 0; k < count; k++) {
      COLL_TRY(read_chunk(run, lane, &sources[k], i, &run->operands[k]));
    }
    COLL_TRY(verify_value_reduce(&run->values, run->operands, (uint32_t)count, &value));
    COLL_TRY(write_chunk(run, lane, dst, i, value));
  }
  return COLL_OK;
}

/* Pushes the current values of `src` (none for a signal) into the channel. */
static coll_status_t push_span(verify_run_t *run, verify_lane_t *lane, verify_channel_t *channel,
                               const plan_span_t *src) {
  int32_t count = src != NULL ? src->count : 0;
  COLL_TRY(operands_reserve(run, count));
  for (int32_t i = 0; i < count; i++) {
    COLL_TRY(read_chunk(run, lane, src, i, &run->operands[i]));
  }
  verify_message_t *message = NULL;
  COLL_TRY(verify_channel_push(channel, count, &message));
  for (int32_t i = 0; i < count; i++) message->values[i] = run->operands[i];
  message->part = src != NULL ? src->first % run->plan->parts : 0;
  message->sender = lane->at;
  message->view = verify_view_release(&lane->view);
  return COLL_OK;
}

/* Whether all FIFOs have room for the row of sends that begins with the rank's next step. */
static coll_status_t row_has_room(verify_run_t *run, verify_lane_t *lane, bool *room) {
  int32_t size = run->plan->shape.size;
  *room = true;
  for (int32_t i = 1; i < size && *room; i++) {
    verify_channel_t *channel = NULL;
    COLL_TRY(verify_channel_find(&run->channels, false, lane->at.rank, (lane->at.rank + i) % size,
                                 lane->at.lane, &channel));
    *room = channel->pushed - channel->popped < (size_t)run->plan->depth;
    lane->full_peer = (lane->at.rank + i) % size;
  }
  return COLL_OK;
}

static coll_status_t run_send(verify_run_t *run, verify_lane_t *lane, const plan_step_t *step,
                              bool *done) {
  int32_t peer = step->send.peer;
  size_t depth = (size_t)run->plan->depth, room = depth > 0 ? depth : 1;
  verify_channel_t *channel = NULL;
  if (run->plan->multicast && plan_begins_row(run->plan, lane->at.rank, step)) {
    COLL_TRY(row_has_room(run, lane, done));
    if (!*done) return COLL_OK;
  }
  COLL_TRY(verify_channel_find(&run->channels, false, lane->at.rank, peer, step->send.channel,
                               &channel));
  channel->source_lane = lane->at.lane;
  if (!lane->is_pushed && channel->pushed - channel->popped < room) {
    COLL_TRY(push_span(run, lane, channel, &step->send.src));
    if (channel->destination_lane >= 0) verify_run_wake(run, peer, channel->destination_lane);
    lane->is_pushed = true;
  }
  *done = lane->is_pushed && channel->pushed - channel->popped <= depth;
  if (*done) lane->is_pushed = false;
  return COLL_OK;
}

static coll_status_t check_message(verify_run_t *run, const verify_lane_t *lane,
                                   const plan_span_t *dst, const verify_message_t *message) {
  int32_t part = dst->first % run->plan->parts;
  if (message->count == dst->count && message->part == part) return COLL_OK;
  char sender[80];
  verify_site_describe(run->plan, message->sender, sender, sizeof sender);
  if (message->count != dst->count) {
    return verify_reject(run->plan, run->report, VERIFY_SIZE, lane->at,
                         "receives %d chunks, but the message of %s has %d", dst->count, sender,
                         message->count);
  }
  return verify_reject(run->plan, run->report, VERIFY_SIZE, lane->at,
                       "starts at part %d of a block, but the message of %s at part %d, whose "
                       "size differs",
                       part, sender, message->part);
}

static coll_status_t take(verify_run_t *run, verify_lane_t *lane, verify_message_t *message,
                          const plan_span_t *dst) {
  COLL_TRY(verify_view_acquire(&run->clocks, &lane->view, &message->view));
  if (dst == NULL) return COLL_OK;
  COLL_TRY(check_message(run, lane, dst, message));
  for (int32_t i = 0; i < dst->count; i++) {
    COLL_TRY(write_chunk(run, lane, dst, i, message->values[i]));
  }
  return COLL_OK;
}

/* Runs a recv into `dst` or, if NULL, a wait. number: the channel or, of a wait, the lane. */
static coll_status_t run_take(verify_run_t *run, verify_lane_t *lane, int32_t peer, int32_t number,
                              const plan_span_t *dst, bool *done) {
  verify_channel_t *channel = NULL;
  COLL_TRY(verify_channel_find(&run->channels, dst == NULL, peer, lane->at.rank, number, &channel));
  channel->destination_lane = lane->at.lane;
  *done = channel->head != NULL;
  if (!*done) return COLL_OK;
  int32_t sender = channel->source_lane;
  verify_message_t *message = verify_channel_pop(channel);
  coll_status_t status = take(run, lane, message, dst);
  verify_view_drop(&run->clocks, &message->view);
  free(message);
  if (dst != NULL) verify_run_wake(run, peer, sender);
  return status;
}

static coll_status_t run_signal(verify_run_t *run, verify_lane_t *lane, int32_t peer) {
  verify_channel_t *channel = NULL;
  COLL_TRY(verify_channel_find(&run->channels, true, lane->at.rank, peer, lane->at.lane, &channel));
  COLL_TRY(push_span(run, lane, channel, NULL));
  verify_run_wake(run, peer, lane->at.lane);
  return COLL_OK;
}

static verify_watched_t *find_watched(verify_lane_t *lane, int32_t step) {
  size_t low = 0, high = lane->watched_count;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (lane->watched[middle].step <= step) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return &lane->watched[low];
}

static coll_status_t run_after(verify_run_t *run, verify_lane_t *lane, const plan_step_t *step,
                               bool *done) {
  verify_lane_t *other =
      &run->lanes[verify_lane_number(run->plan, lane->at.rank, step->after.lane)];
  *done = other->at.step > step->after.step;
  if (!*done) return COLL_OK;
  verify_watched_t *watched = find_watched(other, step->after.step);
  COLL_TRY(verify_view_acquire(&run->clocks, &lane->view, &watched->view));
  if (--watched->users == 0) verify_view_drop(&run->clocks, &watched->view);
  return COLL_OK;
}

coll_status_t verify_step_run(verify_run_t *run, verify_lane_t *lane, bool *done) {
  const plan_step_t *step =
      &run->plan->programs[lane->at.rank].lanes[lane->at.lane].steps[lane->at.step];
  *done = true;
  if (step->kind != PLAN_SIGNAL) verify_view_advance(&lane->view);
  switch (step->kind) {
    case PLAN_COPY: return run_copy(run, lane, step);
    case PLAN_REDUCE: return run_reduce(run, lane, step);
    case PLAN_SEND: return run_send(run, lane, step, done);
    case PLAN_RECV:
      return run_take(run, lane, step->recv.peer, step->recv.channel, &step->recv.dst, done);
    case PLAN_SIGNAL: return run_signal(run, lane, step->signal.peer);
    case PLAN_WAIT: return run_take(run, lane, step->wait.peer, lane->at.lane, NULL, done);
    case PLAN_AFTER: return run_after(run, lane, step, done);
    case PLAN_STEP_KIND_COUNT: break;
  }
  return COLL_OK;
}
