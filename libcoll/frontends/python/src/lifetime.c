/*
 * Making and ending communicators. Creation waits for other ranks, so it runs in the background
 * while this thread polls it and handles signals.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm.h"

static comm_object_t *comms; /* all that there are */
/* This process ends with an error: its communicators stay as they are, so that the other ranks
 * learn from the end of the process that this one has failed. */
static bool is_failing;

comm_object_t *comm_new(void) {
  allocfunc allocate = (allocfunc)PyType_GetSlot(comm_type, Py_tp_alloc);
  comm_object_t *comm = (comm_object_t *)allocate(comm_type, 0);
  if (comm == NULL) return NULL;
  comm->rank = comm->size = -1;
  comm->generation = fork_generation();
  comm->next = comms;
  if (comms != NULL) comms->previous = comm;
  comms = comm;
  return comm;
}

static void unlink_comm(comm_object_t *comm) {
  if (comm->previous != NULL) comm->previous->next = comm->next;
  if (comm->next != NULL) comm->next->previous = comm->previous;
  if (comms == comm) comms = comm->next;
  comm->previous = comm->next = NULL;
}

bool comm_made(comm_object_t *comm) {
  coll_status_t status = coll_comm_rank(comm->comm, &comm->rank);
  if (status == COLL_OK) status = coll_comm_size(comm->comm, &comm->size);
  if (status != COLL_OK) raise_status(status, NULL);
  return status == COLL_OK;
}

bool comm_check(comm_object_t *comm) {
  if (comm->generation != fork_generation()) {
    raise_invalid(
        "the communicator was made before fork() by another process, and belongs to it: "
        "fork first, then call coll.init()");
  } else if (comm->pending) {
    raise_invalid("the communicator is being made by a group that has not ended");
  } else if (comm->comm == NULL) {
    raise_invalid("the communicator is closed");
  } else {
    return true;
  }
  return false;
}

/* Destroys it. Another thread must not be in a call of it. */
static coll_status_t destroy(comm_object_t *comm) {
  coll_comm_t handle = comm->comm;
  comm->comm = NULL;
  if (handle == NULL || is_failing) return COLL_OK;
  PyThreadState *state = PyEval_SaveThread();
  coll_status_t status = coll_comm_destroy(handle);
  PyEval_RestoreThread(state);
  return status;
}

PyObject *comm_close(PyObject *self, PyObject *unused) {
  (void)unused;
  comm_object_t *comm = (comm_object_t *)self;
  if (comm->comm == NULL && !comm->pending) Py_RETURN_NONE;
  if (!comm_check(comm)) return NULL;
  if (comm->busy > 0) {
    return raise_invalid(
        "another thread is in a call of this communicator, which cannot be closed "
        "now; abort() ends that call");
  }
  coll_status_t status = destroy(comm);
  if (status != COLL_OK) return raise_status(status, NULL);
  Py_RETURN_NONE;
}

PyObject *comm_abort(PyObject *self, PyObject *unused) {
  (void)unused;
  comm_object_t *comm = (comm_object_t *)self;
  if (!comm_check(comm)) return NULL;
  comm->busy++;
  coll_status_t status = coll_comm_abort(comm->comm);
  comm->busy--;
  if (status != COLL_OK) return raise_status(status, NULL);
  Py_RETURN_NONE;
}

PyObject *comm_exit(PyObject *self, PyObject *args) {
  comm_object_t *comm = (comm_object_t *)self;
  bool failed = PyTuple_Size(args) > 0 && PyTuple_GetItem(args, 0) != Py_None;
  if (!failed) return comm_close(self, NULL);
  if (comm->comm == NULL) Py_RETURN_FALSE;
  coll_comm_abort(comm->comm);
  if (comm->busy == 0) (void)destroy(comm);
  Py_RETURN_FALSE;
}

void comm_free(PyObject *self) {
  comm_object_t *comm = (comm_object_t *)self;
  PyObject *type, *value, *trace;
  unlink_comm(comm);
  PyErr_Fetch(&type, &value, &trace);
  (void)destroy(comm);
  PyErr_Restore(type, value, trace);
  free_object(self);
}

/* At exit: ends what the program has left open, and says what was wrong with it; nothing, if the
 * argument is true. */
static PyObject *close_all(PyObject *module, PyObject *failing) {
  (void)module;
  is_failing = PyObject_IsTrue(failing) == 1;
  if (is_failing) Py_RETURN_NONE;
  for (comm_object_t *comm = comms; comm != NULL; comm = comm->next) {
    int rank = comm->rank;
    if (comm->comm == NULL || comm->busy > 0 || comm->pending) continue;
    Py_INCREF((PyObject *)comm);
    coll_status_t status = destroy(comm);
    if (status != COLL_OK) PySys_WriteStderr("coll: rank %d: %s\n", rank, coll_last_error(NULL));
    Py_DECREF((PyObject *)comm);
  }
  Py_RETURN_NONE;
}

/* ---- creation --------------------------------------------------------------------------------*/

enum { ERROR_BYTES = 1024 };

/* coll_comm_create_env in a thread, which frees this if nobody waits for it any more. */
typedef struct creation {
  coll_comm_config_t config; /* owns its texts */
  coll_comm_t comm;
  coll_status_t status;
  char text[ERROR_BYTES];
  atomic_int parties; /* the thread and its waiter, while they use this */
  atomic_bool done;
} creation_t;

static void leave_creation(creation_t *creation) {
  if (atomic_fetch_sub(&creation->parties, 1) > 1) return;
  config_free_texts(&creation->config);
  free(creation);
}

static void *create_env(void *argument) {
  creation_t *creation = argument;
  creation->status = coll_comm_create_env(&creation->config, &creation->comm);
  if (creation->status != COLL_OK) {
    snprintf(creation->text, sizeof creation->text, "%s", coll_last_error(NULL));
  }
  atomic_store(&creation->done, true);
  leave_creation(creation);
  return NULL;
}

static coll_status_t poll_creation(void *context) {
  creation_t *creation = context;
  return atomic_load(&creation->done) ? COLL_OK : COLL_IN_PROGRESS;
}

/* Starts the thread. NULL: an exception is set. */
static creation_t *begin_creation(const coll_comm_config_t *config) {
  pthread_t thread;
  creation_t *creation = calloc(1, sizeof *creation);
  if (creation == NULL) return (creation_t *)(void *)PyErr_NoMemory();
  creation->config = *config;
  atomic_store(&creation->parties, 1);
  if (!config_own_texts(&creation->config)) {
    PyErr_NoMemory();
  } else {
    atomic_store(&creation->parties, 2);
    if (pthread_create(&thread, NULL, create_env, creation) == 0) {
      pthread_detach(thread);
      return creation;
    }
    atomic_store(&creation->parties, 1);
    raise_status(COLL_ERROR_SYSTEM, "cannot start a thread to make the communicator");
  }
  leave_creation(creation);
  return NULL;
}

static PyObject *init(PyObject *module, PyObject *const *args, Py_ssize_t count,
                      PyObject *keywords) {
  static args_t spec = {"init", 0, 0, {CONFIG_PARAMETERS}, {NULL}};
  (void)module;
  PyObject *v[CONFIG_COUNT];
  coll_comm_config_t config;
  coll_status_t polled;
  if (!args_parse(&spec, args, count, keywords, v) || !config_read(v, &config)) return NULL;
  comm_object_t *comm = comm_new();
  creation_t *creation = comm != NULL ? begin_creation(&config) : NULL;
  bool good = creation != NULL && wait_poll(poll_creation, creation, &polled);
  if (good && creation->status == COLL_OK) {
    comm->comm = creation->comm;
    good = comm_made(comm);
  } else if (good) {
    raise_status(creation->status, creation->text);
    good = false;
  }
  if (creation != NULL) leave_creation(creation);
  if (good) return (PyObject *)comm;
  Py_XDECREF((PyObject *)comm);
  return NULL;
}

static coll_status_t poll_comm(void *context) {
  comm_object_t **pair = context; /* the new one, and the one that is split or NULL */
  coll_status_t status = COLL_OK;
  if (pair[1] != NULL) status = coll_comm_error(pair[1]->comm);
  if (status == COLL_OK && pair[0]->comm != NULL) status = coll_comm_error(pair[0]->comm);
  return status;
}

/* Waits until a communicator is made. Takes `comm`; returns it, or None for a rank that gets none.
 */
static PyObject *finish_creation(comm_object_t *comm, comm_object_t *parent) {
  comm_object_t *pair[2] = {comm, parent};
  coll_status_t status;
  bool good = wait_poll(poll_comm, pair, &status);
  if (!good && comm->comm != NULL) coll_comm_abort(comm->comm);
  if (good && status != COLL_OK) {
    raise_comm_status(status, coll_last_error(comm->comm), parent != NULL ? parent->comm : NULL);
    good = false;
  }
  if (good && comm->comm != NULL) good = comm_made(comm);
  if (good && comm->comm != NULL) return (PyObject *)comm;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  Py_DECREF((PyObject *)comm);
  PyErr_Restore(type, value, trace);
  if (!good) return NULL;
  Py_RETURN_NONE;
}

/* The same for a communicator that is made in the thread's group, if that is open. */
static bool read_config(PyObject *const values[], coll_comm_config_t *config) {
  if (!config_read(values, config)) return false;
  config->blocking = group_is_open();
  return true;
}

/* In a group, its end makes the communicator. */
static PyObject *finish_in_group(comm_object_t *comm, coll_status_t status) {
  if (status != COLL_OK && status != COLL_IN_PROGRESS) {
    raise_status(status, NULL);
  } else if (group_add_created(comm)) {
    return (PyObject *)comm;
  }
  comm->comm = NULL;
  Py_DECREF((PyObject *)comm);
  return NULL;
}

static PyObject *create(PyObject *module, PyObject *const *args, Py_ssize_t count,
                        PyObject *keywords) {
  static args_t spec = {"create", 3, 3, {"id", "rank", "size", CONFIG_PARAMETERS}, {NULL}};
  (void)module;
  PyObject *v[3 + CONFIG_COUNT];
  int rank, size;
  char *bytes;
  Py_ssize_t length;
  coll_comm_config_t config;
  coll_unique_id_t id;
  if (!args_parse(&spec, args, count, keywords, v)) return NULL;
  if (v[0] == NULL || v[1] == NULL || v[2] == NULL) {
    return raise_invalid("create needs the bytes of unique_id(), a rank and a size");
  }
  if (!arg_int(v[1], "rank", &rank) || !arg_int(v[2], "size", &size)) return NULL;
  if (PyBytes_AsStringAndSize(v[0], &bytes, &length) != 0) return NULL;
  if (length != COLL_UNIQUE_ID_BYTES) {
    return raise_invalid("id has %zd bytes; unique_id() makes %d", length, COLL_UNIQUE_ID_BYTES);
  }
  if (!read_config(v + 3, &config)) return NULL;
  memcpy(id.internal, bytes, COLL_UNIQUE_ID_BYTES);
  comm_object_t *comm = comm_new();
  if (comm == NULL) return NULL;
  coll_status_t status = coll_comm_create(&id, rank, size, &config, &comm->comm);
  if (group_is_open()) return finish_in_group(comm, status);
  if (status == COLL_OK || status == COLL_IN_PROGRESS) return finish_creation(comm, NULL);
  comm->comm = NULL;
  raise_status(status, NULL);
  Py_DECREF((PyObject *)comm);
  return NULL;
}

COMM_METHOD(comm_split) {
  static args_t spec = {"split", 1, 2, {"color", "key", CONFIG_PARAMETERS}, {NULL}};
  PyObject *v[2 + CONFIG_COUNT];
  int color = -1, key = 0;
  coll_comm_config_t config;
  comm_object_t *parent = (comm_object_t *)self;
  if (!args_parse(&spec, args, count, keywords, v) || !comm_check(parent)) return NULL;
  key = parent->rank;
  if (v[0] != NULL && !arg_int(v[0], "color", &color)) return NULL;
  if (v[1] != NULL && !arg_int(v[1], "key", &key)) return NULL;
  if (!read_config(v + 2, &config)) return NULL;
  comm_object_t *comm = comm_new();
  if (comm == NULL) return NULL;
  parent->busy++;
  coll_status_t status = coll_comm_split(parent->comm, color, key, &config, &comm->comm);
  PyObject *made;
  if (group_is_open()) {
    made = finish_in_group(comm, status);
  } else if (status == COLL_OK || status == COLL_IN_PROGRESS) {
    made = finish_creation(comm, parent);
  } else {
    comm->comm = NULL;
    made = raise_comm_status(status, NULL, parent->comm);
    Py_DECREF((PyObject *)comm);
  }
  parent->busy--;
  return made;
}

/* Communicators of threads of this process. */
static PyObject *local(PyObject *module, PyObject *const *args, Py_ssize_t count,
                       PyObject *keywords) {
  static args_t spec = {"local", 1, 1, {"size", CONFIG_PARAMETERS}, {NULL}};
  (void)module;
  PyObject *v[1 + CONFIG_COUNT];
  coll_comm_config_t config;
  int size = 0;
  if (!args_parse(&spec, args, count, keywords, v)) return NULL;
  if (v[0] != NULL && !arg_int(v[0], "size", &size)) return NULL;
  if (!config_read(v + 1, &config)) return NULL;
  if (size < 1 || size > 65536) return raise_invalid("local: %d ranks were asked for", size);
  coll_comm_t *handles = calloc((size_t)size, sizeof *handles);
  if (handles == NULL) return PyErr_NoMemory();
  coll_status_t status = coll_comm_create_local(size, &config, handles);
  PyObject *list = status == COLL_OK ? PyList_New(0) : raise_status(status, NULL);
  for (int i = 0; status == COLL_OK && i < size; i++) {
    comm_object_t *comm = list != NULL ? comm_new() : NULL;
    if (comm == NULL) {
      coll_comm_destroy(handles[i]);
      Py_CLEAR(list);
      continue;
    }
    comm->comm = handles[i];
    if (!comm_made(comm) || PyList_Append(list, (PyObject *)comm) != 0) Py_CLEAR(list);
    Py_DECREF((PyObject *)comm);
  }
  free(handles);
  return list;
}

static PyMethodDef functions[] = {
    {"init", FAST(init), METH_FASTCALL | METH_KEYWORDS,
     "init(*, " CONFIG_DOC
     ")\n--\n\nMakes the communicator of the ranks that a launcher has started.\n\nRank, size "
     "and address come from collrun (python -m coll.run), torchrun, mpirun, mpiexec or srun, or "
     "from\nCOLL_RANK, COLL_SIZE and COLL_ADDRESS. Without a launcher this process is the only "
     "rank. Every rank calls it, equally\noften.\n\nSettings "
     "count where their COLL_* variable is not set (docs/knobs.md). Times are in seconds; "
     "negative: "
     "none. `transports` is like\n'shm,tcp', `interfaces` 'eth,=ib0', `algorithms` "
     "'allreduce=ring,broadcast=chain', `tune` 'auto' or 'builtin'.\n\n>>> comm = coll.init()\n>>> "
     "comm.size\n2\n>>> "
     "comm.close()\n"},
    {"create", FAST(create), METH_FASTCALL | METH_KEYWORDS,
     "create(id, rank, size, *, " CONFIG_DOC ")\n--\n\nMakes this process or thread rank `rank` "
     "of `size`, with an `id` of unique_id() that all ranks have.\n\nThe other settings are those "
     "of coll.init(). In a group, its end makes the communicator."},
    {"local", FAST(local), METH_FASTCALL | METH_KEYWORDS,
     "local(size, *, " CONFIG_DOC
     ")\n--\n\nA list of communicators whose ranks are threads of this process.\n\n>>> "
     "[comm.rank for comm in coll.local(3)]\n[0, 1, 2]\n"},
    {"_close_all", close_all, METH_O, NULL},
    {NULL}};

bool lifetime_init(PyObject *module) {
  return PyModule_AddFunctions(module, functions) == 0;
}
