/*
 * Memory that peers can map (coll_mem_alloc), as an object with the buffer protocol. It is freed
 * with the last array that views it.
 */
#include "module.h"

typedef struct memory_object {
  PyObject_HEAD void *data;
  Py_ssize_t bytes;
} memory_object_t;

PyTypeObject *memory_type;

static PyObject *memory_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  Py_ssize_t bytes;
  if (keywords != NULL && PyDict_Size(keywords) != 0) {
    PyErr_SetString(PyExc_TypeError, "Memory() takes no keywords");
    return NULL;
  }
  if (!PyArg_ParseTuple(args, "n", &bytes)) return NULL;
  if (bytes < 0) return raise_invalid("memory of %zd bytes was asked for", bytes);
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  memory_object_t *memory = (memory_object_t *)allocate(type, 0);
  if (memory == NULL) return NULL;
  memory->bytes = bytes;
  coll_status_t status =
      coll_mem_alloc(COLL_DEVICE_HOST, bytes > 0 ? (size_t)bytes : 1, &memory->data);
  if (status == COLL_OK) return (PyObject *)memory;
  memory->data = NULL;
  Py_DECREF(memory);
  return raise_status(status, NULL);
}

static void memory_free(PyObject *self) {
  memory_object_t *memory = (memory_object_t *)self;
  coll_mem_free(memory->data);
  free_object(self);
}

static int memory_buffer(PyObject *self, Py_buffer *view, int flags) {
  memory_object_t *memory = (memory_object_t *)self;
  return PyBuffer_FillInfo(view, self, memory->data, memory->bytes, 0, flags);
}

static PyType_Slot memory_slots[] = {
    {Py_tp_doc,
     (void *)"Memory(bytes, /)\n--\n\nZeroed memory that the other ranks of this machine "
             "can map, for memoryview or numpy.frombuffer."},
    {Py_tp_new, memory_new},
    {Py_tp_dealloc, memory_free},
    {Py_bf_getbuffer, memory_buffer},
    {0, NULL}};
static PyType_Spec memory_spec = {"coll.Memory", sizeof(memory_object_t), 0, Py_TPFLAGS_DEFAULT,
                                  memory_slots};

bool memory_init(PyObject *module) {
  memory_type = make_type(module, &memory_spec);
  return memory_type != NULL;
}
