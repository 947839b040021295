/*
 * The FIFOs: one of messages per (source rank, destination rank, channel) and one of signals per
 * (source rank, destination rank, lane), created at first use. A message carries the values that
 * were sent and the sender's vector clock.
 */
#ifndef VERIFY_CHANNELS_H
#define VERIFY_CHANNELS_H

#include "verify/clocks.h"
#include "verify/report.h"
#include "verify/values.h"

typedef struct verify_message {
  struct verify_message *next;
  verify_view_t view;
  verify_site_t sender;
  int32_t part; /* part number of the first chunk */
  int32_t count;
  verify_value_t values[]; /* [count]; signals carry none */
} verify_message_t;

typedef struct verify_channel {
  uint64_t key; /* 0: an unused slot */
  verify_message_t *head, *tail;
  size_t pushed, popped;
  int32_t source_lane, destination_lane; /* that use its ends; -1: not known yet */
} verify_channel_t;

typedef struct verify_channels {
  verify_channel_t *table; /* open addressing */
  size_t size, used;       /* size is a power of two */
} verify_channels_t;

coll_status_t verify_channels_create(verify_channels_t *channels);
void verify_channels_free(verify_channels_t *channels);

/* The FIFO of messages on channel `number` (or of signals of lane `number`) from `source` to
 * `destination`. The pointer is
 * valid until the next call. */
coll_status_t verify_channel_find(verify_channels_t *channels, bool signal, int32_t source,
                                  int32_t destination, int32_t number, verify_channel_t **channel);

/* Appends a message of `count` values, which the caller fills in. */
coll_status_t verify_channel_push(verify_channel_t *channel, int32_t count,
                                  verify_message_t **message);

/* Removes the oldest message, which the caller frees. The channel must not be empty. */
verify_message_t *verify_channel_pop(verify_channel_t *channel);

/* A channel that is not empty, or NULL. */
const verify_channel_t *verify_channels_leftover(const verify_channels_t *channels);

#endif
