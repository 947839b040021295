/* POSIX calls that are retried after signals and continued after short reads and writes. */
#include "libtrain/files/io.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"

#define MAX_LINKS 40      /* the kernel's limit */
#define MAX_TRIES 100     /* attempts to lock a file that others keep replacing */
#define ABANDON_TRIES 200 /* milliseconds that the creator of a file has to end or to remove it */

/* ---- reading ---- */

coll_status_t train_input_open(const char *path, train_input_t *input) {
  struct stat found;
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot read %s", path);
  if (fstat(file, &found) != 0 || !S_ISREG(found.st_mode)) {
    close(file);
    return base_fail(COLL_ERROR_INVALID, "cannot read %s: it is not a file", path);
  }
  input->file = file;
  input->bytes = (uint64_t)found.st_size;
  snprintf(input->path, sizeof input->path, "%s", path);
  return COLL_OK;
}

void train_input_close(train_input_t *input) {
  close(input->file);
}

coll_status_t train_input_read(const train_input_t *input, uint64_t offset, size_t count,
                               void *bytes) {
  char *to = bytes;
  while (count > 0) {
    ssize_t got = pread(input->file, to, count, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot read %s", input->path);
    if (got == 0) {
      return base_fail(COLL_ERROR_INVALID, "%s is truncated: it ends at byte %llu", input->path,
                       (unsigned long long)offset);
    }
    to += got;
    offset += (uint64_t)got;
    count -= (size_t)got;
  }
  return COLL_OK;
}

coll_status_t train_input_read_all(const char *path, size_t max, char **bytes, size_t *count) {
  train_input_t input;
  void *memory = NULL;
  COLL_TRY(train_input_open(path, &input));
  coll_status_t status = COLL_OK;
  if (input.bytes > max) {
    status = base_fail(COLL_ERROR_INVALID, "%s has %llu bytes; at most %zu are supported", path,
                       (unsigned long long)input.bytes, max);
  }
  if (status == COLL_OK) status = base_alloc((size_t)input.bytes + 1, 1, path, &memory);
  if (status == COLL_OK) status = train_input_read(&input, 0, (size_t)input.bytes, memory);
  train_input_close(&input);
  if (status != COLL_OK) {
    free(memory);
    return status;
  }
  *bytes = memory;
  *count = (size_t)input.bytes;
  return COLL_OK;
}

/* ---- writing ---- */

/* Replaces `resolved`, a symbolic link, with its target, which need not exist. */
static bool read_link(char resolved[PATH_MAX]) {
  char target[PATH_MAX], folder[PATH_MAX];
  ssize_t length = readlink(resolved, target, sizeof target);
  if (length < 0) return false;
  errno = ENAMETOOLONG;
  if ((size_t)length == sizeof target) return false;
  target[length] = '\0';
  snprintf(folder, sizeof folder, "%s", resolved);
  bool absolute = target[0] == '/';
  int length_needed = snprintf(resolved, PATH_MAX, "%s%s%s", absolute ? "" : dirname(folder),
                               absolute ? "" : "/", target);
  return length_needed < PATH_MAX;
}

/* Follows symbolic links, so that writing replaces the target and not the link. */
static bool resolve_links(const char *path, char resolved[PATH_MAX]) {
  struct stat found;
  errno = ENAMETOOLONG;
  if (snprintf(resolved, PATH_MAX, "%s", path) >= PATH_MAX) return false;
  for (int links = 0; lstat(resolved, &found) == 0 && S_ISLNK(found.st_mode); links++) {
    errno = ELOOP;
    if (links == MAX_LINKS || !read_link(resolved)) return false;
  }
  return true;
}

/* Whether the open file is still the one at `path`. */
static bool is_at(int file, const char *path) {
  struct stat opened, current;
  return fstat(file, &opened) == 0 && stat(path, &current) == 0 &&
         opened.st_ino == current.st_ino && opened.st_dev == current.st_dev;
}

/* Opens and locks the file at `path` and truncates it. Returns -1 with errno; EWOULDBLOCK if
 * another process is writing it. After locking, the path is checked again, because the other writer
 * may just have renamed the file. */
static int open_locked(const char *path) {
  for (int tries = 0; tries < MAX_TRIES; tries++) {
    struct stat opened;
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) return -1;
    bool locked = flock(file, LOCK_EX | LOCK_NB) == 0;
    bool busy = !locked && errno == EWOULDBLOCK; /* other errors mean that the file system has no
                                                  * locks */
    bool same = !busy && is_at(file, path) && fstat(file, &opened) == 0;
    if (same && (!S_ISREG(opened.st_mode) || ftruncate(file, 0) == 0)) return file;
    int error = busy ? EWOULDBLOCK : errno;
    close(file);
    if (same || busy) {
      errno = error;
      return -1;
    }
  }
  errno = EWOULDBLOCK;
  return -1;
}

/* Opens the temporary file; -1 with errno on failure. */
static int open_temporary(const char *path, train_output_t *output) {
  struct stat found;
  if (!resolve_links(path, output->path)) return -1;
  if (snprintf(output->temporary, PATH_MAX, "%s.part", output->path) >= PATH_MAX) {
    errno = ENAMETOOLONG;
    return -1;
  }
  if (stat(output->path, &found) == 0 && !S_ISREG(found.st_mode)) {
    errno = S_ISDIR(found.st_mode) ? EISDIR : ENOTSUP;
    return -1;
  }
  return open_locked(output->temporary);
}

void train_output_open(const char *path, train_output_t *output) {
  output->file = -1;
  output->joined = false;
  output->error = 0;
  output->written = 0;
  if (path == NULL) return;
  output->file = open_temporary(path, output);
  if (output->file < 0) output->error = errno;
}

void train_output_write(train_output_t *output, const void *bytes, size_t count) {
  const char *from = bytes;
  output->written += count;
  while (count > 0 && output->file >= 0 && output->error == 0) {
    ssize_t wrote = write(output->file, from, count);
    if (wrote < 0) {
      if (errno != EINTR) output->error = errno;
      continue;
    }
    from += wrote;
    count -= (size_t)wrote;
  }
}

/* Makes a rename in the file's folder durable. A sync failure is ignored: some file systems cannot
 * sync folders. */
static void sync_folder_of(const char *path) {
  char copy[PATH_MAX];
  snprintf(copy, sizeof copy, "%s", path);
  int folder = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  fsync(folder);
  close(folder);
}

coll_status_t train_output_status(const train_output_t *output) {
  if (output->error == 0) return COLL_OK;
  char size[48] = "";
  if (output->written > 0) {
    snprintf(size, sizeof size, "; none of its %.1f MB were saved", (double)output->written * 1e-6);
  }
  return base_fail(
      COLL_ERROR_SYSTEM, "cannot write %s: %s%s", output->path,
      output->error == EWOULDBLOCK ? "another program is writing it" : strerror(output->error),
      size);
}

coll_status_t train_output_commit(train_output_t *output) {
  if (output->file < 0) return train_output_status(output);
  if (output->error == 0 && fsync(output->file) != 0) output->error = errno;
  if (output->error == 0 && rename(output->temporary, output->path) != 0) output->error = errno;
  if (output->error == 0) {
    sync_folder_of(output->path);
  } else {
    unlink(output->temporary);
  }
  close(output->file); /* releases the lock */
  output->file = -1;
  return train_output_status(output);
}

/* Whether the process that created the file has ended without replacing the old file or removing
 * its own: its lock is gone, and the file is still there. Peers may notice the end of a process a
 * little earlier than the kernel releases its locks. */
static bool is_abandoned(const train_output_t *output) {
  for (int tries = 0; tries < ABANDON_TRIES && is_at(output->file, output->temporary); tries++) {
    if (flock(output->file, LOCK_EX | LOCK_NB) == 0) {
      return is_at(output->file, output->temporary);
    }
    if (errno != EWOULDBLOCK) return false;
    base_clock_sleep_ns(1000000);
  }
  return false;
}

void train_output_discard(train_output_t *output) {
  if (output->file < 0) return;
  if (!output->joined || is_abandoned(output)) unlink(output->temporary);
  close(output->file);
  output->file = -1;
}

coll_status_t train_output_probe(const char *path) {
  train_output_t output;
  train_output_open(path, &output);
  train_output_discard(&output);
  return train_output_status(&output);
}

/* ---- one file, several writers ---- */

/* The mark is written through a second descriptor, because network file systems send what was
 * written to other hosts when a file is closed. */
void train_output_invite(train_output_t *output, train_output_invitation_t *invitation) {
  memset(invitation, 0, sizeof *invitation);
  if (output->file < 0) return;
  memcpy(invitation->path, output->path, sizeof invitation->path);
  memcpy(invitation->temporary, output->temporary, sizeof invitation->temporary);
  train_output_t second = {.file = open(output->temporary, O_WRONLY | O_CLOEXEC)};
  if (getrandom(invitation->mark, sizeof invitation->mark, 0) != sizeof invitation->mark) {
    second.error = errno;
  }
  train_output_write_at(&second, 0, invitation->mark, sizeof invitation->mark);
  if (second.file < 0 || (close(second.file) != 0 && second.error == 0)) second.error = errno;
  if (output->error == 0) output->error = second.error;
}

bool train_output_join(const train_output_invitation_t *invitation, train_output_t *output) {
  uint64_t mark[2];
  train_output_open(NULL, output);
  output->joined = true;
  memcpy(output->path, invitation->path, sizeof output->path);
  memcpy(output->temporary, invitation->temporary, sizeof output->temporary);
  int file = open(output->temporary, O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return false;
  if (pread(file, mark, sizeof mark, 0) != sizeof mark ||
      memcmp(mark, invitation->mark, sizeof mark) != 0) {
    close(file);
    return false;
  }
  output->file = file;
  return true;
}

void train_output_write_at(train_output_t *output, uint64_t offset, const void *bytes,
                           size_t count) {
  const char *from = bytes;
  output->written += count;
  while (count > 0 && output->file >= 0 && output->error == 0) {
    ssize_t wrote = pwrite(output->file, from, count, (off_t)offset);
    if (wrote < 0) {
      if (errno != EINTR) output->error = errno;
      continue;
    }
    from += wrote;
    offset += (uint64_t)wrote;
    count -= (size_t)wrote;
  }
}

void train_output_sync(train_output_t *output) {
  if (output->file < 0 || output->error != 0) return;
  if (fsync(output->file) != 0) output->error = errno;
}

/* ---- paths ---- */

bool train_path_ends_in(const char *path, const char *end) {
  size_t length = strlen(path), tail = strlen(end);
  return length > tail && strcmp(path + length - tail, end) == 0;
}
