/*
 * The extension module coll._coll. Its names are re-exported by the package coll, whose Python
 * files have the rest.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "module.h"

#include <dlfcn.h>
#include <string.h>

module_names_t names;

PyTypeObject *make_type(PyObject *module, PyType_Spec *spec) {
  PyObject *type = PyType_FromSpec(spec);
  if (type == NULL) return NULL;
  if (PyModule_AddObjectRef(module, strrchr(spec->name, '.') + 1, type) != 0) return NULL;
  return (PyTypeObject *)type;
}

void free_object(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

static PyObject *library_path(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  Dl_info info;
  if (dladdr((void *)coll_version, &info) == 0 || info.dli_fname == NULL) {
    return raise_invalid("the path of libcoll.so is unknown");
  }
  return PyUnicode_DecodeFSDefault(info.dli_fname);
}

static PyObject *version(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  int major, minor, patch;
  coll_version(&major, &minor, &patch);
  return PyUnicode_FromFormat("%d.%d.%d", major, minor, patch);
}

static PyObject *knobs(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  PyObject *list = PyList_New(0);
  coll_knob_t knob = COLL_KNOB_INIT;
  for (int i = 0; list != NULL && coll_knob_get(i, &knob) == COLL_OK; i++) {
    PyObject *text = PyUnicode_FromFormat("%s=%s (default '%s'): %s", knob.name, knob.value,
                                          knob.default_value, knob.help);
    if (text == NULL || PyList_Append(list, text) != 0) Py_CLEAR(list);
    Py_XDECREF(text);
  }
  return list;
}

static PyObject *unique_id(PyObject *module, PyObject *const *args, Py_ssize_t count,
                           PyObject *keywords) {
  static args_t spec = {"unique_id", 0, 0, {CONFIG_PARAMETERS}, {NULL}};
  (void)module;
  PyObject *v[CONFIG_COUNT];
  coll_comm_config_t config;
  coll_unique_id_t id;
  if (!args_parse(&spec, args, count, keywords, v) || !config_read(v, &config)) return NULL;
  coll_status_t status = coll_unique_id_create(&config, &id);
  if (status != COLL_OK) return raise_status(status, NULL);
  return PyBytes_FromStringAndSize(id.internal, sizeof id.internal);
}

static PyMethodDef functions[] = {
    {"library_path", library_path, METH_NOARGS,
     "library_path()\n--\n\nPath of the libcoll.so that this process uses, for ctypes and the "
     "like."},
    {"version", version, METH_NOARGS, "version()\n--\n\nThe library's version, as '0.1.0'."},
    {"knobs", knobs, METH_NOARGS,
     "knobs()\n--\n\nA line for each COLL_* environment variable: its name, value, default and "
     "meaning."},
    {"unique_id", FAST(unique_id), METH_FASTCALL | METH_KEYWORDS,
     "unique_id(*, " CONFIG_DOC ")\n--\n\nThe address of a rendezvous (bytes), for coll.create() "
     "on every rank. A thread of this process serves it, at the addresses of `interfaces` (all of "
     "this host) and for `create_timeout` seconds; the other settings do not matter."},
    {NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "coll._coll",
                                        "The compiled part of the package coll.", -1, functions};

static bool intern_names(void) {
  const struct {
    PyObject **name;
    const char *text;
  } rows[] = {{&names.shape, "shape"},
              {&names.dtype, "dtype"},
              {&names.name, "name"},
              {&names.view, "view"},
              {&names.new_empty, "new_empty"},
              {&names.contiguous, "contiguous"},
              {&names.dlpack, "__dlpack__"},
              {&names.dlpack_device, "__dlpack_device__"},
              {&names.exchange_api, "__dlpack_c_exchange_api__"},
              {&names.max_version, "max_version"},
              {&names.requires_grad, "requires_grad"},
              {&names.is_neg, "is_neg"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    *rows[i].name = PyUnicode_InternFromString(rows[i].text);
    if (*rows[i].name == NULL) return false;
  }
  names.version = Py_BuildValue("(ii)", 1, 0);
  return names.version != NULL;
}

static bool import_numpy(void) {
  PyObject *numpy = PyImport_ImportModule("numpy");
  if (numpy == NULL) return false;
  const struct {
    PyObject **object;
    const char *name;
  } rows[] = {{&names.ndarray, "ndarray"},
              {&names.empty, "empty"},
              {&names.asarray, "asarray"},
              {&names.ascontiguousarray, "ascontiguousarray"},
              {&names.from_dlpack, "from_dlpack"}};
  bool good = true;
  for (size_t i = 0; good && i < sizeof rows / sizeof rows[0]; i++) {
    *rows[i].object = PyObject_GetAttrString(numpy, rows[i].name);
    good = *rows[i].object != NULL;
  }
  Py_DECREF(numpy);
  return good;
}

PyMODINIT_FUNC PyInit__coll(void);

PyMODINIT_FUNC PyInit__coll(void) {
  PyObject *module = PyModule_Create(&definition);
  if (module == NULL) return NULL;
  if (intern_names() && import_numpy() && interrupt_init() && errors_init(module) &&
      comm_init(module) && stream_init(module) && group_init(module) && memory_init(module) &&
      op_init(module)) {
    return module;
  }
  Py_DECREF(module);
  return NULL;
}
