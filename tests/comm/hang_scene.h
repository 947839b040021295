/*
 * Processes of which one is late for a call, in one of several ways, and what they print: it is
 * collected in a file that replaces standard error.
 */
#ifndef COMM_TEST_HANG_SCENE_H
#define COMM_TEST_HANG_SCENE_H

#include <stdatomic.h>
#include <stdint.h>

#include "comm/comm.h"
#include "harness/party.h"

#define MS UINT64_C(1000000)
#define HANG_LATE_NS (800 * MS) /* how late a rank is, so that it is reported */
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
  char sentences[HARNESS_RANKS_MAX][COMM_ERROR_BYTES];
} hang_note_t;

hang_note_t *hang_note(void);

/* A file without a name. */
int hang_open_errors(void);

/* Reads the file and closes it. Returns the number of lines. */
int hang_read_errors(int errors, char text[HANG_REPORT_BYTES]);

/* Replaces standard error as the scene says, and waits for all ranks. */
void hang_begin(party_rank_t *self);

/* COLL_HANG_MS and COLL_CALL_TIMEOUT_MS. */
void hang_set_limits(const char *hang_ms, const char *timeout_ms);

/* Sends signals to all ranks of [from, to] and exits. It is a separate process, so that it runs
 * while they are stopped. */
void hang_signal_later(int from, int to, int number, uint64_t delay_ns);

void hang_loop_for(uint64_t duration_ns);

/* What the late rank does instead of a call. */
void hang_be_late(const hang_scene_t *scene, int rank);

/* Makes a broadcast, an allreduce for which the scene's rank is late, and a barrier. */
int hang_be_late_for_allreduce(party_rank_t *self);

#endif
