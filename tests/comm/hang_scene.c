/*
 * Each process notes its pid on the harness's board, so that others can send it signals.
 */
#include "hang_scene.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

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

int hang_read_errors(int errors, char text[HANG_REPORT_BYTES]) {
  ssize_t got = pread(errors, text, HANG_REPORT_BYTES - 1, 0);
  int lines = 0;
  text[got > 0 ? got : 0] = '\0';
  for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++) lines++;
  close(errors);
  return lines;
}

void hang_begin(party_rank_t *self) {
  const hang_scene_t *scene = self->context;
  if (scene->errors > 0) dup2(scene->errors, STDERR_FILENO);
  atomic_store(&hang_note()->pids[self->rank], (int)getpid());
  harness_barrier();
}

void hang_set_limits(const char *hang_ms, const char *timeout_ms) {
  setenv("COLL_HANG_MS", hang_ms, 1);
  setenv("COLL_CALL_TIMEOUT_MS", timeout_ms, 1);
}

void hang_signal_later(int from, int to, int number, uint64_t delay_ns) {
  if (fork() != 0) return;
  base_clock_sleep_ns(delay_ns);
  for (int rank = from; rank <= to; rank++) kill(atomic_load(&hang_note()->pids[rank]), number);
  _exit(0);
}

void hang_loop_for(uint64_t duration_ns) {
  uint64_t end_ns = base_clock_now_ns() + duration_ns;
  while (base_clock_now_ns() < end_ns) continue;
}

void hang_be_late(const hang_scene_t *scene, int rank) {
  switch (scene->lateness) {
    case LATE_SLEEPING: base_clock_sleep_ns(HANG_LATE_NS * HARNESS_PATIENCE); break;
    case LATE_LOOPING: hang_loop_for(HANG_LATE_NS * HARNESS_PATIENCE); break;
    case LATE_GONE: _exit(0);
    case LATE_STOPPED:
      hang_signal_later(rank, rank, SIGCONT, HANG_LATE_NS * HARNESS_PATIENCE);
      raise(SIGSTOP);
      break;
  }
}

int hang_be_late_for_allreduce(party_rank_t *self) {
  const hang_scene_t *scene = self->context;
  float values[5] = {1, 2, 3, 4, 5};
  hang_begin(self);
  PARTY_OK(coll_broadcast(values, values, 5, COLL_FLOAT32, 0, self->comm, NULL));
  if (self->rank == scene->late_rank) hang_be_late(scene, self->rank);
  PARTY_OK(coll_allreduce(values, values, 5, COLL_FLOAT32, COLL_SUM, self->comm, NULL));
  PARTY_OK(coll_barrier(self->comm, NULL));
  return 0;
}
