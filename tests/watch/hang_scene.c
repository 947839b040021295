/*
 * Each process notes its pid on the harness's board, so that others can send it signals. That a
 * rank waits, and how often it has checked its wait, is in its flight recorder.
 */
#include "hang_scene.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "flight/process.h"

#define POLL_NS 200000u
#define STEP_NS (25 * MS) /* a wait counts up to a quarter of its limit between two looks */

hang_note_t *hang_note(void) {
  return (hang_note_t *)(void *)((char *)harness_board() + 4096);
}

int hang_open_errors(void) {
  char path[] = "/tmp/libcoll-hang-XXXXXX";
  int fd = mkstemp(path);
  cr_assert(fd >= 0);
  unlink(path);
  fcntl(fd, F_SETFL, O_APPEND);
  return fd;
}

int hang_count_errors(int errors) {
  char text[HANG_REPORT_BYTES];
  ssize_t got = pread(errors, text, sizeof text, 0);
  int lines = 0;
  for (ssize_t i = 0; i < got; i++) lines += text[i] == '\n';
  return lines;
}

int hang_read_errors(int errors, char text[HANG_REPORT_BYTES]) {
  ssize_t got = pread(errors, text, HANG_REPORT_BYTES - 1, 0);
  int lines = hang_count_errors(errors);
  text[got > 0 ? got : 0] = '\0';
  close(errors);
  return lines;
}

void hang_begin(party_rank_t *self) {
  const hang_scene_t *scene = self->context;
  if (scene->errors > 0) dup2(scene->errors, STDERR_FILENO);
  atomic_store(&hang_note()->pids[self->rank], (int)getpid());
  virtual_time_freeze();
  harness_barrier();
}

void hang_set_limits(const char *hang_ms, const char *timeout_ms) {
  setenv("COLL_HANG_MS", hang_ms, 1);
  setenv("COLL_CALL_TIMEOUT_MS", timeout_ms, 1);
}

/* ---- who waits ------------------------------------------------------------------------------*/

void hang_add_waiter(hang_waiters_t *waiters, coll_comm_t comm, int rank) {
  waiters->of[waiters->count++] = comm->local->ops->recorder(comm->local, rank);
}

hang_waiters_t hang_all_others(const party_rank_t *self) {
  hang_waiters_t waiters = {0};
  for (int rank = 0; rank < self->size; rank++) {
    if (rank != self->rank) hang_add_waiter(&waiters, self->comm, rank);
  }
  return waiters;
}

/* It publishes its wait, which counts, before it checks it: after two of these, a whole check has
 * begun and ended. */
static bool looks_again(const flight_recorder_t *of, const flight_standstill_t *was) {
  flight_standstill_t now = *was;
  while (now.polls < was->polls + 2) {
    base_clock_sleep_ns(POLL_NS);
    if (!flight_wait_read(of, &now) || now.changes != was->changes) return false;
  }
  return true;
}

bool hang_look_again(const hang_waiters_t *waiters) {
  flight_standstill_t was[HANG_WAITERS_MAX];
  bool all = true;
  for (int i = 0; i < waiters->count; i++) {
    if (!flight_wait_read(waiters->of[i], &was[i])) return false;
  }
  for (int i = 0; i < waiters->count; i++) all = looks_again(waiters->of[i], &was[i]) && all;
  return all;
}

/* All waited before any looked again, and none found anything since. */
void hang_await_waiters(const hang_waiters_t *waiters) {
  while (!hang_look_again(waiters)) base_clock_sleep_ns(POLL_NS);
}

bool hang_let_pass(const hang_waiters_t *waiters, uint64_t ns) {
  bool all = true;
  while (ns > 0) {
    uint64_t step_ns = ns < STEP_NS ? ns : STEP_NS;
    virtual_time_advance(step_ns);
    all = hang_look_again(waiters) && all;
    ns -= step_ns;
  }
  return all;
}

void hang_await_stopped(pid_t pid) {
  while (flight_process_of(pid, flight_pid_space()) != FLIGHT_PROCESS_STOPPED) {
    base_clock_sleep_ns(POLL_NS);
  }
}

/* ---- being late -----------------------------------------------------------------------------*/

static int require_lines(const hang_scene_t *scene, const char *when, int lines) {
  int found = hang_count_errors(scene->errors);
  PARTY_REQUIRE(found == lines, "%d reports %s, not %d", found, when, lines);
  return 0;
}

int hang_require_reports(const party_rank_t *self, const hang_waiters_t *waiters, uint64_t limit_ns,
                         int reports) {
  hang_await_waiters(waiters);
  PARTY_REQUIRE(hang_let_pass(waiters, limit_ns - 10 * MS), "a wait has ended");
  PARTY_TRY(require_lines(self->context, "before the limit", 0));
  PARTY_REQUIRE(hang_let_pass(waiters, 10 * MS), "a wait has ended");
  PARTY_TRY(require_lines(self->context, "at the limit", reports));
  PARTY_REQUIRE(hang_let_pass(waiters, 3 * limit_ns), "a wait has ended");
  return require_lines(self->context, "long after the limit", reports);
}

static _Noreturn void direct(party_rank_t *self, hang_director_t director) {
  const hang_scene_t *scene = self->context;
  pid_t late = getppid();
  if (scene->lateness == LATE_STOPPED) hang_await_stopped(late);
  int code = director(self);
  atomic_store(&hang_note()->is_over, true);
  kill(late, SIGCONT);
  _exit(code);
}

int hang_be_late(party_rank_t *self, hang_director_t director) {
  const hang_scene_t *scene = self->context;
  int status = 0;
  if (scene->lateness == LATE_GONE) _exit(0);
  pid_t child = fork();
  if (child == 0) direct(self, director);
  if (scene->lateness == LATE_STOPPED) raise(SIGSTOP);
  while (scene->lateness == LATE_LOOPING && !atomic_load(&hang_note()->is_over)) continue;
  waitpid(child, &status, 0);
  return status == 0 ? 0 : harness_fail("the director: status %x", (unsigned)status);
}

int hang_be_late_for_allreduce(party_rank_t *self, hang_director_t director) {
  const hang_scene_t *scene = self->context;
  float values[5] = {1, 2, 3, 4, 5};
  hang_begin(self);
  PARTY_OK(coll_broadcast(values, values, 5, COLL_FLOAT32, 0, self->comm, NULL));
  if (self->rank == scene->late_rank) PARTY_TRY(hang_be_late(self, director));
  PARTY_OK(coll_allreduce(values, values, 5, COLL_FLOAT32, COLL_SUM, self->comm, NULL));
  PARTY_OK(coll_barrier(self->comm, NULL));
  return 0;
}
