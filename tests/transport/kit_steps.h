/*
 * Helpers of the transport kit's cases: blocking calls over the non-blocking slots, with a
 * deadline, and message contents that identify the message.
 */
#ifndef TESTS_TRANSPORT_KIT_STEPS_H
#define TESTS_TRANSPORT_KIT_STEPS_H

#include "harness/harness.h"
#include "transport/ops.h"

/* Fails the case if the condition is false. */
#define KIT_REQUIRE(condition, ...)                     \
  do {                                                  \
    if (!(condition)) return harness_fail(__VA_ARGS__); \
  } while (0)

/* Returns from the case if a step has failed and reported it. */
#define KIT_TRY(call)   \
  do {                  \
    if (call) return 1; \
  } while (0)

#define KIT_BYTES_MAX 4096 /* maximum length of messages sent and expected here */

/* The identity of message or signal `number`; both of its words follow from the number. */
flight_call_t kit_id(uint64_t number);

/* Sends or receives message `number`, whose bytes and identity follow from the number; waits until
 * it is sent, or received and checked. Returns 0, or 1 after harness_fail. */
int kit_send(transport_t *t, int peer, int channel, uint64_t number, size_t bytes);
int kit_expect(transport_t *t, int peer, int channel, uint64_t number, size_t bytes);

/* One attempt without waiting; *done: it succeeded. */
int kit_send_try(transport_t *t, int peer, int channel, uint64_t number, size_t bytes, bool *done);
int kit_expect_try(transport_t *t, int peer, int channel, uint64_t number, size_t bytes,
                   bool *done);

/* Expects no message and no signal. */
int kit_expect_nothing(transport_t *t, int peer, int channel);

/* Sends or receives signal `number`: waits until there is room, or until it has arrived and is the
 * expected one. */
int kit_signal(transport_t *t, int peer, int channel, uint64_t number);
int kit_wait(transport_t *t, int peer, int channel, uint64_t number);

/* One attempt without waiting. */
int kit_signal_try(transport_t *t, int peer, int channel, uint64_t number, bool *done);
int kit_wait_try(transport_t *t, int peer, int channel, uint64_t number, bool *done);

/* Steps of a case must be done, and sleepers woken, within these times: 30 s, which on any machine
 * nothing but a lost event exceeds. Sleeps that no event ends take twice as long as the second. The
 * kit's own test, where events are lost, sets a shorter limit. */
extern uint64_t kit_limit_ns, kit_wake_ns;

/* For tests of times: sets kit_wake_ns to what is promised, and prints times beside it. */
void kit_measure(unsigned promised_ms);
void kit_print(const char *what, uint64_t longest_ns);

/* Deadline of one step of a case. */
uint64_t kit_deadline_ns(void);

/* Fails past the deadline. In a loop of many steps: where `has` are done that were `had` at the
 * last call, the deadline is a new one. */
int kit_require_progress(const transport_t *t, uint64_t has, uint64_t *had, uint64_t *deadline_ns);

/* harness_barrier, in which what this rank has sent goes on moving, as in a call. */
void kit_barrier(transport_t *t);

/* Yields between two polls, so that ranks on one core make progress. */
void kit_pause(void);

/* The bytes of message `number`. */
void kit_fill(void *data, uint64_t number, size_t bytes);
bool kit_is(const void *data, uint64_t number, size_t bytes);

/* The bytes from index `first` on of a long buffer of rank `owner`: each of them depends on its
 * whole index. */
void kit_fill_own(void *data, int owner, size_t first, size_t bytes);
bool kit_is_own(const void *data, int owner, size_t first, size_t bytes);

/* Whether all bytes have that value. */
bool kit_is_all(const void *data, unsigned char byte, size_t bytes);

#endif
