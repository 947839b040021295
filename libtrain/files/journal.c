/* The kernel gets each line in one write, and nothing is buffered here; a line that is cut all the
 * same, as the disk was full, is all that is lost. */
#include "libtrain/files/journal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

#define DIGITS 9 /* of numbers: a float32 comes back exactly */

struct train_journal {
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

/* Else the next line would go on where one was cut. */
static bool end_last_line(int file) {
  struct stat found;
  char last = '\n';
  if (fstat(file, &found) != 0 || !S_ISREG(found.st_mode) || found.st_size == 0) return true;
  if (pread(file, &last, 1, found.st_size - 1) != 1) return false;
  return last == '\n' || write_line(file, "\n", 1);
}

coll_status_t train_journal_open(const char *path, bool append, train_journal_t **journal) {
  void *memory;
  int flags = (append ? O_RDWR : O_WRONLY | O_TRUNC) | O_CREAT | O_APPEND | O_CLOEXEC;
  int file = open(path, flags, 0666);
  if (file < 0) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write --log %s", path);
  coll_status_t status = COLL_OK;
  if (append && !end_last_line(file)) {
    status = base_fail_errno(COLL_ERROR_SYSTEM, "cannot write --log %s", path);
  }
  if (status == COLL_OK) status = base_alloc(1, sizeof(train_journal_t), "the log", &memory);
  if (status != COLL_OK) {
    close(file);
    return status;
  }
  train_journal_t *opened = memory;
  *opened = (train_journal_t){.path = path, .file = file};
  *journal = opened;
  return COLL_OK;
}

void train_journal_close(train_journal_t *journal) {
  if (journal == NULL) return;
  close(journal->file);
  free(journal);
}

coll_status_t train_journal_write(train_journal_t *journal, json_t *record) {
  assert(json_is_object(record));
  char *text = json_dumps(record, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS));
  json_decref(record);
  if (text == NULL) return base_fail(COLL_ERROR_MEMORY, "out of memory for a line of the log");
  size_t count = strlen(text);
  text[count] = '\n'; /* in place of the end mark: what is written has a length */
  bool wrote = write_line(journal->file, text, count + 1);
  int error = errno;
  free(text);
  if (wrote) return COLL_OK;
  errno = error;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write --log %s", journal->path);
}

coll_status_t train_journal_read(const char *path, train_journal_visit_t *visit, void *context) {
  char *line = NULL;
  size_t room = 0;
  FILE *file = fopen(path, "re");
  if (file == NULL && errno == ENOENT) return COLL_OK;
  if (file == NULL) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot read --log %s", path);
  for (ssize_t count; (count = getline(&line, &room, file)) > 0;) {
    json_t *record = json_loadb(line, (size_t)count, 0, NULL);
    if (json_is_object(record)) visit(context, record);
    json_decref(record);
  }
  bool whole = !ferror(file);
  int error = errno;
  free(line);
  fclose(file);
  if (whole) return COLL_OK;
  errno = error;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot read --log %s", path);
}
