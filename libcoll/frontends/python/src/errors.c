/*
 * Errors as exceptions: a class of coll.Error for each status, whose text is the library's.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "module.h"

enum { ERROR_BYTES = 4096 };

static PyObject *classes[COLL_STATUS_COUNT];

typedef struct class_row {
  coll_status_t status;
  const char *name;
  const char *doc;
} class_row_t;

static const class_row_t CLASSES[] = {
    {COLL_ERROR_INVALID, "coll.InvalidError",
     "An argument is wrong. Nothing was sent, and the communicator still works."},
    {COLL_ERROR_MISMATCH, "coll.MismatchError",
     "The ranks' calls do not match, for example in shape, dtype or op; the text names both calls. "
     "The communicator has failed."},
    {COLL_ERROR_RANK_LOST, "coll.RankLostError",
     "A rank exited, was killed or aborted; the text names it, and `rank` is its number. The "
     "communicator has failed."},
    {COLL_ERROR_TIMEOUT, "coll.CallTimeoutError",
     "Ranks did not arrive in time, or a call took too long; after a call, `rank` is the lowest "
     "one that was missing. Also a TimeoutError."},
    {COLL_ERROR_SYSTEM, "coll.SystemCallError", "A call of the operating system failed."},
    {COLL_ERROR_MEMORY, "coll.OutOfMemoryError", "Out of memory. Also a MemoryError."},
    {COLL_ERROR_UNSUPPORTED, "coll.UnsupportedError",
     "This build or machine cannot do it. Also a NotImplementedError."},
    {COLL_ERROR_INTERNAL, "coll.InternalError", "A bug in libcoll."},
};

/* The built-in class that a status's class is derived from, too; NULL: none. */
static PyObject *builtin_base(coll_status_t status) {
  switch (status) {
    case COLL_ERROR_INVALID: return PyExc_ValueError;
    case COLL_ERROR_TIMEOUT: return PyExc_TimeoutError;
    case COLL_ERROR_MEMORY: return PyExc_MemoryError;
    case COLL_ERROR_UNSUPPORTED: return PyExc_NotImplementedError;
    default: return NULL;
  }
}

static bool add_class(PyObject *module, const class_row_t *row, PyObject *error) {
  PyObject *base = builtin_base(row->status);
  PyObject *bases = base != NULL ? PyTuple_Pack(2, error, base) : PyTuple_Pack(1, error);
  if (bases == NULL) return false;
  PyObject *made = PyErr_NewExceptionWithDoc(row->name, row->doc, bases, NULL);
  Py_DECREF(bases);
  classes[row->status] = made;
  return made != NULL && PyModule_AddObjectRef(module, strrchr(row->name, '.') + 1, made) == 0;
}

bool errors_init(PyObject *module) {
  static const char DOC[] =
      "What the library failed with; the base of all its exceptions.\n\n`rank` is the rank that "
      "was lost, has aborted or is missing, in the communicator of the call;\nNone: there is none, "
      "or it is not known, as while a communicator is made.";
  PyObject *attributes = Py_BuildValue("{sO}", "rank", Py_None);
  if (attributes == NULL) return false;
  PyObject *error = PyErr_NewExceptionWithDoc("coll.Error", DOC, NULL, attributes);
  Py_DECREF(attributes);
  if (error == NULL || PyModule_AddObjectRef(module, "Error", error) != 0) return false;
  for (size_t i = 0; i < sizeof CLASSES / sizeof CLASSES[0]; i++) {
    if (!add_class(module, &CLASSES[i], error)) return false;
  }
  classes[COLL_OK] = classes[COLL_IN_PROGRESS] = classes[COLL_ERROR_INTERNAL];
  return true;
}

int lost_rank(coll_status_t status, coll_comm_t comm) {
  int rank = -1;
  if (comm == NULL || (status != COLL_ERROR_RANK_LOST && status != COLL_ERROR_TIMEOUT)) return -1;
  return coll_comm_failed_rank(comm, &rank) == COLL_OK ? rank : -1;
}

PyObject *raise_status_of_rank(coll_status_t status, const char *text, int rank) {
  size_t row = (size_t)status < COLL_STATUS_COUNT ? (size_t)status : COLL_ERROR_INTERNAL;
  PyObject *error = PyObject_CallFunction(classes[row], "s", text);
  if (error == NULL) return NULL;
  PyObject *number = rank >= 0 ? PyLong_FromLong(rank) : Py_NewRef(Py_None);
  if (number != NULL && PyObject_SetAttrString(error, "rank", number) == 0) {
    PyErr_SetObject(classes[row], error);
  }
  Py_XDECREF(number);
  Py_DECREF(error);
  return NULL;
}

PyObject *raise_comm_status(coll_status_t status, const char *text, coll_comm_t comm) {
  char kept[ERROR_BYTES]; /* the query may replace the thread's text */
  snprintf(kept, sizeof kept, "%s", text != NULL ? text : coll_last_error(NULL));
  return raise_status_of_rank(status, kept, lost_rank(status, comm));
}

PyObject *raise_status(coll_status_t status, const char *text) {
  return raise_status_of_rank(status, text != NULL ? text : coll_last_error(NULL), -1);
}

PyObject *raise_invalid(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  PyErr_FormatV(classes[COLL_ERROR_INVALID], format, arguments);
  va_end(arguments);
  return NULL;
}
