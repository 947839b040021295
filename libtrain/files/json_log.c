/* Each line is written with one unbuffered write. If the disk is full, at most the line being
 * written is truncated. */
#include "libtrain/files/json_log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

#define DIGITS 9 /* significant digits; enough to restore a float32 exactly */

struct train_json_log {
  const char *path;
  int file;
};

static bool write_line(int file, const char *line, size_t count) {
  while (count > 0) {
    ssize_t wrote = write(file, line, count);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return false;
    line += wrote;
    count -= (size_t)wrote;
  }
  return true;
}

/* Appends a newline if the last line was truncated, so that the next record starts a new line. */
static bool end_last_line(int file) {
  struct stat found;
  char last = '\n';
  if (fstat(file, &found) != 0 || !S_ISREG(found.st_mode) || found.st_size == 0) return true;
  if (pread(file, &last, 1, found.st_size - 1) != 1) return false;
  return last == '\n' || write_line(file, "\n", 1);
}

coll_status_t train_json_log_open(const char *path, bool append, train_json_log_t **log) {
  void *memory;
  int flags = (append ? O_RDWR : O_WRONLY | O_TRUNC) | O_CREAT | O_APPEND | O_CLOEXEC;
  int file = open(path, flags, 0666);
  if (file < 0) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write --log %s", path);
  coll_status_t status = COLL_OK;
  if (append && !end_last_line(file)) {
    status = base_fail_errno(COLL_ERROR_SYSTEM, "cannot write --log %s", path);
  }
  if (status == COLL_OK) status = base_alloc(1, sizeof(train_json_log_t), "the log", &memory);
  if (status != COLL_OK) {
    close(file);
    return status;
  }
  train_json_log_t *opened = memory;
  *opened = (train_json_log_t){.path = path, .file = file};
  *log = opened;
  return COLL_OK;
}

void train_json_log_close(train_json_log_t *log) {
  if (log == NULL) return;
  close(log->file);
  free(log);
}

coll_status_t train_json_log_write(train_json_log_t *log, json_t *record) {
  assert(json_is_object(record));
  char *text = json_dumps(record, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS));
  json_decref(record);
  if (text == NULL) return base_fail(COLL_ERROR_MEMORY, "out of memory for a line of the log");
  size_t count = strlen(text);
  text[count] = '\n'; /* replaces the terminating zero; write_line takes a length */
  bool wrote = write_line(log->file, text, count + 1);
  int error = errno;
  free(text);
  if (wrote) return COLL_OK;
  errno = error;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write --log %s", log->path);
}

coll_status_t train_json_log_read(const char *path, train_json_log_visit_t *visit, void *context) {
  char *line = NULL;
  size_t capacity = 0;
  FILE *file = fopen(path, "re");
  if (file == NULL && errno == ENOENT) return COLL_OK;
  if (file == NULL) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot read --log %s", path);
  for (ssize_t count; (count = getline(&line, &capacity, file)) > 0;) {
    json_t *record = json_loadb(line, (size_t)count, 0, NULL);
    if (json_is_object(record)) visit(context, record);
    json_decref(record);
  }
  bool complete = !ferror(file);
  int error = errno;
  free(line);
  fclose(file);
  if (complete) return COLL_OK;
  errno = error;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot read --log %s", path);
}
