/*
 * The death of a rank that is a process: the steps that it takes before, when it dies, and how long
 * the others' calls take from then until they fail. All of it is in memory that the test shares
 * with the processes that it starts.
 */
#ifndef TESTS_HARNESS_DEATH_H
#define TESTS_HARNESS_DEATH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define DEATH_STEPS_MAX 200

/* Within these times 99 % of deaths, and all of them, make the others' calls fail. */
#define DEATH_MOST_MS 2000u
#define DEATH_ALL_MS 20000u

typedef enum death_step {
  DEATH_SEND,
  DEATH_RECV,
  DEATH_TAKE,
  DEATH_SIGNAL,
  DEATH_WAIT,
  DEATH_MCAST_SEND,
  DEATH_MCAST_TAKE,
  DEATH_GET
} death_step_t;

typedef struct death_record {
  long steps;      /* the victim dies in place of the step that follows so many; negative: never */
  long step_count; /* steps that the victim has taken */
  death_step_t kinds[DEATH_STEPS_MAX];
  _Atomic uint64_t died_ns; /* or 0 */
  _Atomic uint64_t late_ns; /* the longest time that another rank's call took to fail */
} death_record_t;

/* It lives as long as the test's process. */
death_record_t *death_record_create(long steps);

/* Stores the time of the end, which must follow at once. death_now ends the process (SIGKILL). */
void death_stamp(death_record_t *record);
_Noreturn void death_now(death_record_t *record);

/* The victim calls them before it tries to take a step, and when it has taken one. */
void death_before_step(death_record_t *record);
void death_after_step(death_record_t *record, death_step_t kind);

/* Notes when a survivor's call was made and when it failed, for death_check_times. How late that is
 * counts since the death or the call, whichever was later. */
void death_note_failure(death_record_t *record, uint64_t called_ns, uint64_t failed_ns);

/* Whether a test must have the victim die in place of that step, where `all` is the record of one
 * that has survived: a sample (harness_takes) of the steps that are the first or the last one of
 * their kind, or of every step (harness_full). *number: of the steps that were candidates, in all
 * calls. */
bool death_takes(const death_record_t *all, long step, unsigned *number);

/* Prints the times within which 99 % of `count` deaths and all of them made calls fail, beside the
 * promised ones. Returns whether these were met. Sorts late_ns. */
bool death_check_times(const char *what, uint64_t late_ns[], int count);

#endif
