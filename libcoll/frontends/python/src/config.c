/*
 * The keywords that set a communicator up: the fields of coll_comm_config_t (coll_config.h), with
 * times in seconds.
 */
#include <stdlib.h>
#include <string.h>

#include "module.h"

/* A time in seconds as milliseconds; None: 0, the default. */
static bool read_seconds(PyObject *value, const char *what, int *ms) {
  *ms = 0;
  if (value == NULL) return true;
  double seconds = PyFloat_AsDouble(value);
  if (seconds == -1.0 && PyErr_Occurred()) return false;
  if (seconds > -1e6 && seconds < 2e6 && seconds != 0) {
    *ms = seconds < 0 ? -1 : seconds < 0.001 ? 1 : (int)(seconds * 1000);
    return true;
  }
  raise_invalid("%s is %R; it is a number of seconds, or negative for none", what, value);
  return false;
}

static bool read_truth(PyObject *value, int *setting) {
  if (value == NULL) return true;
  int truth = PyObject_IsTrue(value);
  *setting = truth ? 1 : -1;
  return truth >= 0;
}

/* Text without a zero inside, which would end it. */
static bool read_text(PyObject *value, const char *what, const char **text) {
  Py_ssize_t length = 0;
  if (value == NULL) return true;
  if (!PyUnicode_Check(value)) {
    raise_invalid("%s is %R; it is a str of the form of its COLL_* variable", what, value);
    return false;
  }
  *text = PyUnicode_AsUTF8AndSize(value, &length);
  if (*text != NULL && strlen(*text) == (size_t)length) return true;
  if (*text != NULL) raise_invalid("%s is %R, which has a zero byte", what, value);
  return false;
}

bool config_read(PyObject *const values[], coll_comm_config_t *config) {
  *config = (coll_comm_config_t)COLL_COMM_CONFIG_INIT;
  return read_seconds(values[0], "create_timeout", &config->create_timeout_ms) &&
         read_seconds(values[1], "hang", &config->hang_ms) &&
         read_seconds(values[2], "call_timeout", &config->call_timeout_ms) &&
         read_truth(values[3], &config->reproducible) &&
         read_text(values[4], "transports", &config->transports) &&
         read_text(values[5], "interfaces", &config->interfaces) &&
         read_text(values[6], "host_id", &config->host_id) &&
         read_text(values[7], "algorithms", &config->algorithms) &&
         read_text(values[8], "tune", &config->tune);
}

#define TEXTS(config)                                                                        \
  {                                                                                          \
    &(config)->transports, &(config)->interfaces, &(config)->host_id, &(config)->algorithms, \
        &(config)->tune                                                                      \
  }

bool config_own_texts(coll_comm_config_t *config) {
  const char **texts[] = TEXTS(config);
  bool all = true;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    if (*texts[i] == NULL) continue;
    *texts[i] = strdup(*texts[i]);
    all = all && *texts[i] != NULL;
  }
  return all;
}

void config_free_texts(coll_comm_config_t *config) {
  const char **texts[] = TEXTS(config);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) free((void *)(uintptr_t)*texts[i]);
}
