/*
 * The memory behind Python objects (arrays.h).
 */
#include "arrays.h"

#include <string.h>

void array_release(array_t *array) {
  if (array->has_view) PyBuffer_Release(&array->view);
  array->has_view = false;
  dlpack_release(array);
  Py_CLEAR(array->object);
}

/* The type of NumPy that the buffer protocol does not have, as ml_dtypes.bfloat16: its name. Views
 * the object as unsigned integers of that size; returns a new reference. */
static PyObject *view_as_unsigned(PyObject *object, element_t *element) {
  PyObject *dtype = PyObject_GetAttr(object, names.dtype);
  PyObject *name = dtype != NULL ? PyObject_GetAttr(dtype, names.name) : NULL;
  const char *text =
      name != NULL && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
  PyObject *viewed = NULL;
  if (text != NULL && element_of_name(text, element)) {
    const char *unsigned_name = coll_dtype_bytes(element->dtype) == 2 ? "uint16" : "uint8";
    PyObject *argument = PyUnicode_FromString(unsigned_name);
    if (argument != NULL) {
      viewed = PyObject_CallMethodObjArgs(object, names.view, argument, NULL);
      Py_DECREF(argument);
    }
  } else {
    PyErr_Clear();
    raise_invalid("elements of type %R are not known to libcoll", dtype != NULL ? dtype : Py_None);
  }
  Py_XDECREF(name);
  Py_XDECREF(dtype);
  return viewed;
}

/* By the buffer protocol: 1, 0 with an exception set. */
static int acquire_buffer(array_t *array, PyObject *object, const char *what, element_t *element,
                          bool *contiguous, bool *readonly) {
  bool known = false;
  if (PyObject_GetBuffer(object, &array->view, PyBUF_FORMAT | PyBUF_STRIDES) != 0) {
    if (!PyObject_HasAttr(object, names.dtype) || !PyObject_HasAttr(object, names.view)) return 0;
    PyErr_Clear();
    PyObject *viewed = view_as_unsigned(object, element);
    if (viewed == NULL) return 0;
    int got = PyObject_GetBuffer(viewed, &array->view, PyBUF_FORMAT | PyBUF_STRIDES);
    Py_DECREF(viewed);
    if (got != 0) return 0;
    known = true;
  }
  const Py_buffer *view = &array->view;
  array->has_view = true;
  if (!known && !element_of_format(view->format, view->itemsize, element)) {
    raise_invalid(
        "%s has elements of format '%s' (%zd bytes), which libcoll does not have; "
        "convert it, as x.astype('float32') does",
        what, view->format, view->itemsize);
    array_release(array);
    return 0;
  }
  array->data = view->buf;
  array->items = view->itemsize > 0 ? (size_t)(view->len / view->itemsize) : 0;
  *contiguous = PyBuffer_IsContiguous(view, 'C') != 0;
  *readonly = view->readonly != 0;
  array->object = Py_NewRef(object);
  return 1;
}

/* A C-contiguous copy of the object; also an array of what is none, as a list. */
static PyObject *contiguous_copy(PyObject *object) {
  PyObject *method = PyObject_GetAttr(object, names.contiguous); /* PyTorch's */
  if (method != NULL) {
    PyObject *copy = PyObject_CallNoArgs(method);
    Py_DECREF(method);
    return copy;
  }
  PyErr_Clear();
  if (PyObject_CheckBuffer(object)) {
    return PyObject_CallFunctionObjArgs(names.ascontiguousarray, object, NULL);
  }
  if (!PyObject_HasAttr(object, names.dlpack)) { /* unlike the above, it keeps 0 axes */
    return PyObject_CallFunctionObjArgs(names.asarray, object, NULL);
  }
  PyObject *array = PyObject_CallFunctionObjArgs(names.from_dlpack, object, NULL);
  if (array == NULL) return NULL;
  PyObject *copy = PyObject_CallFunctionObjArgs(names.ascontiguousarray, array, NULL);
  Py_DECREF(array);
  return copy;
}

/* The element type that the argument dtype= names: the object's own one, or one of the same size if
 * the object's elements are unsigned integers. */
static bool apply_dtype(PyObject *dtype, const char *what, element_t *element) {
  PyObject *name = PyUnicode_Check(dtype) ? Py_NewRef(dtype) : PyObject_GetAttr(dtype, names.name);
  if (name == NULL) {
    PyErr_Clear();
    name = PyObject_Str(dtype);
    if (name == NULL) return false;
  }
  const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
  element_t wanted;
  bool good = false;
  if (text == NULL ||
      !element_of_name(strncmp(text, "torch.", 6) == 0 ? text + 6 : text, &wanted)) {
    raise_invalid("dtype is %R; libcoll has no such type", dtype);
  } else if (wanted.dtype == element->dtype && wanted.kind == element->kind) {
    good = true;
  } else if ((element->dtype != COLL_UINT8 && element->dtype != COLL_UINT16) ||
             element->kind != ELEMENT_NUMBER || element_bytes(&wanted) != element_bytes(element)) {
    raise_invalid(
        "%s has elements of type %s, which cannot be taken as dtype='%s'; that needs an "
        "array of that type, or of uint8 or uint16 in the same size",
        what, coll_dtype_name(element->dtype), text);
  } else {
    good = true;
    *element = wanted;
  }
  Py_DECREF(name);
  return good;
}

/* 1, 0 with an exception set, or -1: the object has no memory that can be taken. */
static int acquire_memory(array_t *array, PyObject *object, const char *what, element_t *element,
                          bool *contiguous, bool *readonly) {
  *array = (array_t){0};
  if (PyObject_CheckBuffer(object)) {
    return acquire_buffer(array, object, what, element, contiguous, readonly);
  }
  return dlpack_acquire(array, object, what, element, contiguous, readonly);
}

static bool acquire_copy(array_t *array, PyObject *object, const char *what, element_t *element) {
  bool contiguous = true, readonly = false;
  PyObject *copy = contiguous_copy(object);
  if (copy == NULL) return false;
  int got = acquire_memory(array, copy, what, element, &contiguous, &readonly);
  Py_DECREF(copy);
  if (got > 0 && contiguous) return true;
  if (got > 0) array_release(array);
  if (!PyErr_Occurred()) raise_invalid("%s cannot be made contiguous", what);
  return false;
}

static bool check_writable(array_t *array, const char *what, bool contiguous, bool readonly) {
  if (readonly) {
    raise_invalid("%s is read-only, and the call writes to it: pass a copy", what);
  } else if (!contiguous) {
    raise_invalid(
        "%s is not C-contiguous, and the call writes to it: pass a contiguous array and "
        "copy from it",
        what);
  } else {
    return true;
  }
  array_release(array);
  return false;
}

bool array_acquire(array_t *array, PyObject *object, array_use_t use, PyObject *dtype,
                   const char *what) {
  element_t element = {0};
  bool contiguous = true, readonly = false;
  int got = acquire_memory(array, object, what, &element, &contiguous, &readonly);
  if (got == 0) return false;
  if (use == ARRAY_WRITE) {
    if (got < 0) {
      PyErr_Format(PyExc_TypeError, "%s is a %R; the call needs an array to write to", what,
                   Py_TYPE(object));
      return false;
    }
    if (!check_writable(array, what, contiguous, readonly)) return false;
  } else if (got < 0 || !contiguous) {
    if (got > 0) array_release(array);
    if (!acquire_copy(array, object, what, &element)) return false;
  }
  if (dtype != NULL && !apply_dtype(dtype, what, &element)) {
    array_release(array);
    return false;
  }
  array->dtype = element.dtype;
  array->kind = element.kind;
  array->count = array->items * (element.kind == ELEMENT_COMPLEX ? 2 : 1);
  return true;
}
