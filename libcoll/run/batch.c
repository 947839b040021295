/*
 * One loop over the tasks of a batch: start tasks whose predecessors are done, advance running
 * tasks, and wait a little if no task made progress.
 */
#include "run/batch.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/inline.h"
#include "comm/lock.h"
#include "run/combine.h"
#include "run/task.h"
#include "run/wait.h"

#define SWEEPS_PER_END 16 /* in which something moves */

static void free_calls(const run_call_t *calls, size_t count) {
  for (size_t i = 0; i < count; i++) run_call_free(&calls[i]);
}

static bool has_ticket(const run_batch_t *batch, const struct coll_comm *comm) {
  for (size_t i = 0; i < batch->ticket_count; i++) {
    if (batch->tickets[i].comm == comm) return true;
  }
  return false;
}

/* The loans of sends and receives end together, as what one has received may say that what another
 * has sent has arrived. */
static void unlock(const comm_ticket_t *ticket) {
  engine_world_end_loans(&ticket->comm->world);
  if (ticket->combines) {
    run_combine_release(ticket->comm);
  } else {
    comm_lock_release(ticket->comm);
  }
}

/* A rank that drops a call is out of step with its peers, so the communicator is ended. */
static void fail_ticket(const comm_ticket_t *ticket, coll_status_t status) {
  comm_lock_take(ticket->comm, ticket->number);
  comm_fail(ticket->comm, status, ticket->comm->rank);
  comm_record_error(ticket->comm, status);
  unlock(ticket);
  if (ticket->join != NULL) run_join_end(ticket->join, status);
}

/* All calls of the ticket are complete. */
static void release_ticket(comm_ticket_t *ticket) {
  unlock(ticket);
  if (ticket->join != NULL) run_join_end(ticket->join, COLL_OK);
  ticket->released = true;
}

void run_calls_drop(const run_call_t calls[], size_t count, coll_status_t status) {
  for (size_t i = 0; i < count; i++) {
    comm_ticket_t ticket = {.comm = calls[i].comm, .number = comm_lock_ticket(calls[i].comm)};
    fail_ticket(&ticket, status);
    run_call_free(&calls[i]);
  }
}

coll_status_t run_batch_create(const run_call_t calls[], size_t count, run_batch_t *batch) {
  run_batch_t made = {.call_count = count};
  COLL_TRY(base_alloc(count, sizeof *made.calls, "a batch of calls", (void **)&made.calls));
  coll_status_t status =
      base_alloc(count, sizeof *made.tickets, "a batch's tickets", (void **)&made.tickets);
  if (status != COLL_OK) {
    free(made.calls);
    return status;
  }
  memcpy(made.calls, calls, count * sizeof *calls);
  *batch = made;
  return COLL_OK;
}

void run_batch_discard(run_batch_t *batch) {
  free(batch->calls);
  free(batch->tickets);
  *batch = (run_batch_t){0};
}

void run_batch_order(run_batch_t *batch) {
  for (size_t i = 0; i < batch->call_count; i++) {
    const run_call_t *call = &batch->calls[i];
    if (has_ticket(batch, call->comm)) continue;
    batch->tickets[batch->ticket_count++] = (comm_ticket_t){
        .comm = call->comm, .number = comm_lock_ticket(call->comm), .join = call->join};
  }
}

static bool may_start(const run_task_t *task, const comm_ticket_t tickets[], size_t ticket_count) {
  struct coll_comm *comm = task->call->comm;
  run_join_t *join = task->call->join;
  if (join != NULL && !run_join_is_open(join)) return false;
  for (size_t i = 0; i < ticket_count; i++) {
    if (tickets[i].comm == comm && !comm_lock_is_mine(comm, tickets[i].number)) return false;
  }
  return run_task_may_start(task);
}

static coll_status_t advance_one(run_task_t *task, bool *moved) {
  coll_status_t status = COLL_OK;
  if (task->state == RUN_TASK_WAITING) {
    *moved = true;
    if (task->call->join != NULL) COLL_TRY(run_join_failure(task->call->join));
    status = run_task_start(task);
  }
  bool stepped = false;
  if (status == COLL_OK) status = run_task_advance(task, &stepped);
  *moved = *moved || stepped;
  return status;
}

static bool is_complete(const run_task_t tasks[], size_t count, const struct coll_comm *comm) {
  for (size_t i = 0; i < count; i++) {
    if (tasks[i].call->comm == comm && tasks[i].state != RUN_TASK_DONE) return false;
  }
  return true;
}

/* Releases the locks of communicators whose calls are complete. Otherwise two batches could hold
 * one communicator each and wait for the other's. After the release another thread may destroy the
 * communicator. */
static void release_complete(const run_task_t tasks[], size_t count, comm_ticket_t tickets[],
                             size_t ticket_count) {
  for (size_t i = 0; ticket_count > 1 && i < ticket_count; i++) {
    comm_ticket_t *ticket = &tickets[i];
    if (!ticket->released && is_complete(tasks, count, ticket->comm)) release_ticket(ticket);
  }
}

/* Runs calls of other threads, too (combine.h). last: the last own task. */
static coll_status_t advance_others(run_task_t *last, const comm_ticket_t *ticket, run_wait_t *wait,
                                    bool *moved) {
  if (!ticket->combines || !run_combine_has_calls(ticket->comm)) return COLL_OK;
  return run_combine_advance(last, wait, moved);
}

static coll_status_t advance_ends(run_task_t tasks[], size_t count, bool *moved, size_t *done) {
  for (size_t i = 0; i < count; i++) {
    if (!run_task_is_ending(&tasks[i])) continue;
    COLL_TRY(advance_one(&tasks[i], moved));
    if (tasks[i].state == RUN_TASK_DONE) ++*done;
  }
  return COLL_OK;
}

/* What the ends of sends receive is copied if the receive that it is for is not posted yet: so they
 * come last, while nothing else moves, or are due, as they also send what is stored. */
static coll_status_t advance_all(run_task_t tasks[], size_t count, const comm_ticket_t tickets[],
                                 size_t ticket_count, bool ends_are_due, bool *moved,
                                 size_t *done) {
  *done = 0;
  for (size_t i = 0; i < count; i++) {
    run_task_t *task = &tasks[i];
    if (task->state == RUN_TASK_WAITING && !may_start(task, tickets, ticket_count)) continue;
    if (task->state != RUN_TASK_DONE && !run_task_is_ending(task)) {
      COLL_TRY(advance_one(task, moved));
    }
    if (task->state == RUN_TASK_DONE) ++*done;
  }
  return *moved && !ends_are_due ? COLL_OK : advance_ends(tasks, count, moved, done);
}

static coll_status_t run_tasks(run_task_t tasks[], size_t count, comm_ticket_t tickets[],
                               size_t ticket_count, run_wait_t *wait) {
  for (unsigned sweep = 1;; sweep++) {
    bool moved = false;
    size_t done;
    COLL_TRY(advance_all(tasks, count, tickets, ticket_count, sweep % SWEEPS_PER_END == 0, &moved,
                         &done));
    if (moved) {
      run_wait_reset(wait);
      release_complete(tasks, count, tickets, ticket_count);
    }
    if (done == count) return COLL_OK;
    COLL_TRY(advance_others(&tasks[count - 1], &tickets[0], wait, &moved));
    if (!moved) COLL_TRY(run_wait_step(wait, tasks));
  }
}

/* Whether the calls of a batch may run beside those of other threads: they wait for nothing but the
 * lock of one communicator. */
static bool is_combinable(const run_batch_t *batch) {
  for (size_t i = 0; i < batch->call_count; i++) {
    if (batch->calls[i].kind == RUN_COLLECTIVE || batch->calls[i].join != NULL) return false;
  }
  return batch->ticket_count == 1;
}

/* Takes the lock for sends and receives, unless another thread completes them. Calls that begin
 * here look for a failure then (run_task_start). */
static coll_status_t take_combining(run_task_t *first, run_task_t *last, comm_ticket_t *ticket,
                                    run_wait_t *wait) {
  comm_combinable_t calls = {.first = first, .last = last, .ticket = ticket->number};
  run_combine_take(&calls, wait, &ticket->released);
  ticket->combines = true;
  ticket->number = calls.ticket;
  if (ticket->released || first->state == RUN_TASK_WAITING) return COLL_OK;
  return comm_failure(ticket->comm);
}

/* First the communicators whose locks are held: a peer that waits on one of them may block the
 * holder of another lock. */
BASE_APART static void fail_incomplete(const run_task_t tasks[], size_t count,
                                       comm_ticket_t tickets[], size_t ticket_count,
                                       coll_status_t status) {
  for (int held = 1; held >= 0; held--) {
    for (size_t i = 0; i < ticket_count; i++) {
      comm_ticket_t *ticket = &tickets[i];
      if (ticket->released || (held && !comm_lock_is_mine(ticket->comm, ticket->number))) continue;
      if (is_complete(tasks, count, ticket->comm)) {
        release_ticket(ticket);
      } else {
        fail_ticket(ticket, status);
        ticket->released = true;
      }
    }
  }
}

static coll_status_t run_and_close(run_batch_t *batch, run_task_t tasks[], run_wait_t *wait) {
  comm_ticket_t *tickets = batch->tickets;
  size_t count = batch->call_count, ticket_count = batch->ticket_count;
  coll_status_t status = COLL_OK;
  if (is_combinable(batch)) {
    status = take_combining(&tasks[0], &tasks[count - 1], &tickets[0], wait);
  }
  if (status == COLL_OK) status = run_tasks(tasks, count, tickets, ticket_count, wait);
  run_wait_reset(wait);
  for (size_t i = 0; i < count; i++) run_task_close(&tasks[i]);
  if (status != COLL_OK) fail_incomplete(tasks, count, tickets, ticket_count, status);
  for (size_t i = 0; i < ticket_count; i++) {
    if (!tickets[i].released) release_ticket(&tickets[i]);
  }
  return status;
}

static void free_batch(run_batch_t *batch) {
  free_calls(batch->calls, batch->call_count);
  run_batch_discard(batch);
}

void run_batch_drop(run_batch_t *batch, coll_status_t status) {
  for (size_t i = 0; i < batch->ticket_count; i++) fail_ticket(&batch->tickets[i], status);
  free_batch(batch);
}

/* tasks: memory for as many as there are calls. */
static coll_status_t run_by(run_task_t tasks[], run_batch_t *batch, bool in_background) {
  for (size_t i = 0; i < batch->call_count; i++) {
    run_task_init(&tasks[i], &batch->calls[i]);
    if (i > 0) run_task_link(&tasks[i - 1], &tasks[i]);
    tasks[i].is_grouped = i > 0;
  }
  run_wait_t wait = {.in_background = in_background};
  return run_and_close(batch, tasks, &wait);
}

coll_status_t run_batch_run(run_batch_t *batch, bool in_background) {
  run_task_t *tasks = NULL;
  coll_status_t status =
      base_alloc(batch->call_count, sizeof *tasks, "a batch's tasks", (void **)&tasks);
  if (status != COLL_OK) {
    run_batch_drop(batch, status);
    return status;
  }
  status = run_by(tasks, batch, in_background);
  free(tasks);
  free_batch(batch);
  return status;
}

static coll_status_t run_few(run_call_t calls[], size_t count) {
  run_task_t tasks[RUN_FEW_CALLS];
  comm_ticket_t tickets[RUN_FEW_CALLS];
  run_batch_t batch = {.calls = calls, .call_count = count, .tickets = tickets};
  run_batch_order(&batch);
  coll_status_t status = run_by(tasks, &batch, false);
  free_calls(calls, count);
  return status;
}

coll_status_t run_calls_run(run_call_t calls[], size_t count) {
  run_batch_t batch;
  if (count <= RUN_FEW_CALLS) return run_few(calls, count);
  coll_status_t status = run_batch_create(calls, count, &batch);
  if (status != COLL_OK) {
    run_calls_drop(calls, count, status);
    return status;
  }
  run_batch_order(&batch);
  return run_batch_run(&batch, false);
}

BASE_APART static coll_status_t wait_for_lock(run_task_t *task, const comm_ticket_t *ticket,
                                              run_wait_t *wait) {
  coll_status_t status = COLL_OK;
  while (status == COLL_OK && !comm_lock_is_mine(ticket->comm, ticket->number)) {
    status = run_wait_step(wait, task);
  }
  run_wait_reset(wait);
  return status;
}

static coll_status_t advance_until_done(run_task_t *task, run_wait_t *wait) {
  for (;;) {
    bool moved;
    COLL_TRY(run_task_advance(task, &moved));
    if (task->state == RUN_TASK_DONE) return COLL_OK;
    if (moved) run_wait_reset(wait);
    if (!moved) COLL_TRY(run_wait_step(wait, task));
  }
}

static coll_status_t run_pair(run_task_t *task, comm_ticket_t *ticket, run_wait_t *wait) {
  COLL_TRY(take_combining(task, task, ticket, wait));
  if (task->state == RUN_TASK_WAITING) COLL_TRY(run_task_start(task));
  while (task->state != RUN_TASK_DONE) {
    bool moved;
    COLL_TRY(run_task_advance(task, &moved));
    if (task->state == RUN_TASK_DONE) break;
    COLL_TRY(advance_others(task, ticket, wait, &moved));
    if (moved) run_wait_reset(wait);
    if (!moved) COLL_TRY(run_wait_step(wait, task));
  }
  return COLL_OK;
}

static coll_status_t run_alone(run_task_t *task, comm_ticket_t *ticket, run_wait_t *wait) {
  if (task->call->kind != RUN_COLLECTIVE) return run_pair(task, ticket, wait);
  if (!comm_lock_is_mine(ticket->comm, ticket->number)) COLL_TRY(wait_for_lock(task, ticket, wait));
  COLL_TRY(run_task_start(task));
  return advance_until_done(task, wait);
}

static coll_status_t close_alone(run_task_t *task, comm_ticket_t *ticket, run_wait_t *wait,
                                 coll_status_t status) {
  run_wait_reset(wait);
  run_task_close(task);
  if (status != COLL_OK) {
    fail_incomplete(task, 1, ticket, 1, status);
  } else if (!ticket->released) {
    unlock(ticket);
  }
  return status;
}

coll_status_t run_call_run(const run_call_t *call) {
  run_task_t task;
  comm_ticket_t ticket = {.comm = call->comm, .number = comm_lock_ticket(call->comm)};
  run_wait_t wait = {0};
  run_task_init(&task, call);
  return close_alone(&task, &ticket, &wait, run_alone(&task, &ticket, &wait));
}

coll_status_t run_call_resume(const run_call_t *call, comm_cache_entry_t *entry,
                              coll_status_t status) {
  run_task_t task;
  comm_ticket_t held = {.comm = call->comm, .number = comm_lock_ticket_served(call->comm)};
  run_wait_t wait = {0};
  run_task_init(&task, call);
  run_task_resume(&task, entry);
  if (status == COLL_OK) status = advance_until_done(&task, &wait);
  return close_alone(&task, &held, &wait, status);
}
