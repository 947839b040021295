/*
 * Runs all ranks of a communicator in one thread. Each rank makes a series of calls with the
 * engine, over transports that randomly refuse operations; a seed determines which rank is advanced
 * next. As soon as a call of a rank is done, the rank checks its result, overwrites and frees its
 * buffers and starts its next call, whatever its peers are doing. Where plans only read peers'
 * buffers, and in calls with large messages, a random half of the ranks announce theirs as not
 * mappable.
 */
#ifndef TESTS_ENGINE_FLEET_H
#define TESTS_ENGINE_FLEET_H

#include "algo/algo.h"
#include "harness/question.h"

#define FLEET_TEXT_BYTES 640

typedef enum fleet_place {
  FLEET_OUT_OF_PLACE,
  FLEET_IN_PLACE,
  FLEET_MIXED, /* some ranks in place, others not */
  FLEET_PLACE_COUNT
} fleet_place_t;

typedef struct fleet_call {
  const algo_t *algo;
  question_t question;
  fleet_place_t place;
} fleet_call_t;

typedef struct fleet_options {
  int size;
  uint64_t seed;
  int refuse_percent;
  size_t slot_bytes, scratch_bytes; /* 0: those of the transport */
  bool on_hosts;                    /* no two ranks share memory: large messages are fetched */
} fleet_options_t;

/* Runs the calls. Returns false, with a sentence (rank, call, options, seed), at the first wrong
 * element, overwritten memory, failure or deadlock. Calls whose plan does not fit the slots are
 * skipped. fitted: one flag per call, whether it was run; may be NULL. */
bool fleet_run(const fleet_options_t *options, const fleet_call_t calls[], int count, bool fitted[],
               char text[FLEET_TEXT_BYTES]);

/* The messages that senders have stored in buffers of their receivers (engine/put.h), by all
 * fleets. */
unsigned long fleet_stores(void);

#endif
