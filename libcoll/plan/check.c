/*
 * The structural check: everything that can be checked from one rank's program and the header.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/names.h"
#include "plan/plan.h"

typedef struct location {
  const plan_t *plan;
  int rank, lane;
  size_t step;
} location_t;

static coll_status_t refuse(const location_t *at, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static coll_status_t refuse(const location_t *at, const char *format, ...) {
  char why[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(why, sizeof why, format, arguments);
  va_end(arguments);
  return base_fail(COLL_ERROR_INVALID, "plan %s/%s: rank %d lane %d step %zu: %s",
                   base_collective_name(at->plan->shape.collective), at->plan->algorithm, at->rank,
                   at->lane, at->step, why);
}

typedef enum access { READS, WRITES } access_t;

/* The least reach of a plan in which a rank may access a peer's buffer. */
static plan_reach_t reach_of(plan_buffer_t buffer, access_t access) {
  if (buffer == PLAN_SCRATCH) return PLAN_REACH_SCRATCH;
  return access == READS ? PLAN_REACH_READ : PLAN_REACH_USER;
}

static coll_status_t check_span(const location_t *at, const plan_span_t *span, access_t access) {
  const plan_t *plan = at->plan;
  if ((unsigned)span->buffer >= PLAN_BUFFER_COUNT) return refuse(at, "no such buffer");
  if (span->rank < 0 || span->rank >= plan->shape.size) {
    return refuse(at, "names rank %d of %d", span->rank, plan->shape.size);
  }
  int32_t chunks = plan_chunks(plan, span->rank, span->buffer);
  if (span->first < 0 || span->count < 1 || span->first > chunks - span->count) {
    return refuse(at, "%s[%d +%d] of rank %d is outside its %d chunks",
                  plan_buffer_name(span->buffer), span->first, span->count, span->rank, chunks);
  }
  if (span->rank != at->rank && plan->reach < reach_of(span->buffer, access)) {
    return refuse(at, "%s rank %d's %s, beyond the plan's reach '%s'",
                  access == READS ? "reads" : "writes", span->rank, plan_buffer_name(span->buffer),
                  plan_reach_name(plan->reach));
  }
  if (!topo_layout_shares_memory(plan->shape.layout, at->rank, span->rank)) {
    return refuse(at,
                  "%s rank %d's %s, which is not mapped: it is on another host or in another "
                  "container",
                  access == READS ? "reads" : "writes", span->rank, plan_buffer_name(span->buffer));
  }
  return COLL_OK;
}

static coll_status_t check_own_span(const location_t *at, const plan_span_t *span,
                                    access_t access) {
  COLL_TRY(check_span(at, span, access));
  if (span->rank != at->rank) return refuse(at, "a message must be to or from this rank's memory");
  if (span->count > at->plan->message_chunks) {
    return refuse(at, "a message of %d chunks, where the header says at most %d", span->count,
                  at->plan->message_chunks);
  }
  return COLL_OK;
}

/* Of two spans of as many chunks. Chunks in sequence have classes in sequence, but for uneven
 * blocks, where a span may go on with the block of another rank. */
static coll_status_t check_sizes(const location_t *at, const plan_span_t *dst,
                                 const plan_span_t *src) {
  const plan_t *plan = at->plan;
  bool by_rank = base_collective_counts_by_rank(plan->shape.collective);
  for (int32_t i = 0; i < (by_rank ? dst->count : 1); i++) {
    int32_t from = src->first + i, to = dst->first + i;
    if (plan_size_class(plan, src->rank, src->buffer, from) ==
        plan_size_class(plan, dst->rank, dst->buffer, to)) {
      continue;
    }
    if (from % plan->parts == to % plan->parts) {
      return refuse(at,
                    "chunk %d and chunk %d are of different ranks' blocks, so their sizes differ",
                    from, to);
    }
    return refuse(
        at, "chunk %d and chunk %d are different parts of a block of %d, so their sizes differ",
        from, to, plan->parts);
  }
  return COLL_OK;
}

static coll_status_t check_pair(const location_t *at, const plan_span_t *dst,
                                const plan_span_t *src) {
  COLL_TRY(check_span(at, src, READS));
  if (src->count != dst->count) {
    return refuse(at, "%d chunks into %d", src->count, dst->count);
  }
  return check_sizes(at, dst, src);
}

static coll_status_t check_reduce(const location_t *at, const plan_step_t *step) {
  const plan_program_t *program = &at->plan->programs[at->rank];
  int32_t first = step->reduce.first_source, count = step->reduce.source_count;
  if (first < 0 || count < 1 || (size_t)first + (size_t)count > program->source_count) {
    return refuse(at, "reduce sources %d +%d outside the program's %zu", first, count,
                  program->source_count);
  }
  COLL_TRY(check_span(at, &step->reduce.dst, WRITES));
  for (int32_t i = 0; i < count; i++) {
    COLL_TRY(check_pair(at, &step->reduce.dst, &program->sources[first + i]));
  }
  return COLL_OK;
}

static coll_status_t check_peer(const location_t *at, int32_t peer) {
  if (peer < 0 || peer >= at->plan->shape.size) {
    return refuse(at, "names rank %d of %d as peer", peer, at->plan->shape.size);
  }
  if (peer == at->rank) return refuse(at, "a rank cannot be its own peer");
  return COLL_OK;
}

static coll_status_t check_channel(const location_t *at, int32_t peer, int32_t channel) {
  COLL_TRY(check_peer(at, peer));
  if (channel < 0 || channel >= PLAN_CHANNELS_MAX) {
    return refuse(at, "channel %d: channels are 0 to %d", channel, PLAN_CHANNELS_MAX - 1);
  }
  if (at->plan->multicast && channel != 0) {
    return refuse(at, "multicast messages have channel 0, not %d", channel);
  }
  return COLL_OK;
}

static coll_status_t check_signal_peer(const location_t *at, int32_t peer) {
  COLL_TRY(check_peer(at, peer));
  if (at->plan->reach == PLAN_REACH_OWN) return refuse(at, "signals need a reach beyond 'own'");
  return COLL_OK;
}

static coll_status_t check_after(const location_t *at, const plan_step_t *step) {
  int32_t lane = step->after.lane;
  if (lane < 0 || lane >= at->plan->lanes) return refuse(at, "after lane %d: no such lane", lane);
  if (lane == at->lane) return refuse(at, "after its own lane: steps of a lane are in order");
  size_t count = at->plan->programs[at->rank].lanes[lane].count;
  if (step->after.step < 0 || (size_t)step->after.step >= count) {
    return refuse(at, "after step %d of lane %d, which has %zu", step->after.step, lane, count);
  }
  return COLL_OK;
}

static coll_status_t check_step(const location_t *at, const plan_step_t *step) {
  switch (step->kind) {
    case PLAN_COPY:
      COLL_TRY(check_span(at, &step->copy.dst, WRITES));
      COLL_TRY(check_pair(at, &step->copy.dst, &step->copy.src));
      if (step->copy.dst.rank != at->rank && step->copy.src.rank != at->rank) {
        return refuse(at, "copies between two other ranks");
      }
      return COLL_OK;
    case PLAN_REDUCE: return check_reduce(at, step);
    case PLAN_SEND:
      COLL_TRY(check_channel(at, step->send.peer, step->send.channel));
      return check_own_span(at, &step->send.src, READS);
    case PLAN_RECV:
      COLL_TRY(check_channel(at, step->recv.peer, step->recv.channel));
      return check_own_span(at, &step->recv.dst, WRITES);
    case PLAN_SIGNAL: return check_signal_peer(at, step->signal.peer);
    case PLAN_WAIT: return check_signal_peer(at, step->wait.peer);
    case PLAN_AFTER: return check_after(at, step);
    case PLAN_STEP_KIND_COUNT: break;
  }
  return refuse(at, "no such step kind: %d", (int)step->kind);
}

static coll_status_t check_header(const plan_t *plan) {
  const char *wrong = NULL;
  if (plan->parts < 1) wrong = "parts";
  if (plan->scratch_chunks < 0) wrong = "scratch_chunks";
  if (plan->lanes < 1 || plan->lanes > PLAN_LANES_MAX) wrong = "lanes";
  if (plan->depth < 0 || plan->depth > PLAN_DEPTH_MAX) wrong = "depth";
  if (plan->message_chunks < 0) wrong = "message_chunks";
  if (plan->multicast && (plan->lanes != 1 || plan->depth < 1)) wrong = "multicast";
  if ((unsigned)plan->reach >= PLAN_REACH_COUNT) wrong = "reach";
  if ((unsigned)plan->shape.collective >= COLL_COLLECTIVE_COUNT) wrong = "collective";
  if (plan->shape.root < 0 || plan->shape.root >= plan->shape.size) wrong = "root";
  if (wrong == NULL) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "plan %s: its %s is out of range", plan->algorithm, wrong);
}

coll_status_t plan_check_step(const plan_t *plan, int rank, int lane, size_t step) {
  location_t at = {.plan = plan, .rank = rank, .lane = lane, .step = step};
  return check_step(&at, &plan->programs[rank].lanes[lane].steps[step]);
}

/* Checks the row of sends of a multicast plan that begins at `step`. *end: the step after it. */
static coll_status_t check_row(const plan_t *plan, int rank, size_t step, size_t *end) {
  const plan_lane_t *lane = &plan->programs[rank].lanes[0];
  const plan_span_t *span = &lane->steps[step].send.src;
  int32_t size = plan->shape.size;
  for (int32_t i = 1; i < size; i++, step++) {
    location_t at = {.plan = plan, .rank = rank, .step = step};
    const plan_step_t *send = step < lane->count ? &lane->steps[step] : NULL;
    if (send == NULL || send->kind != PLAN_SEND || send->send.peer != (rank + i) % size) {
      return refuse(
          &at, "a multicast plan must send to rank %d here: each message goes to all peers in turn",
          (rank + i) % size);
    }
    if (send->send.src.buffer != span->buffer || send->send.src.first != span->first ||
        send->send.src.count != span->count) {
      return refuse(&at, "a multicast plan must send the same span to all peers");
    }
  }
  *end = step;
  return COLL_OK;
}

static coll_status_t check_rows(const plan_t *plan, int rank) {
  const plan_lane_t *lane = &plan->programs[rank].lanes[0];
  for (size_t step = 0; step < lane->count;) {
    if (lane->steps[step].kind == PLAN_SEND) {
      COLL_TRY(check_row(plan, rank, step, &step));
    } else {
      step++;
    }
  }
  return COLL_OK;
}

/* Limits the signals of a lane to each peer (PLAN_SIGNALS_MAX). */
static coll_status_t check_signals(const plan_t *plan, int rank, int lane) {
  const plan_lane_t *steps = &plan->programs[rank].lanes[lane];
  uint8_t signals[PLAN_RANKS_MAX] = {0};
  for (size_t step = 0; step < steps->count; step++) {
    const plan_step_t *signal = &steps->steps[step];
    if (signal->kind != PLAN_SIGNAL || ++signals[signal->signal.peer] <= PLAN_SIGNALS_MAX) continue;
    location_t at = {.plan = plan, .rank = rank, .lane = lane, .step = step};
    return refuse(&at, "signals rank %d more than %d times", signal->signal.peer, PLAN_SIGNALS_MAX);
  }
  return COLL_OK;
}

/* ---- the ends of FIFOs ----------------------------------------------------------------------*/

/* A lane's use of one end of a FIFO. */
typedef struct fifo_end {
  bool sends;
  int32_t peer, channel;
  int lane;
  size_t step;
} fifo_end_t;

static int compare_fifos(const fifo_end_t *a, const fifo_end_t *b) {
  if (a->sends != b->sends) return a->sends ? 1 : -1;
  if (a->peer != b->peer) return a->peer < b->peer ? -1 : 1;
  return (a->channel > b->channel) - (a->channel < b->channel);
}

static int compare_ends(const void *left, const void *right) {
  const fifo_end_t *a = left, *b = right;
  int order = compare_fifos(a, b);
  if (order != 0) return order;
  if (a->lane != b->lane) return a->lane < b->lane ? -1 : 1;
  return a->step < b->step ? -1 : a->step > b->step;
}

static bool is_message(const plan_step_t *step) {
  return step->kind == PLAN_SEND || step->kind == PLAN_RECV;
}

static fifo_end_t end_of(const plan_step_t *step, int lane, size_t index) {
  bool sends = step->kind == PLAN_SEND;
  return (fifo_end_t){.sends = sends,
                      .peer = sends ? step->send.peer : step->recv.peer,
                      .channel = sends ? step->send.channel : step->recv.channel,
                      .lane = lane,
                      .step = index};
}

/* Number of messages; *plain: each has the channel of its lane's number, so no two lanes meet. */
static size_t count_messages(const plan_t *plan, int rank, bool *plain) {
  size_t count = 0;
  *plain = true;
  for (int lane = 0; lane < plan->lanes; lane++) {
    const plan_lane_t *steps = &plan->programs[rank].lanes[lane];
    for (size_t i = 0; i < steps->count; i++) {
      if (!is_message(&steps->steps[i])) continue;
      count++;
      *plain = *plain && end_of(&steps->steps[i], lane, i).channel == lane;
    }
  }
  return count;
}

static coll_status_t check_ends(const plan_t *plan, int rank, fifo_end_t ends[], size_t count) {
  size_t found = 0;
  for (int lane = 0; lane < plan->lanes; lane++) {
    const plan_lane_t *steps = &plan->programs[rank].lanes[lane];
    for (size_t i = 0; i < steps->count; i++) {
      if (is_message(&steps->steps[i])) ends[found++] = end_of(&steps->steps[i], lane, i);
    }
  }
  qsort(ends, count, sizeof *ends, compare_ends);
  for (size_t i = 1; i < count; i++) {
    const fifo_end_t *a = &ends[i - 1], *b = &ends[i];
    if (a->lane == b->lane || compare_fifos(a, b) != 0) continue;
    location_t at = {.plan = plan, .rank = rank, .lane = b->lane, .step = b->step};
    return refuse(&at,
                  "lane %d %s rank %d on channel %d too: each end of a FIFO belongs to one lane",
                  a->lane, b->sends ? "sends to" : "receives from", b->peer, b->channel);
  }
  return COLL_OK;
}

/* No two lanes may use the same end of a FIFO: which message each gets would depend on time. */
static coll_status_t check_fifos(const plan_t *plan, int rank) {
  bool plain;
  fifo_end_t *ends = NULL;
  size_t count = plan->lanes > 1 ? count_messages(plan, rank, &plain) : 0;
  if (count == 0 || plain) return COLL_OK;
  COLL_TRY(base_alloc(count, sizeof *ends, "the ends of FIFOs", (void **)&ends));
  coll_status_t status = check_ends(plan, rank, ends, count);
  free(ends);
  return status;
}

coll_status_t plan_check_program(const plan_t *plan, int rank) {
  COLL_TRY(check_header(plan));
  for (int lane = 0; lane < plan->lanes; lane++) {
    size_t count = plan->programs[rank].lanes[lane].count;
    for (size_t step = 0; step < count; step++) {
      COLL_TRY(plan_check_step(plan, rank, lane, step));
    }
    if (plan->reach != PLAN_REACH_OWN) COLL_TRY(check_signals(plan, rank, lane));
  }
  COLL_TRY(check_fifos(plan, rank));
  return plan->multicast ? check_rows(plan, rank) : COLL_OK;
}
