/*
 * The collectives of coll.Comm. Each is a row of VERBS: which sides have one block for each rank,
 * and which are used at the root only.
 */
#include "comm.h"

typedef enum sides { SEND_ROWS = 1, RECV_ROWS = 2, SEND_AT_ROOT = 4, RECV_AT_ROOT = 8 } sides_t;

typedef struct verb {
  const char *name;
  int sides;
  bool reduces;
  coll_status_t (*issue)(const call_t *call);
} verb_t;

static coll_stream_t stream_of(const call_t *call) {
  return call->stream != NULL ? call->stream->stream : NULL;
}

/* Of send, unless only recv is used. */
static coll_dtype_t dtype_of(const call_t *call) {
  return call->send.object != NULL ? call->send.dtype : call->recv.dtype;
}

static coll_status_t issue_allreduce(const call_t *call) {
  return coll_allreduce(call->send.data, call->recv.data, call->count, dtype_of(call), call->op,
                        call->comm->comm, stream_of(call));
}

static coll_status_t issue_reduce(const call_t *call) {
  return coll_reduce(call->send.data, call->recv.data, call->count, dtype_of(call), call->op,
                     call->root, call->comm->comm, stream_of(call));
}

static coll_status_t issue_reduce_scatter(const call_t *call) {
  return coll_reduce_scatter(call->send.data, call->recv.data, call->count, dtype_of(call),
                             call->op, call->comm->comm, stream_of(call));
}

static coll_status_t issue_allgather(const call_t *call) {
  return coll_allgather(call->send.data, call->recv.data, call->count, dtype_of(call),
                        call->comm->comm, stream_of(call));
}

static coll_status_t issue_gather(const call_t *call) {
  return coll_gather(call->send.data, call->recv.data, call->count, dtype_of(call), call->root,
                     call->comm->comm, stream_of(call));
}

static coll_status_t issue_scatter(const call_t *call) {
  return coll_scatter(call->send.data, call->recv.data, call->count, dtype_of(call), call->root,
                      call->comm->comm, stream_of(call));
}

static coll_status_t issue_alltoall(const call_t *call) {
  return coll_alltoall(call->send.data, call->recv.data, call->count, dtype_of(call),
                       call->comm->comm, stream_of(call));
}

static coll_status_t issue_broadcast(const call_t *call) {
  bool is_root = call->send.object != NULL;
  const void *data = is_root ? call->send.data : call->recv.data;
  return coll_broadcast(data, (void *)data, call->count, dtype_of(call), call->root,
                        call->comm->comm, stream_of(call));
}

static coll_status_t issue_barrier(const call_t *call) {
  return coll_barrier(call->comm->comm, stream_of(call));
}

static const verb_t ALLREDUCE = {"allreduce", 0, true, issue_allreduce};
static const verb_t REDUCE = {"reduce", RECV_AT_ROOT, true, issue_reduce};
static const verb_t REDUCE_SCATTER = {"reduce_scatter", SEND_ROWS, true, issue_reduce_scatter};
static const verb_t ALLGATHER = {"allgather", RECV_ROWS, false, issue_allgather};
static const verb_t GATHER = {"gather", RECV_ROWS | RECV_AT_ROOT, false, issue_gather};
static const verb_t SCATTER = {"scatter", SEND_ROWS | SEND_AT_ROOT, false, issue_scatter};
static const verb_t ALLTOALL = {"alltoall", SEND_ROWS | RECV_ROWS, false, issue_alltoall};

/* The shape of an object as a tuple; what has none is a row of items. */
static PyObject *shape_of(PyObject *object, const array_t *array) {
  PyObject *shape = PyObject_GetAttr(object, names.shape);
  if (shape == NULL) {
    PyErr_Clear();
    return Py_BuildValue("(n)", (Py_ssize_t)array->items);
  }
  if (PyTuple_CheckExact(shape)) return shape;
  PyObject *tuple = PySequence_Tuple(shape);
  Py_DECREF(shape);
  return tuple;
}

/* The shape without its first axis, which must have a row for each rank. */
static PyObject *row_shape(PyObject *shape, const verb_t *verb, int size) {
  Py_ssize_t dimensions = PyTuple_Size(shape);
  Py_ssize_t rows = dimensions > 0 ? PyLong_AsSsize_t(PyTuple_GetItem(shape, 0)) : -1;
  if (rows == size) return PyTuple_GetSlice(shape, 1, dimensions);
  return raise_invalid(
      "%s: x has shape %R, but its first axis must have a row for each of the %d "
      "ranks: x.reshape(%d, -1)",
      verb->name, shape, size, size);
}

static PyObject *rows_shape(PyObject *shape, int size) {
  PyObject *rows = Py_BuildValue("(i)", size);
  if (rows == NULL) return NULL;
  PyObject *all = PySequence_Concat(rows, shape);
  Py_DECREF(rows);
  return all;
}

static PyObject *output_shape(const call_t *call, const verb_t *verb) {
  PyObject *shape = shape_of(call->send.object, &call->send), *made;
  int rows = verb->sides & (SEND_ROWS | RECV_ROWS);
  if (shape == NULL || rows == 0) return shape;
  if (rows == RECV_ROWS) {
    made = rows_shape(shape, call->comm->size);
  } else {
    made = row_shape(shape, verb, call->comm->size);
    if (made != NULL && rows == (SEND_ROWS | RECV_ROWS)) {
      Py_DECREF(made);
      made = Py_NewRef(shape);
    }
  }
  Py_DECREF(shape);
  return made;
}

/* The array to receive into: the caller's, or a new one. */
static bool take_output(call_t *call, const verb_t *verb, PyObject *out, PyObject *dtype) {
  PyObject *made = NULL;
  if (out == NULL && call->send.object == NULL) {
    raise_invalid("%s: rank %d receives and has no x: pass out=, an array for its part", verb->name,
                  call->comm->rank);
    return false;
  }
  if (out == NULL) {
    PyObject *shape = output_shape(call, verb);
    if (shape == NULL) return false;
    out = made = call_output(shape, call->send.object, &call->send);
    Py_DECREF(shape);
    if (made == NULL) return false;
  }
  call->result = made != NULL ? made : Py_NewRef(out);
  return array_acquire(&call->recv, out, ARRAY_WRITE, dtype, "out");
}

/* Sets the count that coll.h asks for, and checks that both arrays have as many elements. */
static bool set_count(call_t *call, const verb_t *verb) {
  size_t size = (size_t)call->comm->size;
  size_t send_rows = verb->sides & SEND_ROWS ? size : 1;
  size_t recv_rows = verb->sides & RECV_ROWS ? size : 1;
  const array_t *send = &call->send, *recv = &call->recv;
  if (send->object == NULL) {
    call->count = recv->count / recv_rows;
    return true;
  }
  if (send->count % send_rows != 0) {
    raise_invalid("%s: x has %zu elements, which cannot be divided among %d ranks", verb->name,
                  send->items, call->comm->size);
    return false;
  }
  call->count = send->count / send_rows;
  if (recv->object == NULL) return true;
  if (send->dtype != recv->dtype || send->kind != recv->kind) {
    raise_invalid("%s: x has elements of type %s, but out of type %s", verb->name,
                  coll_dtype_name(send->dtype), coll_dtype_name(recv->dtype));
    return false;
  }
  if (recv->count == call->count * recv_rows) return true;
  raise_invalid("%s: out has %zu elements, but the result has %zu", verb->name, recv->items,
                send->items / send_rows * recv_rows);
  return false;
}

static PyObject *collective(const verb_t *verb, PyObject *self, PyObject *x, PyObject *op,
                            PyObject *root, PyObject *out, PyObject *dtype, PyObject *stream) {
  call_t call;
  if (!call_begin(&call, self, stream)) return call_fail(&call);
  if (root != NULL && !arg_int(root, "root", &call.root)) return call_fail(&call);
  bool is_root = call.root == call.comm->rank;
  bool sends = !(verb->sides & SEND_AT_ROOT) || is_root;
  bool receives = !(verb->sides & RECV_AT_ROOT) || is_root;
  if (sends && x == NULL) {
    raise_invalid("%s: rank %d sends, but x is None", verb->name, call.comm->rank);
    return call_fail(&call);
  }
  if (verb->reduces && !arg_op(op, call.comm, &call.op)) return call_fail(&call);
  if (sends && !array_acquire(&call.send, x, ARRAY_READ, dtype, "x")) return call_fail(&call);
  if (sends && verb->reduces && !check_op(&call.send, call.op)) return call_fail(&call);
  if (receives && !take_output(&call, verb, out, dtype)) return call_fail(&call);
  if (!set_count(&call, verb)) return call_fail(&call);
  return call_run(&call, verb->issue);
}

/* ---- methods ---------------------------------------------------------------------------------*/

COMM_METHOD(comm_allreduce) {
  static args_t spec = {"allreduce", 1, 2, {"x", "op", "out", "dtype", "stream"}, {NULL}};
  PyObject *v[5];
  if (!args_parse(&spec, args, count, keywords, v)) return NULL;
  return collective(&ALLREDUCE, self, v[0], v[1], NULL, v[2], v[3], v[4]);
}

COMM_METHOD(comm_reduce) {
  static args_t spec = {"reduce", 1, 3, {"x", "op", "root", "out", "dtype", "stream"}, {NULL}};
  PyObject *v[6];
  if (!args_parse(&spec, args, count, keywords, v)) return NULL;
  return collective(&REDUCE, self, v[0], v[1], v[2], v[3], v[4], v[5]);
}

COMM_METHOD(comm_reduce_scatter) {
  static args_t spec = {"reduce_scatter", 1, 2, {"x", "op", "out", "dtype", "stream"}, {NULL}};
  PyObject *v[5];
  if (!args_parse(&spec, args, count, keywords, v)) return NULL;
  return collective(&REDUCE_SCATTER, self, v[0], v[1], NULL, v[2], v[3], v[4]);
}

COMM_METHOD(comm_allgather) {
  static args_t spec = {"allgather", 1, 1, {"x", "out", "dtype", "stream"}, {NULL}};
  PyObject *v[4];
  if (!args_parse(&spec, args, count, keywords, v)) return NULL;
  return collective(&ALLGATHER, self, v[0], NULL, NULL, v[1], v[2], v[3]);
}

COMM_METHOD(comm_gather) {
  static args_t spec = {"gather", 1, 2, {"x", "root", "out", "dtype", "stream"}, {NULL}};
  PyObject *v[5];
  if (!args_parse(&spec, args, count, keywords, v)) return NULL;
  return collective(&GATHER, self, v[0], NULL, v[1], v[2], v[3], v[4]);
}

COMM_METHOD(comm_scatter) {
  static args_t spec = {"scatter", 1, 2, {"x", "root", "out", "dtype", "stream"}, {NULL}};
  PyObject *v[5];
  if (!args_parse(&spec, args, count, keywords, v)) return NULL;
  return collective(&SCATTER, self, v[0], NULL, v[1], v[2], v[3], v[4]);
}

COMM_METHOD(comm_alltoall) {
  static args_t spec = {"alltoall", 1, 1, {"x", "out", "dtype", "stream"}, {NULL}};
  PyObject *v[4];
  if (!args_parse(&spec, args, count, keywords, v)) return NULL;
  return collective(&ALLTOALL, self, v[0], NULL, NULL, v[1], v[2], v[3]);
}

COMM_METHOD(comm_broadcast) {
  static args_t spec = {"broadcast", 1, 2, {"x", "root", "dtype", "stream"}, {NULL}};
  PyObject *v[4];
  call_t call;
  if (!args_parse(&spec, args, count, keywords, v)) return NULL;
  if (!call_begin(&call, self, v[3])) return call_fail(&call);
  if (v[1] != NULL && !arg_int(v[1], "root", &call.root)) return call_fail(&call);
  bool is_root = call.root == call.comm->rank;
  array_t *array = is_root ? &call.send : &call.recv;
  if (v[0] == NULL) {
    raise_invalid("broadcast: x is None; every rank passes an array");
    return call_fail(&call);
  }
  if (!array_acquire(array, v[0], is_root ? ARRAY_READ : ARRAY_WRITE, v[2], "x")) {
    return call_fail(&call);
  }
  call.count = array->count;
  call.result = Py_NewRef(v[0]);
  return call_run(&call, issue_broadcast);
}

COMM_METHOD(comm_barrier) {
  static args_t spec = {"barrier", 0, 0, {"stream"}, {NULL}};
  PyObject *v[1];
  call_t call;
  if (!args_parse(&spec, args, count, keywords, v)) return NULL;
  if (!call_begin(&call, self, v[0])) return call_fail(&call);
  return call_run(&call, issue_barrier);
}
