/* The lines are read once and kept for the life of the process. */
#include "frontends/nccl/config_files.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static nccl_config_line_t *lines, **end = &lines;
static const char *missing;

static const nccl_config_line_t *find(const char *name, size_t length) {
  const nccl_config_line_t *line = lines;
  while (line != NULL && (strncmp(line->name, name, length) != 0 || line->name[length] != '\0')) {
    line = line->next;
  }
  return line;
}

static void free_line(nccl_config_line_t *line) {
  free(line->name);
  free(line->value);
  free(line->source);
  free(line);
}

/* Without memory the line is left out. */
static void add(const char *name, size_t length, const char *value, const char *path, int number) {
  nccl_config_line_t *line = calloc(1, sizeof *line);
  char source[PATH_MAX + 32];
  if (line == NULL) return;
  snprintf(source, sizeof source, "%s, line %d", path, number);
  line->name = strndup(name, length);
  line->value = strdup(value);
  line->source = strdup(source);
  if (line->name == NULL || line->value == NULL || line->source == NULL) {
    free_line(line);
    return;
  }
  *end = line;
  end = &line->next;
}

/* False: it cannot be read. */
static bool read_file(const char *path) {
  FILE *file = fopen(path, "re");
  char *text = NULL;
  size_t capacity = 0;
  ssize_t bytes;
  if (file == NULL) return false;
  for (int number = 1; (bytes = getline(&text, &capacity, file)) >= 0; number++) {
    if (bytes > 0 && text[bytes - 1] == '\n') text[--bytes] = '\0';
    if (bytes > 0 && text[bytes - 1] == '\r') text[--bytes] = '\0';
    size_t length = strcspn(text, "=");
    if (text[0] == '#' || text[length] == '\0' || length == 0) continue;
    if (find(text, length) == NULL) add(text, length, text + length + 1, path, number);
  }
  bool was_read = !ferror(file);
  free(text);
  fclose(file);
  return was_read;
}

static void read_files(void) {
  const char *named = getenv("NCCL_CONF_FILE"), *home = getenv("HOME");
  char path[PATH_MAX];
  if (named != NULL && named[0] != '\0') {
    if (!read_file(named)) missing = strdup(named);
  } else if (home != NULL &&
             (size_t)snprintf(path, sizeof path, "%s/.nccl.conf", home) < PATH_MAX) {
    (void)read_file(path);
  }
  (void)read_file("/etc/nccl.conf");
}

static void read_once(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, read_files);
}

const nccl_config_line_t *nccl_config_lines(void) {
  read_once();
  return lines;
}

const nccl_config_line_t *nccl_config_line(const char *name) {
  read_once();
  return getenv(name) == NULL ? find(name, strlen(name)) : NULL;
}

const char *nccl_variable(const char *name) {
  const char *value = getenv(name);
  if (value != NULL) return value;
  const nccl_config_line_t *line = nccl_config_line(name);
  return line != NULL ? line->value : NULL;
}

const char *nccl_config_missing(void) {
  read_once();
  return missing;
}
