/*
 * Publishing waits, and reading the recorders of other ranks. Every field that a reader loads
 * before it checks `sequence` or `changes` again is loaded with acquire, which orders the check
 * after the load.
 */
#include "flight/recorder.h"

#include <unistd.h>

#include "base/clock.h"
#include "flight/process.h"

void flight_begin(flight_recorder_t *own, uint64_t communicator, int rank) {
  atomic_store_explicit(&own->rank, rank, memory_order_relaxed);
  atomic_store_explicit(&own->communicator, communicator, memory_order_relaxed);
  atomic_store_explicit(&own->pid_space, flight_pid_space(), memory_order_relaxed);
  /* release: a reader that sees the pid sees the other fields */
  atomic_store_explicit(&own->pid, (int32_t)getpid(), memory_order_release);
}

/* ---- waits ----------------------------------------------------------------------------------*/

/* Whether the wait is already published. The owner reads its own stores. */
static bool is_published(const flight_wait_t *own, const flight_standstill_t *wait) {
  if (atomic_load_explicit(&own->waiting, memory_order_relaxed) == 0) return false;
  if (atomic_load_explicit(&own->number, memory_order_relaxed) != wait->number) return false;
  if (atomic_load_explicit(&own->what, memory_order_relaxed) != wait->call.what) return false;
  uint64_t collectives = atomic_load_explicit(&own->collectives, memory_order_relaxed);
  if (collectives != wait->collectives) return false;
  for (size_t word = 0; word < wait->words; word++) {
    uint64_t peers = atomic_load_explicit(&own->peers[word], memory_order_relaxed);
    if (peers != wait->peers[word]) return false;
  }
  return true;
}

/* The entry of the waiting call, or NULL. Calls are recorded when they begin, so it is among the
 * latest. */
static flight_entry_t *entry_of(flight_recorder_t *own, const flight_standstill_t *wait) {
  uint64_t recorded = atomic_load_explicit(&own->recorded, memory_order_relaxed);
  for (uint64_t back = 0; back < FLIGHT_ENTRIES && back < recorded; back++) {
    flight_entry_t *entry = &own->entries[(recorded - 1 - back) % FLIGHT_ENTRIES];
    if (atomic_load_explicit(&entry->number, memory_order_relaxed) == wait->number &&
        atomic_load_explicit(&entry->what, memory_order_relaxed) == wait->call.what) {
      return entry;
    }
  }
  return NULL;
}

static void stamp_begin(flight_recorder_t *own, const flight_standstill_t *wait) {
  flight_entry_t *entry = entry_of(own, wait);
  if (entry == NULL) return;
  atomic_store_explicit(&entry->wait_end_ns, 0, memory_order_relaxed);
  if (atomic_load_explicit(&entry->wait_begin_ns, memory_order_relaxed) == 0) {
    /* release: a reader that sees the begin does not see the end of an earlier call's wait */
    atomic_store_explicit(&entry->wait_begin_ns, wait->begin_ns, memory_order_release);
  }
}

/* Writes all fields except `waiting`. release: a reader that sees any of them sees that the
 * previous wait has ended. */
static void write_wait(flight_wait_t *to, const flight_standstill_t *wait) {
  atomic_store_explicit(&to->polls, wait->polls, memory_order_release);
  atomic_store_explicit(&to->begin_ns, wait->begin_ns, memory_order_release);
  atomic_store_explicit(&to->collectives, wait->collectives, memory_order_release);
  atomic_store_explicit(&to->history, wait->history, memory_order_release);
  atomic_store_explicit(&to->number, wait->number, memory_order_release);
  atomic_store_explicit(&to->what, wait->call.what, memory_order_release);
  atomic_store_explicit(&to->count, wait->call.count, memory_order_release);
  for (size_t word = 0; word < wait->words; word++) {
    atomic_store_explicit(&to->peers[word], wait->peers[word], memory_order_release);
  }
}

void flight_wait_publish(flight_recorder_t *own, const flight_standstill_t *wait) {
  flight_wait_t *to = &own->wait;
  atomic_store_explicit(&to->may_be_ended, wait->may_be_ended, memory_order_release);
  if (is_published(to, wait)) {
    atomic_fetch_add_explicit(&to->polls, 1, memory_order_release);
    return;
  }
  flight_wait_end(own);
  write_wait(to, wait);
  stamp_begin(own, wait);
  /* seq_cst: of two ranks that publish and then read each other, at least one sees the other */
  atomic_store_explicit(&to->waiting, 1, memory_order_seq_cst);
}

static bool end_wait(flight_wait_t *to) {
  if (atomic_load_explicit(&to->waiting, memory_order_relaxed) == 0) return false;
  atomic_store_explicit(&to->waiting, 0, memory_order_relaxed);
  atomic_fetch_add_explicit(&to->changes, 1, memory_order_release);
  return true;
}

void flight_wait_end(flight_recorder_t *own) {
  flight_wait_t *to = &own->wait;
  if (!end_wait(to)) return;
  const flight_standstill_t was = {
      .number = atomic_load_explicit(&to->number, memory_order_relaxed),
      .call.what = atomic_load_explicit(&to->what, memory_order_relaxed)};
  flight_entry_t *entry = entry_of(own, &was);
  if (entry != NULL) {
    atomic_store_explicit(&entry->wait_end_ns, base_clock_now_ns(), memory_order_relaxed);
  }
}

void flight_standstill_publish(flight_wait_t *to, const flight_standstill_t *wait) {
  if (is_published(to, wait)) {
    atomic_store_explicit(&to->polls, wait->polls, memory_order_release);
    return;
  }
  end_wait(to);
  write_wait(to, wait);
  atomic_store_explicit(&to->waiting, 1, memory_order_seq_cst);
}

void flight_standstill_end(flight_wait_t *to) {
  end_wait(to);
}

bool flight_standstill_is(const flight_wait_t *from, uint64_t changes) {
  return atomic_load_explicit(&from->changes, memory_order_acquire) == changes &&
         atomic_load_explicit(&from->waiting, memory_order_acquire) != 0;
}

bool flight_standstill_has(const flight_wait_t *from, int rank) {
  uint64_t word = atomic_load_explicit(&from->peers[rank / 64], memory_order_acquire);
  return (word >> rank % 64 & 1) != 0;
}

bool flight_standstill_read(const flight_wait_t *from, flight_standstill_t *wait) {
  uint64_t changes = atomic_load_explicit(&from->changes, memory_order_acquire);
  if (atomic_load_explicit(&from->waiting, memory_order_seq_cst) == 0) return false;
  *wait = (flight_standstill_t){
      .begin_ns = atomic_load_explicit(&from->begin_ns, memory_order_acquire),
      .collectives = atomic_load_explicit(&from->collectives, memory_order_acquire),
      .history = atomic_load_explicit(&from->history, memory_order_acquire),
      .number = atomic_load_explicit(&from->number, memory_order_acquire),
      .call = {atomic_load_explicit(&from->what, memory_order_acquire),
               atomic_load_explicit(&from->count, memory_order_acquire)},
      .polls = atomic_load_explicit(&from->polls, memory_order_acquire),
      .may_be_ended = atomic_load_explicit(&from->may_be_ended, memory_order_acquire) != 0,
      .changes = changes};
  return flight_standstill_is(from, changes);
}

bool flight_wait_read(const flight_recorder_t *of, flight_standstill_t *wait) {
  return flight_standstill_read(&of->wait, wait);
}

/* ---- calls ----------------------------------------------------------------------------------*/

bool flight_read(const flight_recorder_t *of, uint64_t index, flight_past_t *past) {
  const flight_entry_t *entry = &of->entries[index % FLIGHT_ENTRIES];
  if (atomic_load_explicit(&entry->sequence, memory_order_acquire) != index + 1) return false;
  *past = (flight_past_t){
      .number = atomic_load_explicit(&entry->number, memory_order_acquire),
      .call = {atomic_load_explicit(&entry->what, memory_order_acquire),
               atomic_load_explicit(&entry->count, memory_order_acquire)},
      .wait_begin_ns = atomic_load_explicit(&entry->wait_begin_ns, memory_order_acquire),
      .wait_end_ns = atomic_load_explicit(&entry->wait_end_ns, memory_order_acquire)};
  /* a call that has not waited does not overwrite the wait_end_ns of the entry's previous call */
  if (past->wait_begin_ns == 0) past->wait_end_ns = 0;
  return atomic_load_explicit(&entry->sequence, memory_order_relaxed) == index + 1;
}

bool flight_latest(const flight_recorder_t *of, flight_past_t *past) {
  uint64_t recorded = atomic_load_explicit(&of->recorded, memory_order_acquire);
  return recorded > 0 && flight_read(of, recorded - 1, past);
}

bool flight_is_collective(flight_call_t call) {
  int verb = flight_call_words(call).verb;
  return verb != FLIGHT_SEND && verb != FLIGHT_RECV && verb != FLIGHT_GPU_GROUP;
}

uint64_t flight_collectives_begun(const flight_recorder_t *of) {
  uint64_t recorded = atomic_load_explicit(&of->recorded, memory_order_acquire);
  flight_past_t past;
  for (uint64_t back = 1; back <= FLIGHT_ENTRIES && back <= recorded; back++) {
    if (!flight_read(of, recorded - back, &past)) break;
    if (flight_is_collective(past.call)) return past.number + 1;
  }
  return flight_completed(of);
}

bool flight_find(const flight_recorder_t *of, uint64_t number, flight_past_t *past) {
  uint64_t recorded = atomic_load_explicit(&of->recorded, memory_order_acquire);
  for (uint64_t back = 1; back <= FLIGHT_ENTRIES && back <= recorded; back++) {
    if (!flight_read(of, recorded - back, past)) return false;
    if (flight_is_collective(past->call) && past->number == number) return true;
  }
  return false;
}

bool flight_first_difference(const flight_recorder_t *one, const flight_recorder_t *other,
                             uint64_t limit, flight_past_t *own, flight_past_t *found) {
  uint64_t first = limit > FLIGHT_ENTRIES ? limit - FLIGHT_ENTRIES : 0;
  for (uint64_t number = first; number < limit; number++) {
    if (!flight_find(one, number, own) || !flight_find(other, number, found)) continue;
    if (!flight_call_is(own->call, found->call)) return true;
  }
  return false;
}
