/*
 * Groups: `with coll.group():`. A group belongs to its thread. What its calls use is kept until it
 * ends; then it belongs to the streams that the calls name.
 */
#include <stdlib.h>

#include "flights.h"

typedef struct created {
  struct created *next;
  comm_object_t *comm;
} created_t;

static _Thread_local struct {
  int depth;
  int generation;
  flight_t *flights;
  created_t *created;
} group;

static PyTypeObject *group_type;

bool group_is_open(void) {
  return group.depth > 0;
}

void group_add(flight_t *flight) {
  flight->next = group.flights;
  group.flights = flight;
  if (flight->work != NULL) flight->work->grouped = true;
}

bool group_add_created(comm_object_t *comm) {
  created_t *created = malloc(sizeof *created);
  if (created == NULL) {
    PyErr_NoMemory();
    return false;
  }
  *created = (created_t){group.created, (comm_object_t *)Py_NewRef((PyObject *)comm)};
  group.created = created;
  comm->pending = true;
  return true;
}

void group_spoil(void) {
  if (group.depth > 0) coll_barrier(NULL, NULL); /* a call whose arguments are wrong */
}

/* The communicators of the calls, each once, as far as there is room. */
static int comms_of_group(coll_comm_t comms[WAIT_COMMS_MAX]) {
  int count = 0;
  for (flight_t *flight = group.flights; flight != NULL; flight = flight->next) {
    bool is_new = count < WAIT_COMMS_MAX;
    for (int i = 0; i < count; i++) is_new = is_new && comms[i] != flight->comm->comm;
    if (is_new) comms[count++] = flight->comm->comm;
  }
  return count;
}

static void finish_created(void) {
  while (group.created != NULL) {
    created_t *created = group.created;
    group.created = created->next;
    created->comm->pending = false;
    if (created->comm->comm != NULL && !comm_made(created->comm)) PyErr_Clear();
    Py_DECREF((PyObject *)created->comm);
    free(created);
  }
}

/* Gives the flights to their streams; those without one have ended. */
static void finish_flights(const outcome_t *outcome) {
  flight_t *list = group.flights, *ordered = NULL;
  group.flights = NULL;
  while (list != NULL) {
    flight_t *next = list->next;
    list->next = ordered;
    ordered = list;
    list = next;
  }
  while (ordered != NULL) {
    flight_t *next = ordered->next;
    if (outcome->status == COLL_OK && ordered->work != NULL) {
      stream_add(ordered->work->stream, ordered);
    } else {
      flight_end(ordered, outcome);
    }
    ordered = next;
  }
}

static PyObject *group_enter(PyObject *self, PyObject *unused) {
  (void)unused;
  if (group.generation != fork_generation()) {
    /* A fork inside a group: the child has none. */
    group.depth = 0;
    group.flights = NULL;
    group.created = NULL;
    group.generation = fork_generation();
  }
  coll_status_t status = coll_group_start();
  if (status != COLL_OK) return raise_status(status, NULL);
  group.depth++;
  return Py_NewRef(self);
}

/* Ends the outermost group. `failed`: its body has raised, and the calls must not run. */
static PyObject *end_group(bool failed) {
  coll_comm_t comms[WAIT_COMMS_MAX];
  wait_t wait;
  wait_begin(&wait, comms, comms_of_group(comms));
  coll_status_t status = coll_group_end();
  bool good = wait_end(&wait);
  PyObject *type = NULL, *value = NULL, *trace = NULL;
  PyErr_Fetch(&type, &value, &trace);
  outcome_t outcome = {COLL_ERROR_RANK_LOST, NULL, -1}; /* this rank has been interrupted */
  if (good) outcome = outcome_of(status, group.flights);
  finish_created();
  finish_flights(&outcome);
  PyErr_Restore(type, value, trace);
  if (good && status != COLL_OK && !failed) outcome_raise(&outcome);
  Py_XDECREF(outcome.text);
  if (PyErr_Occurred()) return NULL;
  Py_RETURN_FALSE;
}

static PyObject *group_exit(PyObject *self, PyObject *args) {
  (void)self;
  bool failed = PyTuple_Size(args) > 0 && PyTuple_GetItem(args, 0) != Py_None;
  if (group.depth == 0) return raise_invalid("this thread has no group to leave");
  if (failed) group_spoil();
  if (--group.depth == 0) return end_group(failed);
  coll_status_t status = coll_group_end();
  if (status != COLL_OK && !failed) return raise_status(status, NULL);
  Py_RETURN_FALSE;
}

static PyMethodDef group_methods[] = {{"__enter__", group_enter, METH_NOARGS, NULL},
                                      {"__exit__", group_exit, METH_VARARGS, NULL},
                                      {NULL}};

static PyType_Slot group_slots[] = {
    {Py_tp_doc,
     (void *)"group()\n--\n\nCollects the calls of a ``with`` block, which run together at its "
             "end.\n\nSends and receives in one group cannot deadlock each other. The arrays that "
             "calls return are filled when the\nblock ends. If the block raises, none of its calls "
             "runs.\n\n>>> import numpy as np\n>>> comm = coll.init()\n>>> got = np.empty(2)\n"
             ">>> with coll.group():\n...     comm.send(np.full(2, 7.0), 1 - comm.rank)\n...     _ "
             "= comm.recv(got, 1 - comm.rank)\n>>> print(got)\n[7. 7.]\n>>> comm.close()\n"},
    {Py_tp_methods, group_methods},
    {Py_tp_dealloc, free_object},
    {0, NULL}};
static PyType_Spec group_spec = {"coll.group", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT,
                                 group_slots};

bool group_init(PyObject *module) {
  group_type = make_type(module, &group_spec);
  return group_type != NULL;
}
