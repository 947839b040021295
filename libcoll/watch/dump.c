/*
 * The table is built in memory, from recorders that are already mapped. Then it is written to a
 * temporary file, which is renamed to the requested path.
 */
#include "watch/dump.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "comm/process.h"
#include "flight/table.h"

/* ---- the table ------------------------------------------------------------------------------*/

typedef struct dump {
  flight_table_t table;
  coll_status_t status;
} dump_t;

static coll_status_t add_comm(flight_table_t *table, const struct coll_comm *comm) {
  transport_t *local = comm->local;
  uint64_t id = atomic_load_explicit(&local->flight->communicator, memory_order_relaxed);
  if (flight_table_has(table, id))
    return COLL_OK; /* added already, as another rank of this process */
  for (int rank = 0; rank < comm->size; rank++) {
    const flight_recorder_t *recorder = local->ops->recorder(local, rank);
    if (recorder == NULL) continue;
    COLL_TRY(flight_table_add(table, recorder, id, rank, comm->size));
  }
  return COLL_OK;
}

static bool visit(struct coll_comm *comm, void *context) {
  dump_t *dump = context;
  dump->status = add_comm(&dump->table, comm);
  return dump->status == COLL_OK;
}

/* ---- the file -------------------------------------------------------------------------------*/

static coll_status_t write_all(int fd, const char *path, const char *text, size_t bytes) {
  while (bytes > 0) {
    ssize_t written = write(fd, text, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write %s", path);
    text += written;
    bytes -= (size_t)written;
  }
  return COLL_OK;
}

/* Whether `path` is a terminal, pipe or device, which must not be replaced. */
static bool is_special(const char *path) {
  struct stat file;
  return stat(path, &file) == 0 && !S_ISREG(file.st_mode);
}

static coll_status_t write_special(const char *path, const char *text, size_t bytes) {
  int fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write %s", path);
  coll_status_t status = write_all(fd, path, text, bytes);
  close(fd);
  return status;
}

static coll_status_t replace(const char *path, const char *text, size_t bytes) {
  uint64_t random;
  char *other = NULL;
  size_t other_bytes = strlen(path) + 32;
  if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "no random number for a file beside %s", path);
  }
  COLL_TRY(base_alloc(1, other_bytes, "the name of a file", (void **)&other));
  snprintf(other, other_bytes, "%s.%016llx", path, (unsigned long long)random);
  coll_status_t status = COLL_OK;
  int fd = open(other, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) {
    status = base_fail_errno(COLL_ERROR_SYSTEM, "cannot write %s", path);
    goto free_name;
  }
  status = write_all(fd, path, text, bytes);
  if (close(fd) != 0 && status == COLL_OK) {
    status = base_fail_errno(COLL_ERROR_SYSTEM, "cannot write %s", path);
  }
  if (status == COLL_OK && rename(other, path) != 0) {
    status = base_fail_errno(COLL_ERROR_SYSTEM, "cannot write %s", path);
  }
  if (status != COLL_OK) unlink(other);
free_name:
  free(other);
  return status;
}

coll_status_t watch_dump(struct coll_comm *comm, const char *path) {
  dump_t dump = {.status = COLL_OK};
  char *text = NULL;
  size_t bytes;
  coll_status_t status = add_comm(&dump.table, comm);
  if (status == COLL_OK) {
    comm_process_each(visit, &dump);
    status = dump.status;
  }
  if (status == COLL_OK) status = flight_table_write(&dump.table, &text, &bytes);
  if (status != COLL_OK) goto free_all;
  if (strcmp(path, "-") == 0) {
    status = write_all(STDERR_FILENO, "standard error", text, bytes);
  } else if (is_special(path)) {
    status = write_special(path, text, bytes);
  } else {
    status = replace(path, text, bytes);
  }
free_all:
  free(text);
  flight_table_free(&dump.table);
  return status;
}
