/*
 * What a communicator says about itself, and the choice of algorithms (coll_algo.h).
 */
#include <string.h>

#include "comm.h"

PyObject *comm_error(PyObject *self, PyObject *unused) {
  (void)unused;
  comm_object_t *comm = (comm_object_t *)self;
  if (!comm_check(comm)) return NULL;
  coll_status_t status = coll_comm_error(comm->comm);
  if (status != COLL_OK && status != COLL_IN_PROGRESS) {
    return raise_comm_status(status, coll_last_error(comm->comm), comm->comm);
  }
  Py_RETURN_NONE;
}

PyObject *comm_dump(PyObject *self, PyObject *path) {
  comm_object_t *comm = (comm_object_t *)self;
  PyObject *bytes = NULL;
  if (!comm_check(comm) || !PyUnicode_FSConverter(path, &bytes)) return NULL;
  coll_status_t status = coll_comm_dump(comm->comm, PyBytes_AsString(bytes));
  Py_DECREF(bytes);
  if (status != COLL_OK) return raise_status(status, NULL);
  Py_RETURN_NONE;
}

PyObject *comm_route(PyObject *self, PyObject *peer) {
  comm_object_t *comm = (comm_object_t *)self;
  const char *route;
  int rank;
  if (!comm_check(comm) || !arg_int(peer, "peer", &rank)) return NULL;
  coll_status_t status = coll_comm_route(comm->comm, rank, &route);
  if (status != COLL_OK) return raise_status(status, NULL);
  return PyUnicode_FromString(route);
}

/* The collective of a name. */
static bool find_collective(PyObject *name, coll_collective_t *collective) {
  const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
  for (int i = 0; text != NULL && i < COLL_COLLECTIVE_COUNT; i++) {
    *collective = (coll_collective_t)i;
    if (strcmp(coll_collective_name(*collective), text) == 0) return true;
  }
  if (!PyErr_Occurred()) raise_invalid("there is no collective named %R", name);
  return false;
}

COMM_METHOD(comm_set_algorithm) {
  static args_t spec = {"set_algorithm", 2, 2, {"collective", "name"}, {NULL}};
  PyObject *v[2];
  coll_collective_t collective;
  comm_object_t *comm = (comm_object_t *)self;
  if (!args_parse(&spec, args, count, keywords, v) || !comm_check(comm)) return NULL;
  if (!find_collective(v[0] != NULL ? v[0] : Py_None, &collective)) return NULL;
  const char *name = v[1] != NULL ? PyUnicode_AsUTF8AndSize(v[1], NULL) : NULL;
  if (PyErr_Occurred()) return NULL;
  coll_status_t status = coll_comm_algo_set(comm->comm, collective, name);
  if (status != COLL_OK) return raise_status(status, NULL);
  Py_RETURN_NONE;
}

PyObject *comm_algorithm(PyObject *self, PyObject *name) {
  comm_object_t *comm = (comm_object_t *)self;
  coll_collective_t collective;
  if (!comm_check(comm) || !find_collective(name, &collective)) return NULL;
  return PyUnicode_FromString(coll_comm_algo_used(comm->comm, collective));
}
