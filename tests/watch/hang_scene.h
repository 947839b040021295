/*
 * Processes of which one is late for a call, in one of several ways, and what they print: it is
 * collected in a file that replaces standard error. The time of the ranks passes in steps
 * (harness/virtual_time.h), each only once those that wait have looked at the clock after the
 * one before: what they print, and when, does not depend on the machine.
 */
#ifndef TESTS_WATCH_HANG_SCENE_H
#define TESTS_WATCH_HANG_SCENE_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "comm/comm.h"
#include "harness/party.h"
#include "harness/virtual_time.h"

#define MS UINT64_C(1000000)
#define HANG_REPORT_BYTES 8192

typedef enum hang_lateness { LATE_SLEEPING, LATE_STOPPED, LATE_LOOPING, LATE_GONE } hang_lateness_t;

typedef struct hang_scene {
  hang_lateness_t lateness;
  int late_rank;
  int errors; /* the file that replaces standard error; 0: none */
} hang_scene_t;

/* On the harness's board, behind the data of party.h. */
typedef struct hang_note {
  _Atomic int pids[HARNESS_RANKS_MAX];
  _Atomic bool is_over;          /* who is late need not be any longer */
  _Atomic bool hangs, is_dumped; /* test_dump.c: all is in place; the dump is written */
  char sentences[HARNESS_RANKS_MAX][COMM_ERROR_BYTES];
} hang_note_t;

hang_note_t *hang_note(void);

/* A file without a name. */
int hang_open_errors(void);

/* Lines in the file. */
int hang_count_errors(int errors);

/* Reads the file and closes it. Returns the number of lines. */
int hang_read_errors(int errors, char text[HANG_REPORT_BYTES]);

/* Replaces standard error as the scene says, waits for all ranks, and freezes their clock. */
void hang_begin(party_rank_t *self);

/* COLL_HANG_MS and COLL_CALL_TIMEOUT_MS. */
void hang_set_limits(const char *hang_ms, const char *timeout_ms);

/* ---- who waits ------------------------------------------------------------------------------*/

#define HANG_WAITERS_MAX 4

typedef struct hang_waiters {
  int count;
  const flight_recorder_t *of[HANG_WAITERS_MAX];
} hang_waiters_t;

void hang_add_waiter(hang_waiters_t *waiters, coll_comm_t comm, int rank);

/* The communicator's ranks but for this one. */
hang_waiters_t hang_all_others(const party_rank_t *self);

/* Waits until all of them wait in a call and nothing that they have sent one another is on its
 * way. */
void hang_await_waiters(const hang_waiters_t *waiters);

/* Lets each of them look at the clock and check its wait. False: one of these waits has ended. */
bool hang_look_again(const hang_waiters_t *waiters);

/* Lets time pass, in steps that are short enough to count in full (hang.c of the library). Returns
 * as hang_look_again does. */
bool hang_let_pass(const hang_waiters_t *waiters, uint64_t ns);

void hang_await_stopped(pid_t pid);

/* ---- being late -----------------------------------------------------------------------------*/

/* Requires that the waiters print nothing within just less than the limit, then so many reports,
 * and nothing more in three times the limit. */
int hang_require_reports(const party_rank_t *self, const hang_waiters_t *waiters, uint64_t limit_ns,
                         int reports);

typedef int (*hang_director_t)(party_rank_t *self);

/* Is late as the scene says while a child of this process runs `director`, which returns a code as
 * bodies do, and then resumes this process. */
int hang_be_late(party_rank_t *self, hang_director_t director);

/* Makes a broadcast, an allreduce for which the scene's rank is late, and a barrier. */
int hang_be_late_for_allreduce(party_rank_t *self, hang_director_t director);

#endif
