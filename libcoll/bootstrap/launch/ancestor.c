/* Walks from parent to parent in /proc. */
#include "bootstrap/launch/ancestor.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

/* Fields of /proc/PID/stat, counted from the one after the process's name. */
enum { FIELD_PARENT = 1, FIELD_START = 19, FIELDS };

typedef struct process {
  int64_t pid, parent;
  char start[24]; /* start time, in clock ticks since boot */
} process_t;

/* Whether the process's environment has the variable. An environment that cannot be read is
 * another user's, so the process is no rank. */
static bool has_variable(int64_t pid, const char *variable) {
  char path[40], *entry = NULL;
  size_t room = 0, length = strlen(variable);
  bool found = false;
  snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
  FILE *file = fopen(path, "r");
  if (file == NULL) return false;
  while (!found && getdelim(&entry, &room, '\0', file) > 0) {
    found = strncmp(entry, variable, length) == 0 && entry[length] == '=';
  }
  free(entry);
  fclose(file);
  return found;
}

/* False where there is no such process. */
static bool read_process(int64_t pid, process_t *process) {
  char path[40], text[1024], *rest = NULL;
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  FILE *file = fopen(path, "r");
  if (file == NULL) return false;
  size_t bytes = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[bytes] = '\0';
  char *name_end = strrchr(text, ')'); /* the name itself may contain any character */
  if (name_end == NULL) return false;
  *process = (process_t){.pid = pid};
  char *field = strtok_r(name_end + 1, " ", &rest);
  for (int i = 0; i < FIELDS && field != NULL; i++, field = strtok_r(NULL, " ", &rest)) {
    if (i == FIELD_PARENT) base_text_integer(field, 0, INT32_MAX, &process->parent);
    if (i == FIELD_START) snprintf(process->start, sizeof process->start, "%s", field);
  }
  return process->start[0] != '\0';
}

static process_t find_launcher(const char *variable) {
  process_t process = {.pid = getppid()}, parent;
  read_process(process.pid, &process);
  while (has_variable(process.pid, variable) && read_process(process.parent, &parent)) {
    process = parent;
  }
  return process;
}

int launch_ancestor_pid(const char *variable) {
  return (int)find_launcher(variable).pid;
}

void launch_ancestor_identity(const char *variable, char identity[LAUNCH_ANCESTOR_BYTES]) {
  process_t process = find_launcher(variable);
  snprintf(identity, LAUNCH_ANCESTOR_BYTES, "process %d of %s", (int)process.pid, process.start);
}
