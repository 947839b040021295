/*
 * What calls that have not ended keep alive: arrays, communicators, results. A flight belongs to
 * the open group of its thread, then to its stream, until it is known that the call has ended.
 */
#ifndef PYTHON_FLIGHTS_H
#define PYTHON_FLIGHTS_H

#include "arrays.h"

typedef struct work_object {
  PyObject_HEAD stream_object_t *stream; /* owned */
  PyObject *result;
  bool grouped; /* its group has not ended */
  bool ended;
  coll_status_t status; /* once it has ended */
  PyObject *text;       /* of its failure */
  int rank;             /* that was lost or missing, or -1 */
} work_object_t;

/* How calls have ended. */
typedef struct outcome {
  coll_status_t status;
  PyObject *text; /* of the failure, or NULL */
  int rank;       /* that was lost or missing, or -1 */
} outcome_t;

typedef struct flight {
  struct flight *next;
  array_t send, recv;
  comm_object_t *comm; /* owned, as all below */
  work_object_t *work; /* NULL: without a stream */
  PyObject *extra;
} flight_t;

struct stream_object {
  PyObject_HEAD coll_stream_t stream; /* NULL: closed */
  int generation;
  flight_t *flights;
  stream_object_t *previous, *next;
};

/* Ends the work of the flight and frees it, and all that it keeps. */
void flight_end(flight_t *flight, const outcome_t *outcome);
/* Ends all flights of the list. */
void flights_end(flight_t **flights, const outcome_t *outcome);
/* The outcome of calls that have failed with this status and the thread's last error, which the
 * caller must free, or succeeded. */
outcome_t outcome_of(coll_status_t status, const flight_t *flights);
/* Raises the failure of the outcome. */
void outcome_raise(const outcome_t *outcome);

bool stream_check(stream_object_t *stream);
/* Takes the flight. */
void stream_add(stream_object_t *stream, flight_t *flight);
work_object_t *work_new(stream_object_t *stream, PyObject *result);

/* Whether this thread has an open group. */
bool group_is_open(void);
/* Takes the flight, until the group ends. */
void group_add(flight_t *flight);
/* Keeps the communicator, which the end of the group makes. */
bool group_add_created(comm_object_t *comm);
/* Lets the group fail: a call could not be added to it. */
void group_spoil(void);

#endif
