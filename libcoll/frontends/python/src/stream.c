/*
 * Streams and the work queued on them. A stream keeps what its calls use until it is seen to be
 * idle. A stream that is dropped while calls are in flight lives on until then: each of its works
 * refers to it.
 */
#include <stdlib.h>

#include "flights.h"

PyTypeObject *stream_type, *work_type;
static stream_object_t *streams; /* all, of which idle ones let go of what they keep */

outcome_t outcome_of(coll_status_t status, const flight_t *flights) {
  outcome_t outcome = {status, NULL, -1};
  if (status == COLL_OK) return outcome;
  outcome.text = PyUnicode_FromString(coll_last_error(NULL));
  for (; flights != NULL && outcome.rank < 0; flights = flights->next) {
    outcome.rank = lost_rank(status, flights->comm->comm);
  }
  return outcome;
}

void outcome_raise(const outcome_t *outcome) {
  const char *text = outcome->text != NULL ? PyUnicode_AsUTF8AndSize(outcome->text, NULL)
                                           : coll_status_string(outcome->status);
  if (text != NULL) raise_status_of_rank(outcome->status, text, outcome->rank);
}

void flight_end(flight_t *flight, const outcome_t *outcome) {
  work_object_t *work = flight->work;
  if (work != NULL) {
    work->grouped = false;
    work->ended = true;
    work->status = outcome->status;
    work->text = Py_XNewRef(outcome->text);
    work->rank = outcome->rank;
  }
  array_release(&flight->send);
  array_release(&flight->recv);
  Py_XDECREF(flight->extra);
  Py_XDECREF((PyObject *)flight->comm);
  free(flight);
  Py_XDECREF((PyObject *)work);
}

void flights_end(flight_t **flights, const outcome_t *outcome) {
  flight_t *list = *flights;
  *flights = NULL; /* objects that are freed may run code that looks at it */
  while (list != NULL) {
    flight_t *next = list->next;
    flight_end(list, outcome);
    list = next;
  }
}

bool stream_check(stream_object_t *stream) {
  if (stream->stream == NULL) {
    raise_invalid("the stream is closed: make another one with coll.Stream()");
  } else if (stream->generation != fork_generation()) {
    raise_invalid("the stream was made before fork() by another process: make one here");
  } else {
    return true;
  }
  return false;
}

/* Lets go of what the stream keeps, if all its calls have succeeded. */
static void reap(stream_object_t *stream) {
  if (stream->flights == NULL || stream->stream == NULL) return;
  if (coll_stream_query(stream->stream) == COLL_OK) {
    flights_end(&stream->flights, &(outcome_t){COLL_OK, NULL, -1});
  }
}

void stream_add(stream_object_t *stream, flight_t *flight) {
  flight->next = stream->flights;
  stream->flights = flight;
  if (flight->work != NULL) flight->work->grouped = false;
}

static coll_status_t query(void *stream) {
  return coll_stream_query(stream);
}

/* Aborts the communicators of the calls in flight. */
static void abort_flights(stream_object_t *stream) {
  for (flight_t *flight = stream->flights; flight != NULL; flight = flight->next) {
    if (flight->comm->comm != NULL) coll_comm_abort(flight->comm->comm);
  }
}

/* Waits for the calls of the stream. A failure is that of all works that had not ended. */
static bool stream_wait(stream_object_t *stream) {
  coll_status_t status;
  Py_INCREF((PyObject *)stream);
  bool good = wait_poll(query, stream->stream, &status);
  if (!good) abort_flights(stream);
  PyThreadState *state = PyEval_SaveThread();
  status = coll_stream_sync(stream->stream);
  PyEval_RestoreThread(state);
  PyObject *type = NULL, *value = NULL, *trace = NULL;
  if (!good) PyErr_Fetch(&type, &value, &trace);
  outcome_t outcome = outcome_of(status, stream->flights);
  if (good && status != COLL_OK) outcome_raise(&outcome);
  if (good && PyErr_Occurred()) PyErr_Fetch(&type, &value, &trace);
  flights_end(&stream->flights, &outcome);
  Py_XDECREF(outcome.text);
  Py_DECREF((PyObject *)stream);
  if (type != NULL) PyErr_Restore(type, value, trace);
  return type == NULL;
}

static PyObject *stream_make(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  if (PyTuple_Size(args) != 0 || (keywords != NULL && PyDict_Size(keywords) != 0)) {
    PyErr_SetString(PyExc_TypeError, "Stream() takes no arguments");
    return NULL;
  }
  for (stream_object_t *other = streams; other != NULL; other = other->next) {
    if (other->flights == NULL) continue;
    reap(other);
    break; /* it may have changed the list */
  }
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  stream_object_t *stream = (stream_object_t *)allocate(type, 0);
  if (stream == NULL) return NULL;
  stream->generation = fork_generation();
  coll_status_t status = coll_stream_create(&stream->stream);
  if (status != COLL_OK) {
    stream->stream = NULL;
    Py_DECREF((PyObject *)stream);
    return raise_status(status, NULL);
  }
  stream->next = streams;
  if (streams != NULL) streams->previous = stream;
  streams = stream;
  return (PyObject *)stream;
}

static bool is_linked(const stream_object_t *stream) {
  return stream->previous != NULL || streams == stream;
}

static void unlink_stream(stream_object_t *stream) {
  if (!is_linked(stream)) return;
  if (stream->previous != NULL) stream->previous->next = stream->next;
  if (stream->next != NULL) stream->next->previous = stream->previous;
  if (streams == stream) streams = stream->next;
  stream->previous = stream->next = NULL;
}

/* It has no calls in flight, each of which would refer to it. */
static void stream_free(PyObject *self) {
  stream_object_t *stream = (stream_object_t *)self;
  unlink_stream(stream);
  coll_stream_destroy(stream->stream);
  free_object(self);
}

static PyObject *stream_sync(PyObject *self, PyObject *unused) {
  (void)unused;
  stream_object_t *stream = (stream_object_t *)self;
  if (!stream_check(stream) || !stream_wait(stream)) return NULL;
  Py_RETURN_NONE;
}

static PyObject *stream_done(PyObject *self, PyObject *unused) {
  (void)unused;
  stream_object_t *stream = (stream_object_t *)self;
  if (!stream_check(stream)) return NULL;
  reap(stream);
  return PyBool_FromLong(coll_stream_query(stream->stream) != COLL_IN_PROGRESS);
}

static PyObject *stream_close(PyObject *self, PyObject *unused) {
  (void)unused;
  stream_object_t *stream = (stream_object_t *)self;
  if (stream->stream == NULL) Py_RETURN_NONE;
  if (!stream_check(stream)) return NULL;
  bool good = stream_wait(stream);
  if (stream->stream != NULL) coll_stream_destroy(stream->stream);
  stream->stream = NULL;
  if (!good) return NULL;
  Py_RETURN_NONE;
}

static PyObject *stream_enter(PyObject *self, PyObject *unused) {
  (void)unused;
  return Py_NewRef(self);
}

static PyMethodDef stream_methods[] = {
    {"sync", stream_sync, METH_NOARGS,
     "sync($self, /)\n--\n\nWaits until all calls queued on the stream have ended, and raises the "
     "first failure."},
    {"done", stream_done, METH_NOARGS,
     "done($self, /)\n--\n\nWhether all calls queued on the stream have ended. Does not wait."},
    {"close", stream_close, METH_NOARGS,
     "close($self, /)\n--\n\nWaits as sync() does, and ends the stream."},
    {"__enter__", stream_enter, METH_NOARGS, NULL},
    {"__exit__", stream_close, METH_VARARGS, NULL},
    {NULL}};

static PyType_Slot stream_slots[] = {
    {Py_tp_doc,
     (void *)"Stream()\n--\n\nA queue of calls, which a thread of its own runs in order.\n\nA call "
             "with ``stream=`` returns a Work at once. The arrays of the call are kept until it "
             "has ended, and must not\nbe used before.\n\n>>> import numpy as np\n>>> comm = "
             "coll.init()\n>>> stream = coll.Stream()\n>>> work = comm.allreduce(np.arange(3), "
             "stream=stream)\n>>> print(work.wait())\n[0 2 4]\n>>> stream.close(); "
             "comm.close()\n"},
    {Py_tp_new, stream_make},
    {Py_tp_dealloc, stream_free},
    {Py_tp_methods, stream_methods},
    {0, NULL}};
static PyType_Spec stream_spec = {"coll.Stream", sizeof(stream_object_t), 0, Py_TPFLAGS_DEFAULT,
                                  stream_slots};

/* ---- works -----------------------------------------------------------------------------------*/

work_object_t *work_new(stream_object_t *stream, PyObject *result) {
  allocfunc allocate = (allocfunc)PyType_GetSlot(work_type, Py_tp_alloc);
  work_object_t *work = (work_object_t *)allocate(work_type, 0);
  if (work == NULL) return NULL;
  work->stream = (stream_object_t *)Py_NewRef((PyObject *)stream);
  work->result = Py_NewRef(result);
  return work;
}

static void work_free(PyObject *self) {
  work_object_t *work = (work_object_t *)self;
  Py_XDECREF((PyObject *)work->stream);
  Py_XDECREF(work->result);
  Py_XDECREF(work->text);
  free_object(self);
}

static bool work_check(const work_object_t *work) {
  if (!work->grouped) return true;
  raise_invalid("the call is in a group that has not ended: leave the 'with coll.group()' first");
  return false;
}

static PyObject *work_wait(PyObject *self, PyObject *unused) {
  (void)unused;
  work_object_t *work = (work_object_t *)self;
  if (!work_check(work)) return NULL;
  if (!work->ended && (!stream_check(work->stream) || !stream_wait(work->stream))) return NULL;
  if (work->status != COLL_OK) {
    outcome_raise(&(outcome_t){work->status, work->text, work->rank});
    return NULL;
  }
  return Py_NewRef(work->result);
}

static PyObject *work_done(PyObject *self, PyObject *unused) {
  (void)unused;
  work_object_t *work = (work_object_t *)self;
  if (!work_check(work)) return NULL;
  if (work->ended) Py_RETURN_TRUE;
  return stream_done((PyObject *)work->stream, NULL);
}

static PyMethodDef work_methods[] = {
    {"wait", work_wait, METH_NOARGS,
     "wait($self, /)\n--\n\nWaits until all calls queued on the stream so far have ended, and "
     "returns the result of this one."},
    {"done", work_done, METH_NOARGS,
     "done($self, /)\n--\n\nWhether the call has ended, and with it all of its stream. Does not "
     "wait."},
    {NULL}};

static PyType_Slot work_slots[] = {{Py_tp_doc, (void *)"A call that is queued on a stream."},
                                   {Py_tp_dealloc, work_free},
                                   {Py_tp_methods, work_methods},
                                   {0, NULL}};
static PyType_Spec work_spec = {"coll.Work", sizeof(work_object_t), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, work_slots};

bool stream_init(PyObject *module) {
  stream_type = make_type(module, &stream_spec);
  work_type = stream_type != NULL ? make_type(module, &work_spec) : NULL;
  return work_type != NULL;
}
