/*
 * Arrays: the memory behind Python objects. Three kinds are taken: the buffer protocol (NumPy,
 * array.array, bytes, memoryview), DLPack (PyTorch and others, in memory of the CPU), and what
 * numpy.asarray makes an array of (numbers, lists; only for input).
 */
#ifndef PYTHON_ARRAYS_H
#define PYTHON_ARRAYS_H

#include "module.h"

typedef enum element_kind { ELEMENT_NUMBER, ELEMENT_BOOL, ELEMENT_COMPLEX } element_kind_t;

typedef struct array {
  void *data;
  size_t count; /* elements of dtype; a complex number is two */
  size_t items; /* elements of the array */
  coll_dtype_t dtype;
  element_kind_t kind;
  /* What keeps the memory alive and in place. */
  Py_buffer view;
  bool has_view;
  void *managed; /* DLPack's */
  bool managed_versioned;
  PyObject *object; /* the object as given, or its contiguous copy */
} array_t;

typedef enum array_use { ARRAY_READ, ARRAY_WRITE } array_use_t;

/* The memory of `object`, as elements of the type named `dtype` (NULL: its own). For ARRAY_READ, an
 * object that is not C-contiguous is copied. `what` names the argument in texts. */
bool array_acquire(array_t *array, PyObject *object, array_use_t use, PyObject *dtype,
                   const char *what);
void array_release(array_t *array);

/* How an element type is known to the buffer protocol and DLPack. */
typedef struct element {
  coll_dtype_t dtype;
  element_kind_t kind;
} element_t;

bool element_of_format(const char *format, Py_ssize_t item_bytes, element_t *element);
bool element_of_dlpack(int code, int bits, element_t *element);
bool element_of_name(const char *name, element_t *element);
size_t element_bytes(const element_t *element);

/* dlpack.c: fills the array from an object with __dlpack__. Returns 1, 0 with an exception set, or
 * -1 if the object has no __dlpack__. *contiguous: whether it is C-contiguous. */
int dlpack_acquire(array_t *array, PyObject *object, const char *what, element_t *element,
                   bool *contiguous, bool *readonly);
void dlpack_release(array_t *array);

#endif
