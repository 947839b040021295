/*
 * The extension module coll._coll: what its files share. It uses coll.h and Python's stable ABI
 * (PEP 384) of 3.11, so one build serves Python 3.11 and later. It is called with the GIL held
 * unless a function says otherwise. Functions that return int or bool return 0 or false with a
 * Python exception set.
 */
#ifndef PYTHON_MODULE_H
#define PYTHON_MODULE_H

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <coll.h>
#include <pthread.h>
#include <stdbool.h>

/* Objects of Python that calls need often; made once. */
typedef struct module_names {
  PyObject *shape, *dtype, *name, *view, *new_empty, *contiguous, *dlpack, *dlpack_device;
  PyObject *exchange_api, *max_version, *requires_grad, *is_neg, *version;
  PyObject *ndarray, *empty, *asarray, *ascontiguousarray, *from_dlpack; /* of numpy */
} module_names_t;

extern module_names_t names;

/* ---- errors.c --------------------------------------------------------------------------------*/

bool errors_init(PyObject *module);
/* Raises the exception of a status with the text of coll_last_error of this thread, or with `text`
 * if it is not NULL. Returns NULL. */
PyObject *raise_status(coll_status_t status, const char *text);
/* The same for a failure on this communicator (NULL: none): the exception's attribute `rank` is the
 * rank that the communicator has failed because of. */
PyObject *raise_comm_status(coll_status_t status, const char *text, coll_comm_t comm);
/* The rank that the communicator (NULL: none) has lost or missed, for a failure with this status,
 * or -1. */
int lost_rank(coll_status_t status, coll_comm_t comm);
/* The same with that rank. */
PyObject *raise_status_of_rank(coll_status_t status, const char *text, int rank);
/* Raises coll.InvalidError with a text of PyErr_Format's kind. Returns NULL. */
PyObject *raise_invalid(const char *format, ...);

/* ---- arguments.c -----------------------------------------------------------------------------*/

#define ARGS_MAX 12

/* Parameters of a function, in order; a NULL ends them. Those from `positional` on must be given by
 * keyword; the first `required` ones must be given. */
typedef struct args {
  const char *function;
  int required, positional;
  const char *parameters[ARGS_MAX + 1];
  PyObject *interned[ARGS_MAX]; /* made at the first call */
} args_t;

/* Fills values[], one for each parameter, with borrowed references; NULL: not given. */
bool args_parse(args_t *spec, PyObject *const *args, Py_ssize_t count, PyObject *keywords,
                PyObject *values[]);
bool arg_int(PyObject *value, const char *what, int *number);
typedef struct comm_object comm_object_t;
/* An op by its name, or an Op of the communicator; NULL: sum. */
bool arg_op(PyObject *value, const comm_object_t *comm, coll_op_t *op);

/* The functions of PyMethodDef for METH_FASTCALL | METH_KEYWORDS. */
#define FAST(function) ((PyCFunction)(void (*)(void))(function))

/* ---- config.c --------------------------------------------------------------------------------*/

/* Parameters of all functions that make communicators; only by keyword. */
#define CONFIG_PARAMETERS                                                                          \
  "create_timeout", "hang", "call_timeout", "reproducible", "transports", "interfaces", "host_id", \
      "algorithms", "tune"
#define CONFIG_COUNT 9
#define CONFIG_DOC                                                                          \
  "create_timeout=None, hang=None, call_timeout=None, reproducible=None, transports=None, " \
  "interfaces=None, host_id=None, algorithms=None, tune=None"

/* values: of CONFIG_PARAMETERS. The texts are those of the values, which must stay. */
bool config_read(PyObject *const values[], coll_comm_config_t *config);
/* Copies the texts, for config_free_texts to free; false: out of memory, without an exception. The
 * GIL need not be held for either. */
bool config_own_texts(coll_comm_config_t *config);
void config_free_texts(coll_comm_config_t *config);

/* ---- interrupt.c -----------------------------------------------------------------------------*/

#define WAIT_COMMS_MAX 16

/* A call that may wait: releases the GIL, and lets Python's signal handlers run meanwhile if this
 * is the main thread. If a handler raises (Ctrl-C: KeyboardInterrupt), the communicators are
 * aborted, so that the call returns. */
typedef struct wait {
  PyThreadState *state;
  coll_comm_t comms[WAIT_COMMS_MAX];
  int comm_count;
  bool watched, raised;
  int64_t next_check_ns;
} wait_t;

bool interrupt_init(void);
/* comms may be NULL if count is 0. */
void wait_begin(wait_t *wait, const coll_comm_t comms[], int count);
/* Returns false if a handler has raised; its exception is set. */
bool wait_end(wait_t *wait);
/* Calls poll(context) until it returns anything but COLL_IN_PROGRESS, sleeping in between. Returns
 * false if a signal handler has raised. */
bool wait_poll(coll_status_t (*poll)(void *context), void *context, coll_status_t *status);
/* Counts the forks of this process's ancestors: communicators do not survive one. */
int fork_generation(void);

/* ---- types -----------------------------------------------------------------------------------*/

typedef struct stream_object stream_object_t;

struct comm_object {
  PyObject_HEAD coll_comm_t comm; /* NULL: closed, or a group that makes it has not ended */
  int rank, size;
  int generation; /* fork_generation() when it was made */
  int busy;       /* threads inside calls */
  bool pending;   /* a group is making it */
  struct comm_object *previous, *next;
};

extern PyTypeObject *comm_type, *stream_type, *work_type, *memory_type, *op_type;

bool comm_init(PyObject *module);
bool stream_init(PyObject *module);
bool group_init(PyObject *module);
bool memory_init(PyObject *module);
bool op_init(PyObject *module);

/* Makes a type, and adds it to the module under the last part of its name. */
PyTypeObject *make_type(PyObject *module, PyType_Spec *spec);
void free_object(PyObject *self);

/* Checks that the communicator may be used. */
bool comm_check(comm_object_t *comm);
comm_object_t *comm_new(void);
/* The rank and size of a communicator that has been made. */
bool comm_made(comm_object_t *comm);

/* The coll_op_t of an Op object; false if it was made by another communicator. */
bool op_value(PyObject *object, const comm_object_t *comm, coll_op_t *op);

PyObject *module_library_path(void);

#endif
