/*
 * NCCL's configuration files: NCCL_CONF_FILE, or without it ~/.nccl.conf; then /etc/nccl.conf. A
 * line is NAME=VALUE, or begins with '#'. Spaces belong to names and values, as in NCCL. The first
 * line of a name counts, and what is in the environment, even empty, comes before all. Nothing is
 * put into the environment, which other threads may be reading and children would inherit.
 */
#ifndef FRONTENDS_NCCL_CONFIG_FILES_H
#define FRONTENDS_NCCL_CONFIG_FILES_H

#include <stdbool.h>

typedef struct nccl_config_line {
  char *name, *value;
  char *source; /* "/etc/nccl.conf, line 3" */
  struct nccl_config_line *next;
} nccl_config_line_t;

/* The value of a variable: of the environment, or else of the files; NULL: it has none. Reads the
 * files in the first call of the process. */
const char *nccl_variable(const char *name);

/* The line that gives the variable its value; NULL: it has none, or is in the environment. */
const nccl_config_line_t *nccl_config_line(const char *name);

/* The lines of all files, the first line of each name, in order. */
const nccl_config_line_t *nccl_config_lines(void);

/* The file of NCCL_CONF_FILE if it cannot be read, else NULL. */
const char *nccl_config_missing(void);

#endif
