/* Correct plans written by hand, for features that the builders do not use: two lanes with `after`,
 * and depth 0. */
#ifndef VERIFY_TEST_SAMPLES_H
#define VERIFY_TEST_SAMPLES_H

#include "plan/plan.h"

/* Lane 0 exchanges, lane 1 reduces; both ranks reduce in rank 0's order. */
#define SAMPLE_PAIR                                            \
  "plan allreduce pair\nranks 2\nroot 0\nparts 2\nscratch 2\n" \
  "lanes 2\ndepth 1\nmessage 2\nreach own\n"                   \
  "rank 0\n"                                                   \
  "  send 1 <- input[0+2]\n"                                   \
  "  recv 1 -> scratch[0+2]\n"                                 \
  "lane 1\n"                                                   \
  "  after 0:1\n"                                              \
  "  reduce output[0+2] <- input[0+2], scratch[0+2]\n"         \
  "rank 1\n"                                                   \
  "  send 0 <- input[0+2]\n"                                   \
  "  recv 0 -> scratch[0+2]\n"                                 \
  "lane 1\n"                                                   \
  "  after 0:1\n"                                              \
  "  reduce output[0+2] <- scratch[0+2], input[0+2]\n"         \
  "end\n"

/* A pipeline of two chunks in which the middle rank receives on one lane and sends on the other. */
#define SAMPLE_CHAIN                                            \
  "plan broadcast relay\nranks 3\nroot 0\nparts 2\nscratch 0\n" \
  "lanes 2\ndepth 1\nmessage 1\nreach own\n"                    \
  "rank 0\n"                                                    \
  "  copy output[0+2] <- input[0+2]\n"                          \
  "  send 1 <- output[0+1]\n"                                   \
  "  send 1 <- output[1+1]\n"                                   \
  "rank 1\n"                                                    \
  "  recv 0 -> output[0+1]\n"                                   \
  "  recv 0 -> output[1+1]\n"                                   \
  "lane 1\n"                                                    \
  "  after 0:0\n"                                               \
  "  send 2 <- output[0+1]\n"                                   \
  "  after 0:1\n"                                               \
  "  send 2 <- output[1+1]\n"                                   \
  "rank 2\n"                                                    \
  "lane 1\n"                                                    \
  "  recv 1 -> output[0+1]\n"                                   \
  "  recv 1 -> output[1+1]\n"                                   \
  "end\n"

/* Lane 0 stores into the peer's scratch after the peer's signal; lane 1 unpacks. */
#define SAMPLE_PUSH                                            \
  "plan allgather push\nranks 2\nroot 0\nparts 1\nscratch 1\n" \
  "lanes 2\ndepth 0\nmessage 0\nreach scratch\n"               \
  "rank 0\n"                                                   \
  "  signal 1\n"                                               \
  "  wait 1\n"                                                 \
  "  copy 1.scratch[0+1] <- input[0+1]\n"                      \
  "  signal 1\n"                                               \
  "  wait 1\n"                                                 \
  "lane 1\n"                                                   \
  "  copy output[0+1] <- input[0+1]\n"                         \
  "  after 0:4\n"                                              \
  "  copy output[1+1] <- scratch[0+1]\n"                       \
  "rank 1\n"                                                   \
  "  signal 0\n"                                               \
  "  wait 0\n"                                                 \
  "  copy 0.scratch[0+1] <- input[0+1]\n"                      \
  "  signal 0\n"                                               \
  "  wait 0\n"                                                 \
  "lane 1\n"                                                   \
  "  copy output[1+1] <- input[0+1]\n"                         \
  "  after 0:4\n"                                              \
  "  copy output[0+1] <- scratch[0+1]\n"                       \
  "end\n"

/* Without FIFO slots (depth 0): an odd rank receives before it sends. */
#define SAMPLE_RENDEZVOUS                                      \
  "plan sendrecv shift\nranks 2\nroot 0\nparts 1\nscratch 0\n" \
  "lanes 1\ndepth 0\nmessage 1\nreach own\n"                   \
  "rank 0\n"                                                   \
  "  send 1 <- input[0+1]\n"                                   \
  "  recv 1 -> output[0+1]\n"                                  \
  "rank 1\n"                                                   \
  "  recv 0 -> output[0+1]\n"                                  \
  "  send 0 <- input[0+1]\n"                                   \
  "end\n"

/* The plan of the text with its first `line` replaced (NULL: unchanged). Fails the test if it
 * cannot be read. */
plan_t *sample_plan(const char *text, const char *line, const char *replacement);

#endif
