/*
 * DLPack (https://dmlc.github.io/dlpack): the memory of tensors of PyTorch and other libraries.
 * Types that offer the C exchange interface of DLPack 1.2 are asked through that, which takes some
 * 100 ns; others by the methods __dlpack_device__ and __dlpack__.
 */
#include "arrays.h"

enum { DEVICE_CPU = 1, DEVICE_CUDA_HOST = 3, MAJOR = 1, FLAG_READ_ONLY = 1, CODE_COMPLEX = 5 };

typedef struct dl_tensor {
  void *data;
  int32_t device_type, device_id;
  int32_t ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} dl_tensor_t;

/* The form before version 1. */
typedef struct dl_managed {
  dl_tensor_t tensor;
  void *context;
  void (*deleter)(struct dl_managed *self);
} dl_managed_t;

typedef struct dl_managed_versioned {
  uint32_t major, minor;
  void *context;
  void (*deleter)(struct dl_managed_versioned *self);
  uint64_t flags;
  dl_tensor_t tensor;
} dl_managed_versioned_t;

typedef struct dl_exchange {
  uint32_t major, minor;
  struct dl_exchange *previous;
  void *allocate;
  int (*from_object)(void *object, dl_managed_versioned_t **managed);
} dl_exchange_t;

void dlpack_release(array_t *array) {
  if (array->managed == NULL) return;
  if (array->managed_versioned) {
    dl_managed_versioned_t *managed = array->managed;
    if (managed->deleter != NULL) managed->deleter(managed);
  } else {
    dl_managed_t *managed = array->managed;
    if (managed->deleter != NULL) managed->deleter(managed);
  }
  array->managed = NULL;
}

static bool is_contiguous(const dl_tensor_t *tensor) {
  int64_t wanted = 1;
  if (tensor->strides == NULL) return true;
  for (int i = 0; i < tensor->ndim; i++) {
    if (tensor->shape[i] == 0) return true;
  }
  for (int i = tensor->ndim - 1; i >= 0; i--) {
    if (tensor->shape[i] != 1 && tensor->strides[i] != wanted) return false;
    wanted *= tensor->shape[i];
  }
  return true;
}

/* Fills the array from its managed tensor. */
static int read_tensor(array_t *array, const dl_tensor_t *tensor, PyObject *object,
                       const char *what, element_t *element, bool *contiguous) {
  int device = tensor->device_type;
  if (device != DEVICE_CPU && device != DEVICE_CUDA_HOST) {
    raise_invalid(
        "%s is on a device (DLPack type %d); this package takes memory of the CPU: move "
        "it there, as x.cpu() does",
        what, device);
  } else if (tensor->lanes != 1 || !element_of_dlpack(tensor->code, tensor->bits, element)) {
    raise_invalid(
        "%s is a %s of an element type that libcoll does not have (DLPack code %d, %d "
        "bits)",
        what, "tensor", (int)tensor->code, (int)tensor->bits);
  } else {
    array->data = (char *)tensor->data + tensor->byte_offset;
    array->items = 1;
    for (int i = 0; i < tensor->ndim; i++) array->items *= (size_t)tensor->shape[i];
    *contiguous = is_contiguous(tensor);
    array->object = Py_NewRef(object);
    return 1;
  }
  dlpack_release(array);
  return 0;
}

/* By the type's exchange interface: 1, 0 with an exception set, -1: it has none. */
static int acquire_fast(array_t *array, PyObject *object) {
  PyObject *capsule = PyObject_GetAttr((PyObject *)Py_TYPE(object), names.exchange_api);
  if (capsule == NULL) {
    PyErr_Clear();
    return -1;
  }
  const dl_exchange_t *exchange = PyCapsule_IsValid(capsule, "dlpack_exchange_api")
                                      ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api")
                                      : NULL;
  Py_DECREF(capsule);
  while (exchange != NULL && exchange->major != MAJOR) exchange = exchange->previous;
  if (exchange == NULL) return -1;
  dl_managed_versioned_t *managed = NULL;
  if (exchange->from_object(object, &managed) != 0) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_BufferError, "the tensor has no DLPack form");
    return 0;
  }
  array->managed = managed;
  array->managed_versioned = true;
  if (managed->tensor.code ==
      CODE_COMPLEX) { /* may be conjugated lazily, which __dlpack__ refuses */
    dlpack_release(array);
    return -1;
  }
  return 1;
}

/* PyTorch's exchange interface exports tensors that autograd records. The library would change or
 * read them unrecorded, so they are refused, as PyTorch's __dlpack__ does. */
static bool needs_gradient(PyObject *object, const char *what) {
  PyObject *flag = PyObject_GetAttr(object, names.requires_grad);
  bool needs = flag == Py_True;
  if (flag == NULL) PyErr_Clear();
  Py_XDECREF(flag);
  if (needs) {
    raise_invalid("%s requires gradients, and calls are not recorded: pass %s.detach()", what,
                  what);
  }
  return needs;
}

/* A view that PyTorch negates when it is read: its memory has the other signs, and both ways of
 * DLPack hand that over. */
static bool is_negated(PyObject *object, const char *what) {
  PyObject *answer = PyObject_CallMethodObjArgs(object, names.is_neg, NULL);
  bool negated = answer == Py_True;
  if (answer == NULL) PyErr_Clear();
  Py_XDECREF(answer);
  if (negated) raise_invalid("%s is a negated view: pass %s.resolve_neg()", what, what);
  return negated;
}

/* Calls __dlpack__ with the newest version that this file knows, or without for older libraries. */
static PyObject *call_dlpack(PyObject *object) {
  PyObject *method = PyObject_GetAttr(object, names.dlpack);
  if (method == NULL) return NULL;
  PyObject *empty = PyTuple_New(0);
  PyObject *keywords = PyDict_New();
  PyObject *capsule = NULL;
  if (empty != NULL && keywords != NULL &&
      PyDict_SetItem(keywords, names.max_version, names.version) == 0) {
    capsule = PyObject_Call(method, empty, keywords);
    if (capsule == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
      PyErr_Clear();
      capsule = PyObject_CallNoArgs(method);
    }
  }
  Py_XDECREF(keywords);
  Py_XDECREF(empty);
  Py_DECREF(method);
  return capsule;
}

static bool take_capsule(array_t *array, PyObject *capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    array->managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    array->managed_versioned = true;
    return PyCapsule_SetName(capsule, "used_dltensor_versioned") == 0;
  }
  if (PyCapsule_IsValid(capsule, "dltensor")) {
    array->managed = PyCapsule_GetPointer(capsule, "dltensor");
    return PyCapsule_SetName(capsule, "used_dltensor") == 0;
  }
  PyErr_SetString(PyExc_TypeError, "__dlpack__ did not return a capsule of DLPack");
  return false;
}

/* Whether the object says that it is in memory of the CPU. Asked before __dlpack__, which might
 * copy or wait on a device. */
static bool device_is_cpu(PyObject *object, const char *what) {
  PyObject *device = PyObject_CallMethodObjArgs(object, names.dlpack_device, NULL);
  if (device == NULL) return false;
  int type = 0;
  PyObject *first = PySequence_GetItem(device, 0);
  Py_DECREF(device);
  if (first == NULL || !arg_int(first, "the device type", &type)) {
    Py_XDECREF(first);
    return false;
  }
  Py_DECREF(first);
  if (type == DEVICE_CPU || type == DEVICE_CUDA_HOST) return true;
  raise_invalid(
      "%s is on a device (DLPack type %d); this package takes memory of the CPU: move it "
      "there, as x.cpu() does",
      what, type);
  return false;
}

static int acquire_slow(array_t *array, PyObject *object, const char *what) {
  if (!device_is_cpu(object, what)) return 0;
  PyObject *capsule = call_dlpack(object);
  if (capsule == NULL) return 0;
  bool taken = take_capsule(array, capsule);
  Py_DECREF(capsule);
  return taken;
}

int dlpack_acquire(array_t *array, PyObject *object, const char *what, element_t *element,
                   bool *contiguous, bool *readonly) {
  if (needs_gradient(object, what) || is_negated(object, what)) return 0;
  int got = acquire_fast(array, object);
  if (got == 0) return 0;
  if (got < 0) {
    if (!PyObject_HasAttr(object, names.dlpack)) return -1;
    if (acquire_slow(array, object, what) == 0) return 0;
  }
  if (!array->managed_versioned) {
    const dl_managed_t *managed = array->managed;
    *readonly = false;
    return read_tensor(array, &managed->tensor, object, what, element, contiguous);
  }
  const dl_managed_versioned_t *managed = array->managed;
  if (managed->major != MAJOR) {
    raise_invalid("%s has version %u of DLPack, of which version %d is known", what,
                  (unsigned)managed->major, MAJOR);
    dlpack_release(array);
    return 0;
  }
  *readonly = (managed->flags & FLAG_READ_ONLY) != 0;
  return read_tensor(array, &managed->tensor, object, what, element, contiguous);
}
