/*
 * A record lock belongs to the process, which loses all of those on a file when it closes any
 * descriptor of that file. Therefore the descriptors of ranks that leave are kept until the last
 * rank of the process on the same file leaves.
 */
#include "transport/shm/presence.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fork.h"

#define FILE_NAME "ranks" /* not one that flight/find.c opens */

typedef struct hold {
  dev_t device; /* of the file, with its inode */
  ino_t inode;
  int fd;
  bool has_left; /* fd waits to be closed */
} hold_t;

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static hold_t *table; /* all three protected by table_lock */
static size_t table_count, table_capacity;
BASE_FORK_PART(&table_lock, NULL);

static struct flock lock_of(int rank, short type) {
  return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1};
}

coll_status_t shm_presence_create(int *fd) {
  *fd = memfd_create(FILE_NAME, MFD_CLOEXEC);
  if (*fd >= 0) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot create a file for the locks of ranks");
}

static coll_status_t add_hold(int fd, int rank) {
  struct stat file;
  struct flock lock = lock_of(rank, F_WRLCK);
  COLL_TRY(base_grow((void **)&table, &table_capacity, table_count + 1, sizeof *table,
                     "the table of ranks"));
  if (fstat(fd, &file) != 0 || fcntl(fd, F_SETLK, &lock) != 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "rank %d: cannot lock its byte of a file in memory",
                           rank);
  }
  table[table_count++] = (hold_t){.device = file.st_dev, .inode = file.st_ino, .fd = fd};
  return COLL_OK;
}

coll_status_t shm_presence_hold(int fd, int rank) {
  pthread_mutex_lock(&table_lock);
  coll_status_t status = add_hold(fd, rank);
  pthread_mutex_unlock(&table_lock);
  return status;
}

/* ---- leaving --------------------------------------------------------------------------------*/

static bool is_same_file(const hold_t *a, const hold_t *b) {
  return a->device == b->device && a->inode == b->inode;
}

static bool is_held(const hold_t *file) {
  for (size_t i = 0; i < table_count; i++) {
    if (is_same_file(&table[i], file) && !table[i].has_left) return true;
  }
  return false;
}

static void close_file(hold_t file) {
  size_t kept = 0;
  for (size_t i = 0; i < table_count; i++) {
    if (is_same_file(&table[i], &file)) {
      close(table[i].fd);
    } else {
      table[kept++] = table[i];
    }
  }
  table_count = kept;
  if (kept > 0) return;
  free(table);
  table = NULL;
  table_capacity = 0;
}

void shm_presence_drop(int fd, int rank) {
  struct flock lock = lock_of(rank, F_UNLCK);
  size_t own = 0;
  pthread_mutex_lock(&table_lock);
  (void)fcntl(fd, F_SETLK, &lock);
  while (table[own].fd != fd) own++;
  table[own].has_left = true;
  if (!is_held(&table[own])) close_file(table[own]);
  pthread_mutex_unlock(&table_lock);
}

/* ---- looking at others ----------------------------------------------------------------------*/

/* False: the kernel does not say. */
static bool read_lock(int fd, int rank, struct flock *found) {
  *found = lock_of(rank, F_WRLCK);
  return fcntl(fd, F_GETLK, found) == 0;
}

bool shm_presence_has_ended(int fd, int rank) {
  struct flock found;
  return read_lock(fd, rank, &found) && found.l_type == F_UNLCK;
}

int shm_presence_pid(int fd, int rank) {
  struct flock found;
  return read_lock(fd, rank, &found) && found.l_type != F_UNLCK ? (int)found.l_pid : 0;
}

static pthread_once_t number_once = PTHREAD_ONCE_INIT;
static uint32_t number; /* written once under number_once; a fork's child has the same one */

static void draw_number(void) {
  if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) number = 0;
}

uint64_t shm_presence_process(void) {
  pthread_once(&number_once, draw_number);
  return (uint64_t)getpid() << 32 | number;
}
