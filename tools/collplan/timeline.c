/* Matches the two ends of messages and signals by sorting, then advances lanes until none can
 * continue. */
#include "tools/collplan/timeline.h"

#include <stdlib.h>

#include "base/memory.h"

/* ---- steps and partners ---------------------------------------------------------------------- */

static coll_status_t collect(timeline_t *timeline) {
  const plan_t *plan = timeline->plan;
  size_t lanes = (size_t)(plan->shape.size * plan->lanes), count = 0;
  COLL_TRY(base_alloc(lanes + 1, sizeof *timeline->first, "a timeline", (void **)&timeline->first));
  for (size_t i = 0; i < lanes; i++) {
    timeline->first[i] = count;
    count += plan->programs[i / (size_t)plan->lanes].lanes[i % (size_t)plan->lanes].count;
  }
  timeline->first[lanes] = count;
  timeline->count = count;
  COLL_TRY(base_alloc(count, sizeof *timeline->steps, "a timeline", (void **)&timeline->steps));
  for (size_t i = 0; i < lanes; i++) {
    int32_t rank = (int32_t)i / plan->lanes, lane = (int32_t)i % plan->lanes;
    for (size_t at = timeline->first[i]; at < timeline->first[i + 1]; at++) {
      int32_t index = (int32_t)(at - timeline->first[i]);
      timeline->steps[at] =
          (timeline_step_t){.step = &plan->programs[rank].lanes[lane].steps[index],
                            .rank = rank,
                            .lane = lane,
                            .index = index,
                            .start = TIMELINE_NONE,
                            .end = TIMELINE_NONE,
                            .partner = TIMELINE_NONE,
                            .needs = TIMELINE_NONE};
    }
  }
  return COLL_OK;
}

/* One end of a message or signal. The sort order puts the ends of one channel both_start, sources
 * before sinks, each in program order. */
typedef struct end {
  int32_t source, destination, number; /* number: the channel, or a signal's lane */
  bool is_signal, is_sink;
  size_t step;
} end_t;

static bool end_of(const timeline_step_t *step, size_t number, end_t *end) {
  *end = (end_t){
      .source = step->rank, .destination = step->rank, .number = step->lane, .step = number};
  switch (step->step->kind) {
    case PLAN_SEND:
      end->destination = step->step->send.peer;
      end->number = step->step->send.channel;
      return true;
    case PLAN_SIGNAL:
      end->destination = step->step->signal.peer;
      end->is_signal = true;
      return true;
    case PLAN_RECV:
      end->source = step->step->recv.peer;
      end->number = step->step->recv.channel;
      end->is_sink = true;
      return true;
    case PLAN_WAIT:
      end->source = step->step->wait.peer;
      end->is_sink = end->is_signal = true;
      return true;
    default: return false;
  }
}

static int compare_channels(const end_t *a, const end_t *b) {
  if (a->source != b->source) return a->source < b->source ? -1 : 1;
  if (a->destination != b->destination) return a->destination < b->destination ? -1 : 1;
  if (a->number != b->number) return a->number < b->number ? -1 : 1;
  return (int)a->is_signal - (int)b->is_signal;
}

static int compare_ends(const void *left, const void *right) {
  const end_t *a = left, *b = right;
  int channels = compare_channels(a, b);
  if (channels != 0) return channels;
  if (a->is_sink != b->is_sink) return a->is_sink ? 1 : -1;
  return a->step < b->step ? -1 : a->step > b->step;
}

/* Pairs the sources and sinks of one channel. */
static void pair_up(timeline_t *timeline, const end_t *sources, size_t source_count,
                    const end_t *sinks, size_t sink_count) {
  size_t depth = (size_t)timeline->plan->depth;
  for (size_t i = 0; i < source_count && i < sink_count; i++) {
    timeline->steps[sources[i].step].partner = (int64_t)sinks[i].step;
    timeline->steps[sinks[i].step].partner = (int64_t)sources[i].step;
    bool is_bounded = !sources[i].is_signal && depth > 0;
    if (is_bounded && i + depth < source_count) {
      timeline->steps[sources[i + depth].step].needs = (int64_t)sinks[i].step;
    }
  }
}

static coll_status_t match(timeline_t *timeline) {
  end_t *ends = NULL;
  size_t count = 0;
  COLL_TRY(base_alloc(timeline->count, sizeof *ends, "a timeline", (void **)&ends));
  for (size_t i = 0; i < timeline->count; i++) {
    if (end_of(&timeline->steps[i], i, &ends[count])) count++;
  }
  qsort(ends, count, sizeof *ends, compare_ends);
  for (size_t first = 0; first < count;) {
    size_t sinks = first;
    while (sinks < count && compare_channels(&ends[first], &ends[sinks]) == 0 &&
           !ends[sinks].is_sink) {
      sinks++;
    }
    size_t last = sinks;
    while (last < count && compare_channels(&ends[first], &ends[last]) == 0) last++;
    pair_up(timeline, &ends[first], sinks - first, &ends[sinks], last - sinks);
    first = last;
  }
  free(ends);
  return COLL_OK;
}

/* ---- time ----------------------------------------------------------------------------------- */

typedef struct clocks {
  timeline_t *timeline;
  timeline_cost_t cost;
  size_t *next;   /* [lanes]: the next step */
  int64_t *ready; /* [lanes]: end time of the previous step */
} clocks_t;

static size_t lane_number(const timeline_t *timeline, const timeline_step_t *step) {
  return (size_t)(step->rank * timeline->plan->lanes + step->lane);
}

static int64_t later(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static void finish(clocks_t *clocks, size_t number, int64_t start) {
  timeline_step_t *step = &clocks->timeline->steps[number];
  size_t lane = lane_number(clocks->timeline, step);
  step->start = start;
  step->end = start + clocks->cost.step;
  clocks->ready[lane] = step->end;
  clocks->next[lane]++;
  clocks->timeline->end = later(clocks->timeline->end, step->end);
}

/* Whether step `number` has run; then *start is at least its end plus `delay`. */
static bool after(const clocks_t *clocks, int64_t number, int64_t delay, int64_t *start) {
  if (number == TIMELINE_NONE) return false;
  const timeline_step_t *step = &clocks->timeline->steps[number];
  if (step->end == TIMELINE_NONE) return false;
  *start = later(*start, step->end + delay);
  return true;
}

/* Depth 0: runs a receive and the matching send both_start, if the sender has reached it. */
static bool run_both_ends(clocks_t *clocks, size_t number, int64_t start) {
  int64_t partner = clocks->timeline->steps[number].partner;
  if (partner == TIMELINE_NONE) return false;
  const timeline_step_t *sender = &clocks->timeline->steps[partner];
  size_t lane = lane_number(clocks->timeline, sender);
  if (clocks->next[lane] != (size_t)partner) return false;
  int64_t both_start = later(start, clocks->ready[lane]);
  finish(clocks, (size_t)partner, both_start);
  finish(clocks, number, both_start + clocks->cost.hop);
  return true;
}

static bool try_step(clocks_t *clocks, size_t lane, size_t number) {
  const timeline_t *timeline = clocks->timeline;
  const timeline_step_t *step = &timeline->steps[number];
  int64_t start = clocks->ready[lane], hop = clocks->cost.hop;
  size_t other;
  switch (step->step->kind) {
    case PLAN_SEND:
      if (timeline->plan->depth == 0) return false; /* runs both_start with its receive */
      if (step->needs != TIMELINE_NONE && !after(clocks, step->needs, 0, &start)) return false;
      break;
    case PLAN_RECV:
      if (timeline->plan->depth == 0) return run_both_ends(clocks, number, start);
      if (!after(clocks, step->partner, hop, &start)) return false;
      break;
    case PLAN_WAIT:
      if (!after(clocks, step->partner, hop, &start)) return false;
      break;
    case PLAN_AFTER:
      other = (size_t)(step->rank * timeline->plan->lanes + step->step->after.lane);
      other = timeline->first[other] + (size_t)step->step->after.step;
      if (!after(clocks, (int64_t)other, 0, &start)) return false;
      break;
    default: break;
  }
  finish(clocks, number, start);
  return true;
}

static coll_status_t run(clocks_t *clocks) {
  const timeline_t *timeline = clocks->timeline;
  size_t lanes = (size_t)(timeline->plan->shape.size * timeline->plan->lanes);
  size_t done = 0;
  for (bool moved = true; moved;) {
    moved = false;
    done = 0;
    for (size_t lane = 0; lane < lanes; lane++) {
      while (clocks->next[lane] < timeline->first[lane + 1] &&
             try_step(clocks, lane, clocks->next[lane])) {
        moved = true;
      }
      done += clocks->next[lane] - timeline->first[lane];
    }
  }
  if (done == timeline->count) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "the plan deadlocks after %zu of its %zu steps; collplan verify says where",
                   done, timeline->count);
}

static coll_status_t let_run(timeline_t *timeline, timeline_cost_t cost) {
  clocks_t clocks = {.timeline = timeline, .cost = cost};
  size_t lanes = (size_t)(timeline->plan->shape.size * timeline->plan->lanes);
  coll_status_t status =
      base_alloc(lanes, sizeof *clocks.next, "a timeline", (void **)&clocks.next);
  if (status == COLL_OK) {
    status = base_alloc(lanes, sizeof *clocks.ready, "a timeline", (void **)&clocks.ready);
  }
  if (status == COLL_OK) {
    for (size_t lane = 0; lane < lanes; lane++) clocks.next[lane] = timeline->first[lane];
    status = run(&clocks);
  }
  free(clocks.next);
  free(clocks.ready);
  return status;
}

coll_status_t timeline_create(const plan_t *plan, timeline_cost_t cost, timeline_t *timeline) {
  timeline_t made = {.plan = plan};
  coll_status_t status = collect(&made);
  if (status == COLL_OK) status = match(&made);
  if (status == COLL_OK) status = let_run(&made, cost);
  if (status != COLL_OK) {
    timeline_free(&made);
    return status;
  }
  *timeline = made;
  return COLL_OK;
}

void timeline_free(timeline_t *timeline) {
  free(timeline->steps);
  free(timeline->first);
}
