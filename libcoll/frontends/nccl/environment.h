/*
 * NCCL's environment variables, and those of its configuration files: those with an equivalent
 * become the defaults of COLL_* variables. The table of docs/nccl.md is that of environment.c.
 */
#ifndef FRONTENDS_NCCL_ENVIRONMENT_H
#define FRONTENDS_NCCL_ENVIRONMENT_H

#include <coll.h>
#include <stdbool.h>
#include <stddef.h>

#include "frontends/nccl/config_files.h"

typedef enum nccl_log { NCCL_LOG_NONE, NCCL_LOG_VERSION, NCCL_LOG_WARN, NCCL_LOG_INFO } nccl_log_t;

/* Reads the environment in the first call, before the first communicator is made. */
void nccl_environment_read(void);

/* Prints a line to standard error if NCCL_DEBUG asks for this level. */
void nccl_log(nccl_log_t level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Reads NCCL_DEBUG again. */
void nccl_log_reset(void);

/* What ncclGetVersion answers: COLL_NCCL_VERSION, else 22809. */
int nccl_version(void);

/* Whether COLL_NCCL_VERSION, where it is set, is a version. */
bool nccl_version_is_right(void);

/* NCCL_COMM_BLOCKING, or `otherwise` if it is not set. */
bool nccl_environment_blocking(bool otherwise);

/* Forces the algorithms of NCCL_ALGO for the communicator's calls. */
void nccl_environment_set_algorithms(coll_comm_t comm);

/* Names of the variables that are known here, NULL past the end. */
const char *nccl_environment_name(int index);

#endif
