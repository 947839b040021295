/*
 * A transport that is late by choice: it passes every call on to the one it wraps, but answers some
 * sends, receives and waits with "not ready" first, as a seed decides. A rank that runs over it
 * stops at every step that may stop, sooner or later, whatever its peers do.
 */
#ifndef TESTS_HARNESS_FAULTS_H
#define TESTS_HARNESS_FAULTS_H

#include <stdint.h>

#include "transport/ops.h"

/* Wraps `inner`, which it owns from then on. refuse_percent: how many of the calls are refused,
 * below 100. Aborts the program when memory is out. */
transport_t *faults_wrap(transport_t *inner, uint64_t seed, int refuse_percent);

/* The process kills itself (kill -9) when it next touches a message or signal after `steps` of them
 * went through. */
void faults_die_after(transport_t *t, long steps);

#endif
