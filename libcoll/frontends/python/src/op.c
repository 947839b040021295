/*
 * Reductions that a program makes: sums of what each rank has multiplied with a factor of its own.
 */
#include "comm.h"

typedef struct op_object {
  PyObject_HEAD coll_op_t op;
  comm_object_t *comm; /* owned */
  coll_comm_t handle;  /* of the communicator that it was made for, which may be closed since */
} op_object_t;

PyTypeObject *op_type;

/* Numbers of ops are those of one communicator: another one's may be that of another op there. */
bool op_value(PyObject *object, const comm_object_t *comm, coll_op_t *op) {
  op_object_t *made = (op_object_t *)object;
  *op = made->op;
  if (made->comm == comm && made->handle == comm->comm) return true;
  raise_invalid("op was made by another communicator: use premul_sum() of this one");
  return false;
}

COMM_METHOD(comm_premul_sum) {
  static args_t spec = {"premul_sum", 1, 2, {"scalar", "dtype"}, {NULL}};
  PyObject *v[2], *number = NULL;
  array_t array;
  comm_object_t *comm = (comm_object_t *)self;
  if (!args_parse(&spec, args, count, keywords, v) || !comm_check(comm)) return NULL;
  if (v[0] == NULL) return raise_invalid("premul_sum needs a number");
  bool is_number = PyFloat_Check(v[0]) || PyLong_Check(v[0]);
  if (is_number && v[1] != NULL) {
    number = PyObject_CallFunctionObjArgs(names.asarray, v[0], v[1], NULL);
    if (number == NULL) return NULL;
  }
  bool good = array_acquire(&array, number != NULL ? number : v[0], ARRAY_READ,
                            number != NULL ? NULL : v[1], "scalar");
  Py_XDECREF(number);
  if (!good) return NULL;
  coll_op_t op = COLL_SUM;
  coll_status_t status = COLL_OK;
  if (array.count != 1) {
    raise_invalid("premul_sum: the factor is one number, not %zu", array.count);
  } else {
    status = coll_op_create_premul_sum(array.data, array.dtype, COLL_SCALAR_HOST_IMMEDIATE,
                                       comm->comm, &op);
    if (status != COLL_OK) raise_status(status, NULL);
  }
  array_release(&array);
  if (PyErr_Occurred()) return NULL;
  allocfunc allocate = (allocfunc)PyType_GetSlot(op_type, Py_tp_alloc);
  op_object_t *made = (op_object_t *)allocate(op_type, 0);
  if (made == NULL) {
    coll_op_destroy(op, comm->comm);
    return NULL;
  }
  made->op = op;
  made->comm = (comm_object_t *)Py_NewRef(self);
  made->handle = comm->comm;
  return (PyObject *)made;
}

static void op_free(PyObject *self) {
  op_object_t *op = (op_object_t *)self;
  if (op->comm->comm == op->handle) coll_op_destroy(op->op, op->handle);
  Py_DECREF((PyObject *)op->comm);
  free_object(self);
}

static PyType_Slot op_slots[] = {
    {Py_tp_doc, (void *)"A reduction that comm.premul_sum() has made, for op=."},
    {Py_tp_dealloc, op_free},
    {0, NULL}};
static PyType_Spec op_spec = {"coll.Op", sizeof(op_object_t), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, op_slots};

bool op_init(PyObject *module) {
  op_type = make_type(module, &op_spec);
  return op_type != NULL;
}
