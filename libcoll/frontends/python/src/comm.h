/*
 * The methods of coll.Comm, which several files implement. comm_type.c has the table with their
 * documentation.
 */
#ifndef PYTHON_COMM_H
#define PYTHON_COMM_H

#include "flights.h"

#define COMM_METHOD(name) \
  PyObject *name(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)

/* collectives.c, messages.c */
COMM_METHOD(comm_allreduce);
COMM_METHOD(comm_reduce);
COMM_METHOD(comm_reduce_scatter);
COMM_METHOD(comm_allgather);
COMM_METHOD(comm_broadcast);
COMM_METHOD(comm_gather);
COMM_METHOD(comm_scatter);
COMM_METHOD(comm_alltoall);
COMM_METHOD(comm_alltoallv);
COMM_METHOD(comm_barrier);
COMM_METHOD(comm_send);
COMM_METHOD(comm_recv);

/* lifetime.c */
COMM_METHOD(comm_split);
PyObject *comm_close(PyObject *self, PyObject *unused);
PyObject *comm_abort(PyObject *self, PyObject *unused);
PyObject *comm_exit(PyObject *self, PyObject *args);
void comm_free(PyObject *self);
/* Functions of the module: init, create, local, _close_all. */
bool lifetime_init(PyObject *module);

/* op.c */
COMM_METHOD(comm_premul_sum);

/* query.c */
PyObject *comm_error(PyObject *self, PyObject *unused);
PyObject *comm_dump(PyObject *self, PyObject *path);
PyObject *comm_route(PyObject *self, PyObject *peer);
COMM_METHOD(comm_set_algorithm);
PyObject *comm_algorithm(PyObject *self, PyObject *collective);

/* A call: arrays that it uses, and where its result goes. */
typedef struct call {
  comm_object_t *comm;
  stream_object_t *stream; /* NULL: none */
  array_t send, recv;
  PyObject *result; /* owned; NULL: None */
  size_t count;     /* as the function of coll.h takes it */
  coll_op_t op;
  int root; /* or peer */
  /* alltoallv: counts and displacements of send, then of recv */
  size_t *vectors;
} call_t;

/* Prepares a call of the communicator; `stream` may be NULL. */
bool call_begin(call_t *call, PyObject *self, PyObject *stream);
/* Frees what the call uses. Also spoils an open group: its calls must not run without this one.
 * Returns NULL. */
PyObject *call_fail(call_t *call);
/* Issues the call, waits for it if it has neither stream nor group, and returns its result or its
 * Work. */
PyObject *call_run(call_t *call, coll_status_t (*issue)(const call_t *call));
/* Makes the array for the result, of this shape, like `model` (the caller's array; `array` is its
 * memory). shape: a tuple. */
PyObject *call_output(PyObject *shape, PyObject *model, const array_t *array);
/* Checks that the op can be used with the elements. */
bool check_op(const array_t *array, coll_op_t op);

#endif
