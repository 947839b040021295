/*
 * Arguments of the module's functions. PyArg_ParseTupleAndKeywords needs a tuple and a dict; these
 * functions take the array of METH_FASTCALL, and compare keywords by address first.
 */
#include <string.h>

#include "module.h"

static bool intern_parameters(args_t *spec) {
  for (int i = 0; spec->parameters[i] != NULL; i++) {
    if (spec->interned[i] == NULL) {
      spec->interned[i] = PyUnicode_InternFromString(spec->parameters[i]);
    }
    if (spec->interned[i] == NULL) return false;
  }
  return true;
}

static int find_parameter(const args_t *spec, PyObject *keyword) {
  for (int i = 0; spec->parameters[i] != NULL; i++) {
    if (spec->interned[i] == keyword) return i;
  }
  for (int i = 0; spec->parameters[i] != NULL; i++) {
    if (PyUnicode_CompareWithASCIIString(keyword, spec->parameters[i]) == 0) return i;
  }
  return -1;
}

static bool take_keywords(const args_t *spec, PyObject *const *args, PyObject *keywords,
                          PyObject *values[]) {
  Py_ssize_t count = PyTuple_Size(keywords);
  for (Py_ssize_t k = 0; k < count; k++) {
    PyObject *keyword = PyTuple_GetItem(keywords, k);
    int i = find_parameter(spec, keyword);
    if (i < 0) {
      PyErr_Format(PyExc_TypeError, "%s() has no parameter %R", spec->function, keyword);
      return false;
    }
    if (values[i] != NULL) {
      PyErr_Format(PyExc_TypeError, "%s() got '%s' twice", spec->function, spec->parameters[i]);
      return false;
    }
    values[i] = args[k];
  }
  return true;
}

bool args_parse(args_t *spec, PyObject *const *args, Py_ssize_t count, PyObject *keywords,
                PyObject *values[]) {
  if (spec->parameters[0] != NULL && spec->interned[0] == NULL && !intern_parameters(spec)) {
    return false;
  }
  if (count > spec->positional) {
    PyErr_Format(PyExc_TypeError, "%s() takes %d arguments without keyword, not %zd",
                 spec->function, spec->positional, count);
    return false;
  }
  for (int i = 0; spec->parameters[i] != NULL; i++) values[i] = i < count ? args[i] : NULL;
  if (keywords != NULL && !take_keywords(spec, args + count, keywords, values)) return false;
  for (int i = 0; spec->parameters[i] != NULL; i++) {
    if (i < spec->required && values[i] == NULL) {
      PyErr_Format(PyExc_TypeError, "%s() needs '%s'", spec->function, spec->parameters[i]);
      return false;
    }
    if (values[i] == Py_None) values[i] = NULL;
  }
  return true;
}

bool arg_int(PyObject *value, const char *what, int *number) {
  long read = PyLong_AsLong(value);
  if (read == -1 && PyErr_Occurred()) return false;
  *number = (int)read;
  if (*number == read) return true;
  PyErr_Format(PyExc_OverflowError, "%s is %R, which does not fit an int", what, value);
  return false;
}

bool arg_op(PyObject *value, const comm_object_t *comm, coll_op_t *op) {
  *op = COLL_SUM;
  if (value == NULL) return true;
  if (Py_TYPE(value) == op_type) return op_value(value, comm, op);
  const char *text = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, NULL) : NULL;
  if (PyErr_Occurred()) return false;
  for (int i = 0; text != NULL && i < COLL_OP_BUILTIN_COUNT; i++) {
    if (strcmp(text, coll_op_name((coll_op_t)i)) == 0) {
      *op = (coll_op_t)i;
      return true;
    }
  }
  raise_invalid(
      "op is %R; ops are 'sum', 'prod', 'max', 'min', 'avg', 'band', 'bor', 'bxor', "
      "and those that comm.premul_sum makes",
      value);
  return false;
}
