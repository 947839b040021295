/*
 * In a collective, the ranks that have not entered it are missing. If all have entered it, the
 * ranks that do not wait in it, or whose process is stopped, are missing. If there are none of
 * these either, the ranks that this rank waits for are missing. In a send or receive, the peer is
 * missing.
 */
#include "watch/missing.h"

#include <unistd.h>

#include "flight/find.h"
#include "flight/process.h"
#include "flight/text.h"

#define NS_PER_S 1e9
#define DETAILED_MAX 4 /* number of ranks whose calls are described */
#define SET_WORDS (FLIGHT_RANKS_MAX / 64)

typedef struct missing {
  struct coll_comm *comm;
  flight_standstill_t own; /* this rank's wait */
  bool collective;
  bool entered; /* the missing ranks have entered the call */
  uint64_t now_ns;
  uint64_t least_ns; /* every waiting rank has waited at least this long */
  uint64_t waiting[SET_WORDS], missing[SET_WORDS];
  int count, first; /* of the missing ranks; first: the lowest */
} missing_t;

static const flight_recorder_t *recorder_of(const missing_t *m, int rank) {
  return m->comm->local->ops->recorder(m->comm->local, rank);
}

static bool has(const uint64_t *set, int rank) {
  return (set[rank / 64] >> rank % 64 & 1) != 0;
}

static void add_missing(missing_t *m, int rank) {
  if (m->count == 0 || rank < m->first) m->first = rank;
  m->missing[rank / 64] |= UINT64_C(1) << rank % 64;
  m->count++;
}

/* ---- who is missing -------------------------------------------------------------------------*/

static bool is_same_call(const missing_t *m, const flight_standstill_t *wait) {
  return wait->number == m->own.number && flight_is_collective(wait->call) == m->collective;
}

static void add_waiting(missing_t *m, int rank, const flight_standstill_t *wait) {
  uint64_t waited_ns = m->now_ns > wait->begin_ns ? m->now_ns - wait->begin_ns : 0;
  if (waited_ns < m->least_ns) m->least_ns = waited_ns;
  m->waiting[rank / 64] |= UINT64_C(1) << rank % 64;
}

/* Finds the ranks that have not entered the collective, and those that wait in it. */
static void find_absent(missing_t *m) {
  for (int rank = 0; rank < m->comm->size; rank++) {
    const flight_recorder_t *recorder = recorder_of(m, rank);
    flight_standstill_t wait;
    if (recorder == NULL) continue;
    if (flight_wait_read(recorder, &wait) && is_same_call(m, &wait)) {
      add_waiting(m, rank, &wait);
    } else if (flight_collectives_begun(recorder) <= m->own.number) {
      add_missing(m, rank);
    }
  }
}

static flight_process_t process_of(const flight_recorder_t *recorder) {
  return flight_process_of(atomic_load_explicit(&recorder->pid, memory_order_acquire),
                           atomic_load_explicit(&recorder->pid_space, memory_order_relaxed));
}

/* Finds the ranks that are in the collective but do not wait, or whose process is stopped. */
static void find_inside(missing_t *m) {
  for (int rank = 0; rank < m->comm->size; rank++) {
    const flight_recorder_t *recorder = recorder_of(m, rank);
    if (rank == m->comm->rank || recorder == NULL) continue;
    if (flight_completed(recorder) > m->own.number) continue;
    bool waits = has(m->waiting, rank);
    if (waits && process_of(recorder) != FLIGHT_PROCESS_STOPPED) continue;
    add_missing(m, rank);
    m->waiting[rank / 64] &= ~(UINT64_C(1) << rank % 64);
  }
}

static void find_waited_for(missing_t *m) {
  const flight_recorder_t *own = recorder_of(m, m->comm->rank);
  for (int rank = 0; rank < m->comm->size; rank++) {
    if (flight_waits_for(own, rank)) add_missing(m, rank);
  }
}

static void find_missing(missing_t *m) {
  if (m->collective) {
    find_absent(m);
    m->entered = m->count == 0;
    if (m->count == 0) find_inside(m);
  } else {
    add_waiting(m, m->comm->rank, &m->own);
    add_missing(m, flight_call_words(m->own.call).root);
  }
  if (m->count == 0) find_waited_for(m);
  if (m->count == 0) add_missing(m, m->comm->rank);
}

/* ---- what a missing rank does ---------------------------------------------------------------*/

static void add_call(flight_text_t *to, uint64_t number, flight_call_t call) {
  char text[FLIGHT_TEXT_BYTES];
  flight_call_describe(call, comm_forced_name(call), text, sizeof text);
  flight_text_add(to, "%llu, %s", (unsigned long long)number, text);
}

static void add_waited(flight_text_t *to, const flight_recorder_t *recorder, int ranks) {
  uint64_t peers[SET_WORDS];
  for (size_t word = 0; word < base_ranks_words(ranks); word++) {
    peers[word] = atomic_load_explicit(&recorder->wait.peers[word], memory_order_acquire);
  }
  flight_text_add(to, ", for ");
  flight_text_add_ranks(to, peers, ranks);
}

/* Whether the recorder belongs to that process, and the process waits there. */
static bool is_wait_of(const flight_recorder_t *recorder, int32_t pid, uint64_t pid_space,
                       flight_standstill_t *wait) {
  return atomic_load_explicit(&recorder->pid, memory_order_acquire) == pid &&
         atomic_load_explicit(&recorder->pid_space, memory_order_relaxed) == pid_space &&
         flight_wait_read(recorder, wait);
}

static bool add_wait_in(flight_text_t *to, const flight_group_t *group, int32_t pid,
                        uint64_t pid_space) {
  flight_standstill_t wait;
  for (int rank = 0; rank < group->ranks; rank++) {
    const flight_recorder_t *recorder = flight_group_recorder(group, rank);
    if (!is_wait_of(recorder, pid, pid_space, &wait)) continue;
    flight_text_add(to, "it waits in call ");
    add_call(to, wait.number, wait.call);
    flight_text_add(to, ", of another communicator, as rank %d of %d", rank, group->ranks);
    add_waited(to, recorder, group->ranks);
    return true;
  }
  return false;
}

/* Describes the wait of the rank's process on another communicator, which need not be one of this
 * process. If the process has several ranks, it is unknown which of them waits, so nothing is
 * added. */
static bool add_wait_elsewhere(flight_text_t *to, const missing_t *m, int32_t pid,
                               uint64_t pid_space) {
  flight_found_t found = {0};
  bool added = false;
  int ranks_of_process = 0;
  for (int rank = 0; rank < m->comm->size; rank++) {
    ranks_of_process += m->comm->peers[rank].pid == pid;
  }
  if (ranks_of_process != 1 || pid_space != flight_pid_space()) return false;
  if (flight_found_add_process(&found, pid) == COLL_OK) {
    uint64_t own =
        atomic_load_explicit(&m->comm->local->flight->communicator, memory_order_relaxed);
    for (size_t i = 0; i < found.count && !added; i++) {
      if (found.groups[i].communicator == own) continue;
      added = add_wait_in(to, &found.groups[i], pid, pid_space);
    }
  }
  flight_found_free(&found);
  return added;
}

static void add_latest(flight_text_t *to, const missing_t *m, const flight_recorder_t *recorder) {
  flight_past_t latest;
  if (!flight_latest(recorder, &latest)) {
    flight_text_add(to, "it has made no call");
    return;
  }
  bool under_way = flight_is_collective(latest.call) && latest.number >= flight_completed(recorder);
  if (m->entered && under_way) {
    flight_text_add(to, "it does not wait");
    return;
  }
  flight_text_add(to, under_way ? "it is still in call " : "its last call was ");
  add_call(to, latest.number, latest.call);
}

/* A waiting process wakes up from time to time, so whether it sleeps or runs carries no
 * information. */
static void add_process(flight_text_t *to, const flight_recorder_t *recorder, bool waits) {
  flight_process_t process = process_of(recorder);
  bool well = process == FLIGHT_PROCESS_RUNNING || process == FLIGHT_PROCESS_SLEEPING;
  if (waits && well) return;
  if (atomic_load_explicit(&recorder->pid, memory_order_relaxed) == (int32_t)getpid()) {
    flight_text_add(to, "; it is a thread of this process");
  } else if (process == FLIGHT_PROCESS_UNKNOWN) {
    flight_text_add(to, "; the state of the process is unknown");
  } else {
    flight_text_add(to, "; the process is %s", flight_process_word(process));
  }
}

static void add_details(flight_text_t *to, const missing_t *m, int rank) {
  const flight_recorder_t *recorder = recorder_of(m, rank);
  flight_standstill_t wait;
  bool waits = true;
  if (recorder == NULL) {
    flight_text_add(to, "nothing is known of it");
    return;
  }
  int32_t pid = atomic_load_explicit(&recorder->pid, memory_order_acquire);
  uint64_t pid_space = atomic_load_explicit(&recorder->pid_space, memory_order_relaxed);
  if (flight_wait_read(recorder, &wait)) {
    flight_text_add(to, "it waits in call ");
    add_call(to, wait.number, wait.call);
    add_waited(to, recorder, m->comm->size);
  } else if (!add_wait_elsewhere(to, m, pid, pid_space)) {
    waits = false;
    add_latest(to, m, recorder);
  }
  add_process(to, recorder, waits);
}

/* ---- the sentence ---------------------------------------------------------------------------*/

static void add_duration(flight_text_t *to, uint64_t ns) {
  double seconds = (double)(ns / 100000000u) / 10; /* rounded down */
  flight_text_add(to, seconds < 10 ? " for at least %.1f s" : " for at least %.0f s", seconds);
}

/* "rank 1 (pid 4711) has", "ranks 1 and 2 have" */
static void add_subject(flight_text_t *to, const missing_t *m) {
  flight_text_add_ranks(to, m->missing, m->comm->size);
  if (m->count == 1) flight_text_add(to, " (pid %d)", (int)m->comm->peers[m->first].pid);
}

static void add_collective(flight_text_t *to, const missing_t *m) {
  bool one = m->count == 1;
  add_subject(to, m);
  if (m->entered) {
    flight_text_add(to, one ? " does not go on in call " : " do not go on in call ");
  } else {
    flight_text_add(to, one ? " has not entered call " : " have not entered call ");
  }
  add_call(to, m->own.number, m->own.call);
  flight_text_add(to, ", which ");
  flight_text_add_ranks(to, m->waiting, m->comm->size);
  bool alone = m->waiting[m->comm->rank / 64] == UINT64_C(1) << m->comm->rank % 64;
  for (int word = 0; word < SET_WORDS; word++) {
    alone = alone && (word == m->comm->rank / 64 || m->waiting[word] == 0);
  }
  flight_text_add(to, alone ? " has been in" : " have been in");
  add_duration(to, m->least_ns);
}

static void add_pair(flight_text_t *to, const missing_t *m) {
  bool receives = flight_call_words(m->own.call).verb == FLIGHT_RECV;
  add_subject(to, m);
  flight_text_add(to, " has not %s rank %d, which has been in call ",
                  receives ? "sent to" : "received from", m->comm->rank);
  add_call(to, m->own.number, m->own.call);
  flight_text_add(to, ",");
  add_duration(to, m->least_ns);
}

int watch_missing_describe(struct coll_comm *comm, uint64_t waited_ns, char *text, size_t bytes) {
  missing_t m = {.comm = comm, .least_ns = waited_ns, .now_ns = comm->watched.hang.seen_ns};
  flight_text_t to = flight_text_in(text, bytes);
  if (!flight_wait_read(comm->local->flight, &m.own)) return comm->rank;
  m.collective = flight_is_collective(m.own.call);
  find_missing(&m);
  if (m.collective) {
    add_collective(&to, &m);
  } else {
    add_pair(&to, &m);
  }
  int detailed = 0;
  for (int rank = m.first; rank < comm->size && detailed < DETAILED_MAX; rank++) {
    if (!has(m.missing, rank)) continue;
    flight_text_add(&to, "; ");
    if (m.count > 1) flight_text_add(&to, "rank %d (pid %d): ", rank, (int)comm->peers[rank].pid);
    add_details(&to, &m, rank);
    detailed++;
  }
  return m.first;
}
