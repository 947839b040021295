/*
 * coll_config.h: the part of coll.h for settings: the config of a communicator, and the COLL_*
 * environment variables, called knobs.
 */
#ifndef COLL_CONFIG_H
#define COLL_CONFIG_H

#include <coll.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Settings of a communicator. Initialize it with COLL_COMM_CONFIG_INIT, so that fields added later
 * get their defaults. Where a field names an environment variable, the variable counts if it is
 * set, because it is the operator's; then the field, if it is not 0 or NULL; then the default, or
 * in a split the value of the communicator that is split. `reproducible` and `blocking` are the
 * program's: they count before a variable. Texts have the form of their variable, and are read
 * before the call returns. docs/knobs.md has the table. */
struct coll_comm_config {
  size_t struct_bytes;   /* sizeof(coll_comm_config_t) */
  int create_timeout_ms; /* how long to wait for the other ranks (COLL_TIMEOUT_MS) */
  /* How long a call waits until one of its ranks reports on standard error which ranks are missing,
   * their last calls and whether their processes run (COLL_HANG_MS). There is one report per call,
   * and the call continues to wait. Negative: no report. Time during which the waiting process is
   * suspended does not count. */
  int hang_ms;
  /* How long a call waits until it returns COLL_ERROR_TIMEOUT with the same text and the
   * communicator fails on all ranks (COLL_CALL_TIMEOUT_MS). Negative: no limit. */
  int call_timeout_ms;
  int reproducible; /* 1: reductions are reproducible (see "reproducible results"), -1: they are
                       not, 0: as COLL_REPRODUCIBLE sets it. Must be the same on all ranks */
  int blocking;     /* 1 (the default): creation and splits return when they are done; 0: they go on
                       in the background (see "creation that does not block") */
  int reserved;     /* 0 */
  const char *transports; /* "shm,tcp" (COLL_TRANSPORTS) */
  const char *interfaces; /* "eth,=ib0" (COLL_INTERFACES) */
  const char *host_id;    /* the host that this rank is on (COLL_HOST_ID) */
  const char *algorithms; /* "allreduce=ring,broadcast=chain": used as after coll_comm_algo_set; the
                             same on all ranks (COLL_ALGO) */
  const char *tune; /* "auto" or "builtin"; a split has the costs of what is split (COLL_TUNE) */
};

#define COLL_COMM_CONFIG_INIT \
  { sizeof(coll_comm_config_t), 0, 0, 0, 0, 1, 0, NULL, NULL, NULL, NULL, NULL }

/* A COLL_* environment variable that the library reads. The texts are static, but `value`, which is
 * valid until the variable or its default is changed. */
typedef struct coll_knob {
  size_t struct_bytes;       /* sizeof(coll_knob_t) */
  const char *name;          /* "COLL_TIMEOUT_MS" */
  const char *value;         /* of the variable, else the default */
  const char *default_value; /* what the library has if nothing is set */
  const char *help;          /* a line: what it does, and the unit */
} coll_knob_t;

#define COLL_KNOB_INIT \
  { sizeof(coll_knob_t), NULL, NULL, NULL, NULL }

/* The index-th knob. *knob: from COLL_KNOB_INIT. COLL_ERROR_INVALID past the end, which leaves it
 * as it is. */
COLL_API coll_status_t coll_knob_get(int index, coll_knob_t *knob);

/* Sets the value that a knob has where its variable is not set, for communicators that are made
 * later. The environment is not changed. `source` says where the value is from, for messages about
 * a wrong one. Callable from any thread. COLL_ERROR_INVALID: there is no such knob. */
COLL_API coll_status_t coll_knob_default(const char *name, const char *value, const char *source);

#ifdef __cplusplus
}
#endif

#endif
