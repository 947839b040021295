/*
 * The functions of coll.h that return names, error texts, knobs and the version.
 */
#include <stdio.h>
#include <string.h>

#include "api/out.h"
#include "base/knob.h"
#include "base/names.h"
#include "base/thread_memory.h"
#include "bootstrap/launch/launch.h"
#include "bootstrap/rendezvous/secret_source.h"
#include "lifetime/create.h"

const char *coll_collective_name(coll_collective_t collective) {
  return base_collective_name(collective);
}

const char *coll_algo_name(coll_collective_t collective, int index) {
  const algo_t *algo = index >= 0 ? algo_at(collective, index) : NULL;
  return algo != NULL ? algo->name : NULL;
}

const char *coll_estimate_term(int index) {
  return index >= 0 && index < TUNE_TERM_COUNT ? tune_term_name((tune_term_t)index) : NULL;
}

const char *coll_status_string(coll_status_t status) {
  return base_status_string(status);
}

const char *coll_dtype_name(coll_dtype_t dtype) {
  return base_dtype_name(dtype);
}

size_t coll_dtype_bytes(coll_dtype_t dtype) {
  return base_dtype_bytes(dtype);
}

const char *coll_op_name(coll_op_t op) {
  return base_op_name(op);
}

const char *coll_last_error(coll_comm_t comm) {
  static base_thread_memory_t memory = {.bytes = COMM_ERROR_BYTES};
  if (comm == NULL) return base_last_error();
  char *text = base_thread_memory_allocate(&memory);
  if (text == NULL) return base_status_string(COLL_ERROR_MEMORY);
  return comm_read_error(comm, text) ? text : base_last_error();
}

static const base_knob_t *knob_at(int index) {
  static const base_knob_t *(*const rooms[])(int) = {comm_knob, launch_knob, rendezvous_knob,
                                                     transport_knob, device_knob};
  for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
    const base_knob_t *knob = rooms[i](index);
    if (knob != NULL) return knob;
    for (int in_room = 0; rooms[i](in_room) != NULL; in_room++) index--;
  }
  return NULL;
}

coll_status_t coll_knob_get(int index, coll_knob_t *knob) {
  const base_knob_t *found = knob_at(index);
  if (found == NULL || knob == NULL) {
    return base_fail(COLL_ERROR_INVALID, "coll_knob_get: %s",
                     knob == NULL ? "knob is NULL" : "there is no knob of this index");
  }
  COLL_TRY(api_out_check(knob, "coll_knob_get", "COLL_KNOB_INIT"));
  const coll_knob_t made = {.name = found->name,
                            .value = base_knob_value(found),
                            .default_value = found->fallback,
                            .help = found->help};
  api_out_fill(knob, &made, sizeof made);
  return COLL_OK;
}

coll_status_t coll_knob_default(const char *name, const char *value, const char *source) {
  const base_knob_t *knob = NULL;
  if (name == NULL || value == NULL || source == NULL) {
    return base_fail(COLL_ERROR_INVALID, "coll_knob_default: an argument is NULL");
  }
  for (int i = 0; (knob = knob_at(i)) != NULL; i++) {
    if (strcmp(knob->name, name) == 0) return base_knob_set_default(knob, value, source);
  }
  return base_fail(COLL_ERROR_INVALID, "coll_knob_default: no variable %s is read here", name);
}

void coll_version(int *major, int *minor, int *patch) {
  if (major != NULL) *major = COLL_VERSION_MAJOR;
  if (minor != NULL) *minor = COLL_VERSION_MINOR;
  if (patch != NULL) *patch = COLL_VERSION_PATCH;
}
