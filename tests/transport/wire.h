/*
 * What the cases of the transport kit are written in: blocking calls over the non-blocking slots,
 * with a deadline, and message contents that can be told from one another.
 */
#ifndef TESTS_TRANSPORT_WIRE_H
#define TESTS_TRANSPORT_WIRE_H

#include "harness/harness.h"
#include "transport/ops.h"

/* Leaves the case when something is not so. */
#define WIRE_REQUIRE(condition, ...)                    \
  do {                                                  \
    if (!(condition)) return harness_fail(__VA_ARGS__); \
  } while (0)

/* Leaves the case when a step of it has failed and said so. */
#define WIRE_TRY(call)  \
  do {                  \
    if (call) return 1; \
  } while (0)

#define WIRE_BYTES_MAX 4096 /* of the messages that these send and expect */

/* The identity of message or signal `number`; both of its words follow from the number. */
flight_call_t wire_id(uint64_t number);

/* Message `number`: its bytes and identity follow from the number. Wait until it is taken, or has
 * come and is the one expected. 0, or 1 after harness_fail. */
int wire_send(transport_t *t, int peer, int channel, uint64_t number, size_t bytes);
int wire_expect(transport_t *t, int peer, int channel, uint64_t number, size_t bytes);

/* The same once, without waiting: *done tells. */
int wire_send_try(transport_t *t, int peer, int channel, uint64_t number, size_t bytes, bool *done);
int wire_expect_try(transport_t *t, int peer, int channel, uint64_t number, size_t bytes,
                    bool *done);

/* Nothing is there to be received, or to be waited for. */
int wire_expect_nothing(transport_t *t, int peer, int channel);

/* Signal `number`: waits until there is room for it, or until it has come and is the one expected.
 */
int wire_signal(transport_t *t, int peer, int channel, uint64_t number);
int wire_wait(transport_t *t, int peer, int channel, uint64_t number);

/* The same once, without waiting. */
int wire_signal_try(transport_t *t, int peer, int channel, uint64_t number, bool *done);
int wire_wait_try(transport_t *t, int peer, int channel, uint64_t number, bool *done);

/* Time limit of one step of a case. */
uint64_t wire_deadline_ns(void);

/* Between two looks, so that ranks on one core get on. */
void wire_pause(void);

void wire_fill(void *data, uint64_t number, size_t bytes);
bool wire_is(const void *data, uint64_t number, size_t bytes);

#endif
