/*
 * Sends, receives and alltoallv of coll.Comm.
 */
#include <stdlib.h>

#include "comm.h"

static coll_stream_t stream_of(const call_t *call) {
  return call->stream != NULL ? call->stream->stream : NULL;
}

static coll_status_t issue_send(const call_t *call) {
  return coll_send(call->send.data, call->count, call->send.dtype, call->root, call->comm->comm,
                   stream_of(call));
}

static coll_status_t issue_recv(const call_t *call) {
  return coll_recv(call->recv.data, call->count, call->recv.dtype, call->root, call->comm->comm,
                   stream_of(call));
}

static coll_status_t issue_alltoallv(const call_t *call) {
  size_t n = (size_t)call->comm->size;
  const size_t *v = call->vectors;
  return coll_alltoallv(call->send.data, v, v + n, call->recv.data, v + 2 * n, v + 3 * n,
                        call->send.dtype, call->comm->comm, stream_of(call));
}

COMM_METHOD(comm_send) {
  static args_t spec = {"send", 2, 2, {"x", "peer", "dtype", "stream"}, {NULL}};
  PyObject *v[4];
  call_t call;
  if (!args_parse(&spec, args, count, keywords, v)) return NULL;
  if (!call_begin(&call, self, v[3])) return call_fail(&call);
  if (v[0] == NULL || v[1] == NULL) {
    raise_invalid("send needs an array and the rank of a peer");
    return call_fail(&call);
  }
  if (!arg_int(v[1], "peer", &call.root)) return call_fail(&call);
  if (!array_acquire(&call.send, v[0], ARRAY_READ, v[2], "x")) return call_fail(&call);
  call.count = call.send.count;
  return call_run(&call, issue_send);
}

COMM_METHOD(comm_recv) {
  static args_t spec = {"recv", 2, 2, {"out", "peer", "dtype", "stream"}, {NULL}};
  PyObject *v[4];
  call_t call;
  if (!args_parse(&spec, args, count, keywords, v)) return NULL;
  if (!call_begin(&call, self, v[3])) return call_fail(&call);
  if (v[0] == NULL || v[1] == NULL) {
    raise_invalid("recv needs an array and the rank of a peer");
    return call_fail(&call);
  }
  if (!arg_int(v[1], "peer", &call.root)) return call_fail(&call);
  if (!array_acquire(&call.recv, v[0], ARRAY_WRITE, v[2], "out")) return call_fail(&call);
  call.count = call.recv.count;
  call.result = Py_NewRef(v[0]);
  return call_run(&call, issue_recv);
}

/* ---- alltoallv -------------------------------------------------------------------------------*/

/* Reads n counts or displacements, of elements of `per` values each. */
static bool read_vector(PyObject *object, const char *what, int n, size_t per, size_t *vector) {
  Py_ssize_t length = PySequence_Size(object);
  if (length < 0) return false;
  if (length != n) {
    raise_invalid("alltoallv: %s has %zd entries, but there are %d ranks", what, length, n);
    return false;
  }
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *item = PySequence_GetItem(object, i);
    PyObject *number = item != NULL ? PyNumber_Index(item) : NULL;
    Py_ssize_t value = number != NULL ? PyLong_AsSsize_t(number) : -1;
    Py_XDECREF(number);
    Py_XDECREF(item);
    if (value < 0) {
      if (!PyErr_Occurred()) {
        raise_invalid("alltoallv: %s[%zd] is %zd, below 0", what, i, value);
      }
      return false;
    }
    vector[i] = (size_t)value * per;
  }
  return true;
}

/* Displacements of blocks without gaps, unless given. */
static bool read_displacements(PyObject *object, const char *what, int n, size_t per,
                               const size_t *counts, size_t *vector) {
  if (object != NULL) return read_vector(object, what, n, per, vector);
  size_t sum = 0;
  for (int i = 0; i < n; i++) {
    vector[i] = sum;
    sum += counts[i];
  }
  return true;
}

/* Elements that blocks reach to. */
static size_t extent(const size_t *counts, const size_t *displacements, int n) {
  size_t most = 0;
  for (int i = 0; i < n; i++) {
    size_t end = counts[i] > 0 ? counts[i] + displacements[i] : 0;
    if (end > most) most = end;
  }
  return most;
}

static bool check_extent(const array_t *array, const char *what, size_t wanted) {
  if (wanted <= array->count) return true;
  raise_invalid("alltoallv: the blocks reach to element %zu of %s, which has %zu", wanted, what,
                array->count);
  return false;
}

/* Makes or takes the array for the received blocks. */
static bool take_blocks(call_t *call, PyObject *out, PyObject *dtype, size_t wanted, size_t per) {
  PyObject *made = NULL;
  if (out == NULL) {
    PyObject *shape = Py_BuildValue("(n)", (Py_ssize_t)(wanted / per));
    if (shape == NULL) return false;
    out = made = call_output(shape, call->send.object, &call->send);
    Py_DECREF(shape);
    if (made == NULL) return false;
  }
  call->result = made != NULL ? made : Py_NewRef(out);
  if (!array_acquire(&call->recv, out, ARRAY_WRITE, dtype, "out")) return false;
  if (call->recv.dtype != call->send.dtype || call->recv.kind != call->send.kind) {
    raise_invalid("alltoallv: x has elements of type %s, but out of type %s",
                  coll_dtype_name(call->send.dtype), coll_dtype_name(call->recv.dtype));
    return false;
  }
  return check_extent(&call->recv, "out", wanted);
}

enum { X, SEND_COUNTS, RECV_COUNTS, SEND_DISPLS, RECV_DISPLS, OUT, DTYPE, STREAM, PARAMETERS };

static bool prepare_alltoallv(call_t *call, PyObject *const v[], size_t *vectors) {
  int n = call->comm->size;
  size_t *send_displs = vectors + n, *recv_counts = vectors + 2 * n, *recv_displs = vectors + 3 * n;
  if (!array_acquire(&call->send, v[X], ARRAY_READ, v[DTYPE], "x")) return false;
  size_t per = call->send.kind == ELEMENT_COMPLEX ? 2 : 1;
  call->vectors = vectors;
  return read_vector(v[SEND_COUNTS], "send_counts", n, per, vectors) &&
         read_vector(v[RECV_COUNTS], "recv_counts", n, per, recv_counts) &&
         read_displacements(v[SEND_DISPLS], "send_displs", n, per, vectors, send_displs) &&
         read_displacements(v[RECV_DISPLS], "recv_displs", n, per, recv_counts, recv_displs) &&
         check_extent(&call->send, "x", extent(vectors, send_displs, n)) &&
         take_blocks(call, v[OUT], v[DTYPE], extent(recv_counts, recv_displs, n), per);
}

COMM_METHOD(comm_alltoallv) {
  static args_t spec = {
      "alltoallv",
      3,
      3,
      {"x", "send_counts", "recv_counts", "send_displs", "recv_displs", "out", "dtype", "stream"},
      {NULL}};
  PyObject *v[PARAMETERS];
  call_t call;
  if (!args_parse(&spec, args, count, keywords, v)) return NULL;
  if (!call_begin(&call, self, v[STREAM])) return call_fail(&call);
  if (v[X] == NULL || v[SEND_COUNTS] == NULL || v[RECV_COUNTS] == NULL) {
    raise_invalid("alltoallv needs an array, send_counts and recv_counts");
    return call_fail(&call);
  }
  size_t *vectors = malloc(4 * (size_t)call.comm->size * sizeof *vectors);
  PyObject *returned = NULL;
  if (vectors == NULL) {
    PyErr_NoMemory();
  } else if (prepare_alltoallv(&call, v, vectors)) {
    returned = call_run(&call, issue_alltoallv);
    free(vectors);
    return returned;
  }
  free(vectors);
  return call_fail(&call);
}
