/*
 * Groups of sends and receives with known contents. The messages have one order. Every rank calls
 * its ends of them in that order, and divides them into groups as it likes, so the two ends of a
 * message are in different groups, of other sizes.
 */
#ifndef TESTS_GPU_TRAFFIC_H
#define TESTS_GPU_TRAFFIC_H

#include "gpu/ranks.h"

#define TRAFFIC_MESSAGES_MAX 64

typedef struct traffic_message {
  int from, to;
  size_t bytes;
} traffic_message_t;

typedef struct traffic {
  ranks_t *ranks;
  traffic_message_t messages[TRAFFIC_MESSAGES_MAX];
  int count, slices;
  int group_length; /* mean, in messages; 0: one group per rank */
  uint64_t seed;
  char texts[QUESTION_RANKS_MAX][RANKS_TEXT_BYTES];
} traffic_t;

/* Draws messages, of up to 40,000 bytes, between some of the ranks. */
void traffic_draw(traffic_t *traffic, uint64_t *random);

/* Carries the messages out; fails the test at a deadlock, a wrong byte or a refusal. */
void traffic_check(traffic_t *traffic);

#endif
