/*
 * The text of sets of ranks, the rows of the table, states of processes, and files that may or may
 * not contain recorders.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "flight/process.h"
#include "flight/table.h"
#include "flight/text.h"

/* ---- sets of ranks --------------------------------------------------------------------------*/

static void expect_ranks(const int members[], int count, const char *words) {
  uint64_t set[4] = {0};
  char text[128];
  for (int i = 0; i < count; i++) set[members[i] / 64] |= UINT64_C(1) << members[i] % 64;
  flight_text_t to = flight_text_in(text, sizeof text);
  flight_text_add_ranks(&to, set, 256);
  cr_assert(strcmp(text, words) == 0, "%s instead of %s", text, words);
}

#define RANKS(words, ...) \
  expect_ranks((const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int), words)

Test(flight_text, lists_ranks) {
  expect_ranks(NULL, 0, "no rank");
  RANKS("rank 1", 1);
  RANKS("ranks 0 and 2", 0, 2);
  RANKS("ranks 0, 2 and 3", 0, 2, 3);
  RANKS("ranks 0 to 2", 0, 1, 2);
  RANKS("ranks 62 to 65 and 255", 62, 63, 64, 65, 255);
  RANKS("ranks 0, 2, 4, 6, 8, 10, 12, 14 and 2 more", 0, 2, 4, 6, 8, 10, 12, 14, 16, 18);
}

Test(flight_text, is_truncated_where_it_does_not_fit) {
  char text[8];
  flight_text_t to = flight_text_in(text, sizeof text);
  flight_text_add(&to, "%s", "abcdef");
  flight_text_add(&to, "%s", "ghijkl");
  flight_text_add(&to, "%s", "mnopqr");
  cr_assert(strcmp(text, "abcdefg") == 0, "%s", text);
}

/* ---- processes ------------------------------------------------------------------------------*/

static void expect_state(pid_t pid, flight_process_t wanted) {
  flight_process_t found = FLIGHT_PROCESS_UNKNOWN;
  for (int tries = 0; tries < 3000 && found != wanted; tries++) {
    found = flight_process_of((int32_t)pid, flight_pid_space());
    base_clock_sleep_ns(10000000u);
  }
  cr_assert(found == wanted, "%s instead of %s", flight_process_word(found),
            flight_process_word(wanted));
}

Test(flight_process, reads_states) {
  pid_t pid = fork();
  if (pid == 0) {
    setpgid(0, 0);
    for (;;) pause();
  }
  expect_state(pid, FLIGHT_PROCESS_SLEEPING);
  cr_assert(flight_process_group((int32_t)pid) == (int32_t)pid);
  kill(pid, SIGSTOP);
  expect_state(pid, FLIGHT_PROCESS_STOPPED);
  kill(pid, SIGKILL);
  expect_state(pid, FLIGHT_PROCESS_EXITED); /* a zombie */
  waitpid(pid, NULL, 0);
  expect_state(pid, FLIGHT_PROCESS_EXITED);
  expect_state(getpid(), FLIGHT_PROCESS_RUNNING);
  cr_assert(flight_process_of((int32_t)getpid(), flight_pid_space() + 1) == FLIGHT_PROCESS_UNKNOWN);
  cr_assert_gt(flight_process_start((int32_t)getpid()), 0);
  cr_assert_eq(flight_process_start((int32_t)getpid()), flight_process_start((int32_t)getpid()));
  cr_assert_eq(flight_process_start(0), 0);
  cr_assert(flight_process_of(0, flight_pid_space()) == FLIGHT_PROCESS_UNKNOWN);
}

/* ---- files ----------------------------------------------------------------------------------*/

#define FILE_BYTES (1 << 16)
#define OFFSET 4096
#define STRIDE 8192

typedef struct fake {
  flight_directory_t directory;
  size_t bytes;
  unsigned seals;
  const char *name;
} fake_t;

static const fake_t good = {.directory = {.magic = FLIGHT_MAGIC,
                                          .communicator = 77,
                                          .ranks = 2,
                                          .offset = OFFSET,
                                          .stride = STRIDE},
                            .bytes = FILE_BYTES,
                            .seals = F_SEAL_SHRINK | F_SEAL_GROW,
                            .name = "libcoll"};

/* Makes such a file and returns how many communicators are then found in this process. */
static size_t find_in(const fake_t *fake, flight_found_t *found) {
  int fd = memfd_create(fake->name, MFD_ALLOW_SEALING | MFD_CLOEXEC);
  cr_assert(fd >= 0 && ftruncate(fd, (off_t)fake->bytes) == 0);
  cr_assert(pwrite(fd, &fake->directory, sizeof fake->directory, FLIGHT_DIRECTORY_OFFSET) > 0);
  cr_assert(ftruncate(fd, (off_t)fake->bytes) == 0);
  cr_assert(fcntl(fd, F_ADD_SEALS, fake->seals) == 0);
  cr_assert(flight_found_add_process(found, (int32_t)getpid()) == COLL_OK);
  cr_assert(flight_found_add_process(found, (int32_t)getpid()) ==
            COLL_OK); /* no communicator is added twice */
  close(fd);
  return found->count;
}

static void expect_refused(const fake_t *fake, const char *why) {
  flight_found_t found = {0};
  cr_assert(find_in(fake, &found) == 0, "%s", why);
  flight_found_free(&found);
}

_Static_assert(sizeof(flight_recorder_t) <= STRIDE, "the fakes hold recorders");

Test(flight_find, accepts_valid_files_only) {
  flight_found_t found = {0};
  cr_assert(find_in(&good, &found) == 1 && found.groups[0].ranks == 2);
  flight_found_free(&found);
  fake_t bad = good;
  bad.directory.magic++;
  expect_refused(&bad, "another magic number");
  bad = good;
  bad.directory.ranks = 0;
  expect_refused(&bad, "no ranks");
  bad.directory.ranks = FLIGHT_RANKS_MAX + 1;
  bad.directory.stride = 0;
  expect_refused(&bad, "too many ranks");
  bad = good;
  bad.directory.ranks = 9;
  expect_refused(&bad, "ranks behind the end");
  bad = good;
  bad.directory.offset = FILE_BYTES - 128;
  expect_refused(&bad, "a recorder that the end cuts");
  bad.directory.offset = UINT64_MAX - 127;
  expect_refused(&bad, "an offset that wraps around");
  bad = good;
  bad.directory.stride = UINT64_C(1) << 63;
  expect_refused(&bad, "a stride that wraps around");
  bad.directory.stride = STRIDE / 4;
  expect_refused(&bad, "recorders that overlap");
  bad = good;
  bad.directory.offset = OFFSET + 8;
  expect_refused(&bad, "recorders that are not aligned");
  bad = good;
  bad.bytes = 100;
  expect_refused(&bad, "a file that ends in the directory");
  bad = good;
  bad.seals = F_SEAL_GROW;
  expect_refused(&bad, "a file that may shrink");
  bad = good;
  bad.name = "other";
  expect_refused(&bad, "a file of another library");
}

/* ---- rows -----------------------------------------------------------------------------------*/

static flight_recorder_t recorders[3];

static flight_call_t call_of(int verb, size_t count) {
  const flight_words_t words = {
      .verb = verb, .dtype = COLL_FLOAT32, .op = FLIGHT_OP_NONE, .count = count};
  return flight_call_make(&words);
}

static void record(flight_recorder_t *own, uint64_t number, flight_call_t call) {
  flight_record(own, number, call.what, call.count);
}

Test(flight_table, has_a_line_for_each_rank) {
  const uint64_t peers = 2;
  const flight_call_t gather = call_of(COLL_ALLGATHER, 3), barrier = call_of(COLL_BARRIER, 0);
  for (int rank = 0; rank < 3; rank++) flight_begin(&recorders[rank], 5, rank);
  record(&recorders[0], 0, barrier);
  flight_complete(&recorders[0], 1);
  record(&recorders[0], 1, gather);
  const uint64_t begin_ns = base_clock_now_ns() - 2600000000u;
  const flight_standstill_t wait = {.begin_ns = begin_ns,
                                    .collectives = 2,
                                    .number = 1,
                                    .call = gather,
                                    .peers = &peers,
                                    .words = 1};
  flight_wait_publish(&recorders[0], &wait);
  record(&recorders[1], 0, barrier);
  flight_complete(&recorders[1], 1);
  flight_table_t table = {0};
  for (int rank = 0; rank < 3; rank++) {
    cr_assert(flight_table_add(&table, &recorders[rank], rank < 2 ? 5 : 6, rank, 2) == COLL_OK);
  }
  cr_assert(flight_table_has(&table, 5) && !flight_table_has(&table, 7));
  cr_assert(flight_table_shows(&table, (int32_t)getpid()) && !flight_table_shows(&table, 1));
  char *text, wanted[512], pid[16];
  size_t bytes;
  double least_s = 0;
  cr_assert(flight_table_write(&table, &text, &bytes) == COLL_OK && bytes == strlen(text));
  const char *least = strstr(text, "at least ");
  cr_assert(least != NULL, "%s", text);
  least_s = strtod(least + strlen("at least "), NULL);
  cr_assert(least_s > 2.59 && least_s < 1e-9 * (double)(base_clock_now_ns() - begin_ns) + 0.051,
            "%s", text);
  int width = snprintf(pid, sizeof pid, "%d", (int)getpid());
  width = width > 3 ? width : 3;
  snprintf(wanted, sizeof wanted,
           "comm  rank  %*s  process  done  call                               waits\n"
           "   1     0  %*s  running     1  in 1, allgather(float32, count 3)  at least %.1f s "
           "for rank 1\n"
           "   1     1  %*s  running     1  last 0, barrier()                  -\n"
           "   2     2  %*s  running     0  -                                  -\n",
           width, "pid", width, pid, least_s, width, pid, width, pid);
  cr_assert(strcmp(text, wanted) == 0, "%sinstead of\n%s", text, wanted);
  free(text);
  flight_table_free(&table);
}
