/*
 * How a call of a verb runs: at once, on a stream, or in a group.
 */
#include <stdlib.h>

#include "comm.h"

bool call_begin(call_t *call, PyObject *self, PyObject *stream) {
  *call = (call_t){.comm = (comm_object_t *)self};
  if (!comm_check(call->comm)) return false;
  if (stream == NULL) return true;
  if (Py_TYPE(stream) != stream_type) {
    PyErr_Format(PyExc_TypeError, "stream is a %R, not a coll.Stream", Py_TYPE(stream));
    return false;
  }
  call->stream = (stream_object_t *)stream;
  return stream_check(call->stream);
}

PyObject *call_fail(call_t *call) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  if (group_is_open()) group_spoil();
  array_release(&call->send);
  array_release(&call->recv);
  Py_CLEAR(call->result);
  PyErr_Restore(type, value, trace);
  return NULL;
}

/* Without group and stream: releases the GIL until the call has ended. */
static PyObject *run_blocking(call_t *call, coll_status_t (*issue)(const call_t *call)) {
  wait_t wait;
  comm_object_t *comm = call->comm;
  comm->busy++;
  wait_begin(&wait, &comm->comm, 1);
  coll_status_t status = issue(call);
  bool good = wait_end(&wait);
  comm->busy--;
  if (good && status != COLL_OK) raise_comm_status(status, NULL, comm->comm);
  if (!good || status != COLL_OK) return call_fail(call);
  array_release(&call->send);
  array_release(&call->recv);
  return call->result != NULL ? call->result : Py_NewRef(Py_None);
}

/* What a queued call keeps alive. */
static flight_t *make_flight(call_t *call) {
  flight_t *flight = calloc(1, sizeof *flight);
  if (flight == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  PyObject *result = call->result != NULL ? call->result : Py_None;
  if (call->stream != NULL) {
    flight->work = work_new(call->stream, result);
    if (flight->work == NULL) {
      free(flight);
      return NULL;
    }
  }
  flight->comm = (comm_object_t *)Py_NewRef((PyObject *)call->comm);
  flight->extra = Py_NewRef(result);
  return flight;
}

static void fill_flight(flight_t *flight, call_t *call) {
  flight->send = call->send;
  flight->recv = call->recv;
  call->send = call->recv = (array_t){0};
}

static PyObject *run_queued(call_t *call, coll_status_t (*issue)(const call_t *call)) {
  flight_t *flight = make_flight(call);
  if (flight == NULL) return call_fail(call);
  coll_status_t status = issue(call);
  if (status != COLL_OK) {
    raise_comm_status(status, NULL, call->comm->comm);
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    flight_end(flight, &(outcome_t){status, NULL, -1});
    PyErr_Restore(type, value, trace);
    return call_fail(call);
  }
  fill_flight(flight, call);
  PyObject *returned = flight->work != NULL   ? (PyObject *)flight->work
                       : call->result != NULL ? call->result
                                              : Py_None;
  Py_INCREF(returned);
  Py_CLEAR(call->result);
  if (group_is_open()) {
    group_add(flight);
  } else {
    stream_add(call->stream, flight);
  }
  return returned;
}

PyObject *call_run(call_t *call, coll_status_t (*issue)(const call_t *call)) {
  if (call->stream == NULL && !group_is_open()) return run_blocking(call, issue);
  return run_queued(call, issue);
}

/* The element type for numpy.empty: that of the model, or the one that the buffer protocol knows.
 */
static PyObject *numpy_type(PyObject *model, const array_t *array) {
  PyObject *dtype = PyObject_GetAttr(model, names.dtype);
  if (dtype != NULL) return dtype;
  PyErr_Clear();
  if (array->kind == ELEMENT_BOOL) return PyUnicode_FromString("bool");
  if (array->kind == ELEMENT_COMPLEX) {
    return PyUnicode_FromString(array->dtype == COLL_FLOAT32 ? "complex64" : "complex128");
  }
  switch (array->dtype) {
    case COLL_BFLOAT16: return PyUnicode_FromString("uint16");
    case COLL_FLOAT8_E4M3:
    case COLL_FLOAT8_E5M2: return PyUnicode_FromString("uint8");
    default: return PyUnicode_FromString(coll_dtype_name(array->dtype));
  }
}

PyObject *call_output(PyObject *shape, PyObject *model, const array_t *array) {
  if ((PyObject *)Py_TYPE(model) != names.ndarray) {
    PyObject *method = PyObject_GetAttr(model, names.new_empty); /* PyTorch's */
    if (method != NULL) {
      PyObject *made = PyObject_CallFunctionObjArgs(method, shape, NULL);
      Py_DECREF(method);
      return made;
    }
    PyErr_Clear();
  }
  PyObject *dtype = numpy_type(model, array);
  if (dtype == NULL) return NULL;
  PyObject *made = PyObject_CallFunctionObjArgs(names.empty, shape, dtype, NULL);
  Py_DECREF(dtype);
  return made;
}

bool check_op(const array_t *array, coll_op_t op) {
  if (array->kind == ELEMENT_NUMBER) return true;
  if (array->kind == ELEMENT_COMPLEX) {
    if (op == COLL_SUM || op == COLL_AVG) return true;
    raise_invalid("op '%s' cannot be used with complex numbers; 'sum' and 'avg' can",
                  op < COLL_OP_BUILTIN_COUNT ? coll_op_name(op) : "premul-sum");
    return false;
  }
  if (op != COLL_SUM && op != COLL_AVG && op < COLL_OP_BUILTIN_COUNT) return true;
  raise_invalid(
      "op '%s' cannot be used with bool; 'max' is or, 'min' is and, 'bxor' is exclusive "
      "or, and x.astype('int64') counts",
      op < COLL_OP_BUILTIN_COUNT ? coll_op_name(op) : "premul-sum");
  return false;
}
