/*
 * The table of all ranks that coll_comm_dump writes: while they hang, and of ranks that have
 * exited.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "hang_scene.h"

typedef struct dumper {
  coll_comm_t comm;
  char text[HANG_REPORT_BYTES];
  coll_status_t status, status_of_none;
} dumper_t;

static void *dump_during_hang(void *argument) {
  dumper_t *dumper = argument;
  char path[] = "/tmp/libcoll-dump-XXXXXX";
  int fd = mkstemp(path);
  while (!atomic_load(&hang_note()->hangs)) base_clock_sleep_ns(MS);
  dumper->status = coll_comm_dump(dumper->comm, path);
  dumper->status_of_none = coll_comm_dump(dumper->comm, "/nowhere/at/all");
  FILE *file = fopen(path, "r");
  size_t got = file != NULL ? fread(dumper->text, 1, sizeof dumper->text - 1, file) : 0;
  dumper->text[got] = '\0';
  if (file != NULL) fclose(file);
  close(fd);
  unlink(path);
  atomic_store(&hang_note()->is_dumped, true);
  return NULL;
}

/* Checks that the text is a table of so many lines and contains these words. */
static int check_table(party_rank_t *self, const char *table) {
  int pids[2] = {atomic_load(&hang_note()->pids[0]), atomic_load(&hang_note()->pids[1])};
  const char *second = strchr(table, '\n');
  const char *third = second != NULL ? strchr(second + 1, '\n') : NULL;
  PARTY_REQUIRE(third != NULL, "rank %d: %s", self->rank, table);
  PARTY_REQUIRE(strncmp(table, "comm  rank", 10) == 0, "%s", table);
  char pid[32];
  snprintf(pid, sizeof pid, "%d", pids[0]);
  PARTY_REQUIRE(
      strstr(second, pid) != NULL && strstr(second, "in 1, allreduce(float32, sum, ") != NULL, "%s",
      table);
  PARTY_REQUIRE(strstr(second, "for rank 1\n") != NULL, "%s", table);
  snprintf(pid, sizeof pid, "%d  stopped", pids[1]);
  PARTY_REQUIRE(
      strstr(third, pid) != NULL && strstr(third, "last 0, broadcast(float32, count 5, ") != NULL,
      "%s", table);
  return 0;
}

/* Rank 1 is stopped. */
static int await_dump(party_rank_t *self) {
  const hang_waiters_t others = hang_all_others(self);
  hang_await_waiters(&others);
  atomic_store(&hang_note()->hangs, true);
  while (!atomic_load(&hang_note()->is_dumped)) base_clock_sleep_ns(MS);
  return 0;
}

static int dump_while_all_hang(party_rank_t *self) {
  dumper_t dumper = {.comm = self->comm};
  pthread_t thread;
  if (self->rank == 0) pthread_create(&thread, NULL, dump_during_hang, &dumper);
  int code = hang_be_late_for_allreduce(self, await_dump);
  if (self->rank != 0) return code;
  pthread_join(thread, NULL);
  PARTY_REQUIRE(dumper.status == COLL_OK, "%s", coll_status_string(dumper.status));
  PARTY_REQUIRE(dumper.status_of_none == COLL_ERROR_SYSTEM, "a file nowhere was written");
  PARTY_REQUIRE(coll_comm_dump(self->comm, NULL) == COLL_ERROR_INVALID, "NULL was written");
  PARTY_OK(coll_comm_dump(self->comm, "/dev/null"));
  PARTY_REQUIRE(access("/dev/null", F_OK) == 0, "a device was replaced");
  PARTY_TRY(check_table(self, dumper.text));
  return code;
}

Test(dump, by_another_thread_while_all_hang) {
  hang_scene_t scene = {.lateness = LATE_STOPPED, .late_rank = 1};
  harness_result_t result;
  hang_set_limits("0", "0");
  virtual_time_begin();
  cr_assert(party_processes(2, 60000, dump_while_all_hang, &scene, &result), "%s", result.text);
}

/* The row of a rank that has exited. */
static int dump_the_dead(party_rank_t *self) {
  hang_scene_t *scene = self->context;
  hang_begin(self);
  PARTY_OK(coll_barrier(self->comm, NULL));
  if (self->rank == scene->late_rank) hang_be_late(self, NULL);
  coll_status_t status = coll_barrier(self->comm, NULL);
  PARTY_REQUIRE(status == COLL_ERROR_RANK_LOST, "%s", coll_last_error(NULL));
  PARTY_REQUIRE(strstr(coll_last_error(NULL), "rank 1 (pid ") != NULL, "%s", coll_last_error(NULL));
  PARTY_OK(coll_comm_dump(self->comm, "-"));
  return 0;
}

Test(dump, shows_the_dead_on_standard_error) {
  hang_scene_t scene = {.lateness = LATE_GONE, .late_rank = 1, .errors = hang_open_errors()};
  harness_result_t result;
  char text[HANG_REPORT_BYTES];
  hang_set_limits("0", "0");
  virtual_time_begin();
  party_processes(2, 60000, dump_the_dead, &scene, &result);
  cr_assert(result.ranks[0].end == HARNESS_RETURNED && result.ranks[0].value == 0, "%s",
            result.text);
  int lines = hang_read_errors(scene.errors, text);
  cr_assert(lines == 3 && strstr(text, "  exited") != NULL, "%s", text);
}
