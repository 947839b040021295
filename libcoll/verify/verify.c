/*
 * Sets up the symbolic run, runs each lane as far as it can continue until all have ended or none
 * can, and ends each rank's call when its last lane has ended.
 */
#include "verify/verify.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "verify/run.h"
#include "verify/steps.h"
#include "verify/stuck.h"

static verify_lane_t *next_lane(verify_run_t *run) {
  verify_lane_t *lane = &run->lanes[run->queue[run->queue_head]];
  run->queue_head = (run->queue_head + 1) % run->lane_count;
  run->queue_length--;
  lane->queued = false;
  return lane;
}

/* ---- steps that `after` steps wait for ---- */

static int compare_steps(const void *a, const void *b) {
  int32_t left = ((const verify_watched_t *)a)->step, right = ((const verify_watched_t *)b)->step;
  return (left > right) - (left < right);
}

/* Counts the `after` steps of the rank that name each of its lanes or, where `watched` exists, adds
 * an entry for each. */
static void collect_watched(const plan_t *plan, int32_t rank, verify_lane_t lanes[]) {
  for (int32_t number = 0; number < plan->lanes; number++) {
    const plan_lane_t *lane = &plan->programs[rank].lanes[number];
    for (size_t i = 0; i < lane->count; i++) {
      const plan_step_t *step = &lane->steps[i];
      if (step->kind != PLAN_AFTER) continue;
      verify_lane_t *named = &lanes[step->after.lane];
      if (named->watched != NULL) {
        named->watched[named->watched_count] = (verify_watched_t){.step = step->after.step};
      }
      named->watched_count++;
    }
  }
}

/* Sorts the entries and makes those that name the same step one. */
static void merge_watched(verify_lane_t *lane) {
  size_t count = lane->watched_count;
  qsort(lane->watched, count, sizeof *lane->watched, compare_steps);
  lane->watched_count = 0;
  for (size_t i = 0; i < count; i++) {
    verify_watched_t *last = &lane->watched[lane->watched_count];
    if (lane->watched_count == 0 || lane->watched[i].step != last[-1].step) {
      *last = lane->watched[i];
      lane->watched_count++;
    }
    lane->watched[lane->watched_count - 1].users++;
  }
}

/* Finds the steps of a rank's lanes that `after` steps name. */
static coll_status_t watch(const plan_t *plan, int32_t rank, verify_lane_t lanes[]) {
  if (plan->lanes == 1) return COLL_OK;
  collect_watched(plan, rank, lanes);
  for (int32_t number = 0; number < plan->lanes; number++) {
    verify_lane_t *lane = &lanes[number];
    COLL_TRY(
        base_alloc(lane->watched_count, sizeof *lane->watched, "steps", (void **)&lane->watched));
    lane->watched_count = 0;
  }
  collect_watched(plan, rank, lanes);
  for (int32_t number = 0; number < plan->lanes; number++) merge_watched(&lanes[number]);
  return COLL_OK;
}

/* ---- start, steps, end ---- */

/* What every lane has observed at the start: where the engine exchanges addresses first, the
 * entries of all ranks. The entry of a rank into the call is event 1 of its lane 0. */
static coll_status_t observe_entries(verify_run_t *run, verify_view_t *entered) {
  const plan_t *plan = run->plan;
  int32_t observed = plan_reach_exchanges(plan->reach) ? plan->shape.size : 0;
  *entered = verify_view_create(VERIFY_NO_LANE);
  for (int32_t rank = 0; rank < observed; rank++) {
    verify_epoch_t started = {.lane = verify_lane_number(plan, rank, 0), .count = 1};
    COLL_TRY(verify_view_see(&run->clocks, entered, started));
  }
  return COLL_OK;
}

/* All lanes of a rank have observed its entry. */
static coll_status_t start_lane(verify_run_t *run, int32_t rank, int32_t number,
                                const verify_view_t *entered) {
  const plan_t *plan = run->plan;
  uint32_t global = verify_lane_number(plan, rank, number);
  verify_lane_t *lane = &run->lanes[global];
  verify_epoch_t started = {.lane = verify_lane_number(plan, rank, 0), .count = 1};
  lane->at = (verify_site_t){.rank = rank, .lane = number};
  lane->view = verify_view_copy(entered, global);
  COLL_TRY(verify_view_see(&run->clocks, &lane->view, started));
  lane->view.now.count = 2;
  verify_run_wake(run, rank, number);
  return COLL_OK;
}

static coll_status_t start_all(verify_run_t *run) {
  verify_view_t entered;
  COLL_TRY(observe_entries(run, &entered));
  for (int32_t rank = 0; rank < run->plan->shape.size; rank++) {
    run->lanes_left[rank] = run->plan->lanes;
    COLL_TRY(watch(run->plan, rank, &run->lanes[verify_lane_number(run->plan, rank, 0)]));
    for (int32_t lane = 0; lane < run->plan->lanes; lane++) {
      COLL_TRY(start_lane(run, rank, lane, &entered));
    }
  }
  verify_view_drop(&run->clocks, &entered);
  return COLL_OK;
}

static coll_status_t end_rank(verify_run_t *run, int32_t rank) {
  verify_lane_t *first = &run->lanes[verify_lane_number(run->plan, rank, 0)];
  verify_view_advance(&first->view);
  for (int32_t lane = 1; lane < run->plan->lanes; lane++) {
    COLL_TRY(verify_view_acquire(&run->clocks, &first->view, &first[lane].view));
    verify_view_drop(&run->clocks, &first[lane].view);
  }
  COLL_TRY(verify_memory_end(&run->memory, rank, &first->view));
  COLL_TRY(verify_expected_check(&run->expected, rank, &first->view));
  verify_view_drop(&run->clocks, &first->view);
  return COLL_OK;
}

/* The lane's current step has run: wakes lanes that wait for it by `after`. */
static void finish_step(verify_run_t *run, verify_lane_t *lane) {
  if (lane->passed_count < lane->watched_count &&
      lane->watched[lane->passed_count].step == lane->at.step) {
    lane->watched[lane->passed_count++].view = verify_view_release(&lane->view);
    for (int32_t other = 0; other < run->plan->lanes; other++) {
      if (other != lane->at.lane) verify_run_wake(run, lane->at.rank, other);
    }
  }
  lane->at.step++;
  run->report->steps++;
}

/* Runs a lane until it is blocked or has ended. */
static coll_status_t run_lane(verify_run_t *run, verify_lane_t *lane) {
  size_t count = run->plan->programs[lane->at.rank].lanes[lane->at.lane].count;
  while ((size_t)lane->at.step < count) {
    bool done = false;
    COLL_TRY(verify_step_run(run, lane, &done));
    if (!done) return COLL_OK;
    finish_step(run, lane);
  }
  if (lane->ended) return COLL_OK;
  lane->ended = true;
  return --run->lanes_left[lane->at.rank] == 0 ? end_rank(run, lane->at.rank) : COLL_OK;
}

static coll_status_t run_all(verify_run_t *run) {
  while (run->queue_length > 0) COLL_TRY(run_lane(run, next_lane(run)));
  for (int32_t rank = 0; rank < run->plan->shape.size; rank++) {
    if (run->lanes_left[rank] > 0) return verify_reject_deadlock(run);
  }
  const verify_channel_t *leftover = verify_channels_leftover(&run->channels);
  return leftover != NULL ? verify_reject_leftover(run, leftover) : COLL_OK;
}

/* ---- set-up ---- */

/* Whether any check asks what one lane has observed of another: not if no memory is accessed by two
 * lanes, except for a barrier, whose result is that order. */
static bool needs_clocks(const plan_t *plan) {
  return plan->reach != PLAN_REACH_OWN || plan->lanes > 1 || plan->shape.collective == COLL_BARRIER;
}

static coll_status_t create(verify_run_t *run) {
  const plan_t *plan = run->plan;
  size_t ranks = (size_t)plan->shape.size;
  run->lane_count = ranks * (size_t)plan->lanes;
  verify_clocks_init(run->lane_count, needs_clocks(plan), &run->clocks);
  COLL_TRY(verify_values_create(plan, &run->values));
  COLL_TRY(verify_memory_create(plan, &run->values, run->report, &run->memory));
  COLL_TRY(verify_channels_create(&run->channels));
  COLL_TRY(verify_expected_create(plan, &run->values, &run->memory, run->report, &run->expected));
  COLL_TRY(base_alloc(run->lane_count, sizeof *run->lanes, "lanes", (void **)&run->lanes));
  COLL_TRY(base_alloc(run->lane_count, sizeof *run->queue, "lanes", (void **)&run->queue));
  COLL_TRY(base_alloc(ranks, sizeof *run->lanes_left, "lanes", (void **)&run->lanes_left));
  return start_all(run);
}

static void destroy(verify_run_t *run) {
  for (size_t i = 0; run->lanes != NULL && i < run->lane_count; i++) {
    free(run->lanes[i].watched);
  }
  free(run->operands);
  free(run->lanes_left);
  free(run->queue);
  free(run->lanes);
  verify_expected_free(&run->expected);
  verify_channels_free(&run->channels);
  verify_memory_free(&run->memory);
  verify_values_free(&run->values);
  verify_clocks_free(&run->clocks);
}

static void reject_malformed(const plan_t *plan, int32_t rank, verify_report_t *report) {
  snprintf(report->text, sizeof report->text, "%s", base_last_error());
  report->verdict = VERIFY_MALFORMED;
  report->rank = rank;
  verify_set_cause(report, (verify_site_t){.rank = rank, .lane = -1, .step = -1});
  for (int lane = 0; lane < plan->lanes; lane++) {
    for (size_t step = 0; step < plan->programs[rank].lanes[lane].count; step++) {
      if (plan_check_step(plan, rank, lane, step) == COLL_OK) continue;
      report->lane = lane;
      report->step = (int)step;
      verify_set_cause(report, (verify_site_t){.rank = rank, .lane = lane, .step = (int32_t)step});
      return;
    }
  }
}

static bool is_well_formed(const plan_t *plan, verify_report_t *report) {
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    if (plan_check_program(plan, rank) == COLL_OK) continue;
    reject_malformed(plan, rank, report);
    return false;
  }
  return true;
}

coll_status_t verify_plan(const plan_t *plan, verify_report_t *report) {
  *report = (verify_report_t){.verdict = VERIFY_PROVED, .rank = -1, .lane = -1, .step = -1};
  if (!is_well_formed(plan, report)) return COLL_OK;
  verify_run_t run = {.plan = plan, .report = report};
  coll_status_t status = create(&run);
  if (status == COLL_OK) status = run_all(&run);
  destroy(&run);
  return report->verdict != VERIFY_PROVED ? COLL_OK : status;
}
