/*
 * A transport that injects delays and deaths: it forwards every call to the transport it wraps, but
 * returns "not ready" first for some sends, receives and waits, chosen by a seed. So a rank stops
 * at every step that may stop, whatever its peers do.
 */
#ifndef TESTS_HARNESS_FAULTS_H
#define TESTS_HARNESS_FAULTS_H

#include <stdint.h>

#include "harness/death.h"
#include "transport/ops.h"

/* Wraps `inner` and takes ownership of it. refuse_percent: the share of calls that return "not
 * ready", below 100. Aborts the program if memory is out. */
transport_t *faults_wrap(transport_t *inner, uint64_t seed, int refuse_percent);

/* For ranks that are threads: users' memory is announced as not mappable, and get copies it. So
 * does a fetch, of memory that is exposed, which the seed decides. */
void faults_hide_memory(transport_t *t, bool hides);

/* The fetches of all ends that were done. */
unsigned long faults_fetches(void);

/* Messages, signals and gets are steps of the victim. */
void faults_die(transport_t *t, death_record_t *death);

#endif
