/*
 * Explains why a run ended with work left over. A blocked lane waits for exactly one other lane, so
 * the chain of waiting lanes ends in a cycle or at a lane that has ended.
 */
#include "verify/stuck.h"

#include <stdio.h>
#include <string.h>

static bool is_done(const verify_run_t *run, const verify_lane_t *lane) {
  return (size_t)lane->at.step >= run->plan->programs[lane->at.rank].lanes[lane->at.lane].count;
}

static const plan_step_t *step_of(const verify_run_t *run, const verify_lane_t *lane) {
  return &run->plan->programs[lane->at.rank].lanes[lane->at.lane].steps[lane->at.step];
}

/* The number of the peer's lane at the other end of a message's FIFO; -1: the peer never uses it.
 */
static int32_t lane_at_other_end(const verify_run_t *run, int32_t rank, const plan_step_t *step) {
  bool sends = step->kind == PLAN_SEND;
  int32_t peer = sends ? step->send.peer : step->recv.peer;
  int32_t channel = sends ? step->send.channel : step->recv.channel;
  for (int32_t number = 0; number < run->plan->lanes; number++) {
    const plan_lane_t *lane = &run->plan->programs[peer].lanes[number];
    for (size_t i = 0; i < lane->count; i++) {
      const plan_step_t *other = &lane->steps[i];
      if (sends && other->kind == PLAN_RECV && other->recv.peer == rank &&
          other->recv.channel == channel) {
        return number;
      }
      if (!sends && other->kind == PLAN_SEND && other->send.peer == rank &&
          other->send.channel == channel) {
        return number;
      }
    }
  }
  return -1;
}

/* The lane that a blocked lane waits for. Where the peer has none at the other end of the FIFO, its
 * lane of the same number or its first. */
static uint32_t waits_for(const verify_run_t *run, const verify_lane_t *lane) {
  const plan_step_t *step = step_of(run, lane);
  int32_t rank = lane->at.rank, number = lane->at.lane;
  switch (step->kind) {
    case PLAN_SEND: rank = run->plan->multicast ? lane->full_peer : step->send.peer; break;
    case PLAN_RECV: rank = step->recv.peer; break;
    case PLAN_WAIT: rank = step->wait.peer; break;
    case PLAN_AFTER: number = step->after.lane; break;
    default: break;
  }
  if (step->kind == PLAN_RECV || (step->kind == PLAN_SEND && !run->plan->multicast)) {
    int32_t other = lane_at_other_end(run, lane->at.rank, step);
    if (other >= 0) number = other;
  }
  return verify_lane_number(run->plan, rank, number);
}

/* "to send a message", with the channel where it is not the lane's number. */
static void describe_awaited(const verify_lane_t *lane, const plan_step_t *step, char *text,
                             size_t bytes) {
  const char *what = step->kind == PLAN_SEND   ? "to receive its message"
                     : step->kind == PLAN_RECV ? "to send a message"
                     : step->kind == PLAN_WAIT ? "to signal"
                                               : "to complete a step";
  int32_t channel = step->kind == PLAN_SEND   ? step->send.channel
                    : step->kind == PLAN_RECV ? step->recv.channel
                                              : lane->at.lane;
  snprintf(text, bytes, "%s", what);
  if (channel == lane->at.lane) return;
  size_t length = strlen(text);
  snprintf(text + length, bytes - length, " on channel %d", channel);
}

/* ", which waits for rank 1 lane 0 (at step 2, recv) to send a message": appended to `text`. */
static void append_wait(const verify_run_t *run, const verify_lane_t *lane, bool is_first,
                        char *text, size_t bytes) {
  const verify_lane_t *other = &run->lanes[waits_for(run, lane)];
  char where[48], awaited[64];
  describe_awaited(lane, step_of(run, lane), awaited, sizeof awaited);
  if (is_done(run, other)) {
    snprintf(where, sizeof where, "done");
  } else {
    snprintf(where, sizeof where, "at step %d, %s", other->at.step,
             plan_step_kind_name(step_of(run, other)->kind));
  }
  size_t length = strlen(text);
  snprintf(text + length, bytes - length, "%swaits for rank %d lane %d (%s) %s",
           is_first ? "" : ", which ", other->at.rank, other->at.lane, where, awaited);
}

coll_status_t verify_reject_deadlock(verify_run_t *run) {
  uint32_t first = 0;
  while (is_done(run, &run->lanes[first])) first++;
  /* After `lane_count` hops the walk is in the cycle, or at the lane before one that has ended: the
   * sentence starts there. */
  uint32_t lane = first;
  for (size_t i = 0; i < run->lane_count; i++) {
    uint32_t next = waits_for(run, &run->lanes[lane]);
    if (is_done(run, &run->lanes[next])) break;
    lane = next;
  }
  char text[300] = "";
  uint32_t start = lane;
  for (int hop = 0; hop < 3; hop++) {
    append_wait(run, &run->lanes[lane], hop == 0, text, sizeof text);
    lane = waits_for(run, &run->lanes[lane]);
    if (lane == start || is_done(run, &run->lanes[lane])) break;
  }
  return verify_reject(run->plan, run->report, VERIFY_DEADLOCK, run->lanes[start].at,
                       "%s; no lane can continue with %d message%s per FIFO", text,
                       run->plan->depth, run->plan->depth == 1 ? "" : "s");
}

coll_status_t verify_reject_leftover(verify_run_t *run, const verify_channel_t *channel) {
  verify_site_t sender = channel->head->sender;
  bool is_signal = channel->head->count == 0;
  const plan_step_t *step = &run->plan->programs[sender.rank].lanes[sender.lane].steps[sender.step];
  int32_t peer = is_signal ? step->signal.peer : step->send.peer;
  int32_t number = is_signal ? sender.lane : step->send.channel;
  return verify_reject(
      run->plan, run->report, VERIFY_UNMATCHED, sender, "rank %d %s %d never %s it: %zu %s, %zu %s",
      peer, number == sender.lane ? "lane" : "on channel", number,
      is_signal ? "waits for" : "receives", channel->pushed, is_signal ? "signals" : "sends",
      channel->popped, is_signal ? "waits" : "receives");
}
