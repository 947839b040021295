/*
 * Options from a file: a JSON object whose keys are a command's long options. Each pair becomes
 * words for the parser of the command line, which checks it the same way.
 */
#ifndef TOOLS_GPT_CONFIG_H
#define TOOLS_GPT_CONFIG_H

#include <jansson.h>

#include "base/options.h"

/* Zeroed, it is the file without a key. Parsed texts point into it. */
typedef struct gpt_config {
  const char *path;
  char **words; /* [count]: options from words[1] on, as in argv */
  int count;
} gpt_config_t;

/* Reads the file; its keys are names of the command's options. COLL_ERROR_INVALID names the path
 * and what is wrong: no JSON object, an unknown key (with the nearest), a value of no use. `path`
 * is kept. */
coll_status_t gpt_config_load(const base_command_t *command, const char *path,
                              gpt_config_t *config);
void gpt_config_free(gpt_config_t *config);

/* Sets the command's options from the file. COLL_ERROR_INVALID as base_options_parse. */
coll_status_t gpt_config_apply(const base_command_t *command, const gpt_config_t *config);

/* The options as they are now, as an object that gpt_config_load would take from a file; texts
 * without a value are left out. NULL when out of memory. The caller gives it up (json_decref). */
json_t *gpt_config_object(const base_command_t *command);

#endif
