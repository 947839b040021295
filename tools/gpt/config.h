/*
 * Reads options from a configuration file: a JSON object whose keys are a command's long options.
 * Each pair is converted to command line arguments, so the command line parser validates both.
 */
#ifndef TOOLS_GPT_CONFIG_H
#define TOOLS_GPT_CONFIG_H

#include <jansson.h>

#include "base/options.h"

/* All zero is a file without keys. Parsed text options point into it. */
typedef struct gpt_config {
  const char *path;
  char **arguments; /* [count]: options in arguments[1] and following, as in argv */
  int count;
  bool **cleared; /* [cleared_count]: flags that the file sets to false */
  int cleared_count;
} gpt_config_t;

/* Reads the file; keys must be names of the command's options. COLL_ERROR_INVALID names the path
 * and the error: not a JSON object, an unknown key (with the nearest known one), a value of the
 * wrong type. Stores `path` without copying it. */
coll_status_t gpt_config_load(const base_command_t *command, const char *path,
                              gpt_config_t *config);
void gpt_config_free(gpt_config_t *config);

/* Sets the command's options from the file. COLL_ERROR_INVALID as from base_options_parse. */
coll_status_t gpt_config_apply(const base_command_t *command, const gpt_config_t *config);

/* The current options as a JSON object that gpt_config_load accepts; text options without a value
 * are omitted. NULL when out of memory. The caller releases it with json_decref. */
json_t *gpt_config_object(const base_command_t *command);

#endif
