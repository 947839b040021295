/*
 * Writes scalars for TensorBoard: an event file in a run's folder, which is a TFRecord stream of
 * hand-encoded protocol buffers (tensorflow.Event with a Summary of simple values). Each event is
 * flushed when it is written.
 */
#ifndef LIBTRAIN_FILES_EVENTS_H
#define LIBTRAIN_FILES_EVENTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct train_events train_events_t;

typedef struct train_scalar {
  const char *tag; /* "loss/training": TensorBoard groups charts by the part before '/' */
  double value;    /* stored as float32 */
} train_scalar_t;

/* Creates the folder if it is missing, and in it a new file named by time, host and process id, as
 * TensorBoard expects. COLL_ERROR_SYSTEM names the path, here and below. */
coll_status_t train_events_open(const char *folder, train_events_t **events);
void train_events_close(train_events_t *events); /* NULL is allowed */

/* Writes one event with the values of all scalars[count] at this step and the current time. */
coll_status_t train_events_write(train_events_t *events, uint64_t step,
                                 const train_scalar_t *scalars, size_t count);

/* The CRC-32C (Castagnoli, RFC 3720) that TFRecord uses, before masking. */
uint32_t train_events_crc(const void *bytes, size_t count);

#endif
