/* Counts open descriptors in /proc; without /proc it assumes OPEN_WHEN_UNKNOWN. */
#include "base/descriptors.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/resource.h>

#include "base/fork.h"

enum { OPEN_WHEN_UNKNOWN = 64 };

/* Two threads could otherwise lower each other's limit. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
BASE_FORK_PART(&lock, NULL);

static size_t count_open(void) {
  DIR *directory = opendir("/proc/self/fd");
  size_t count = 0;
  if (directory == NULL) return OPEN_WHEN_UNKNOWN;
  /* counts ".", ".." and the directory's own descriptor too */
  while (readdir(directory) != NULL) count++;
  closedir(directory);
  return count;
}

static void raise_limit(size_t open_at_once) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  rlim_t wanted = (rlim_t)open_at_once;
  if (wanted > limit.rlim_max) wanted = limit.rlim_max;
  if (wanted <= limit.rlim_cur) return;
  limit.rlim_cur = wanted;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

void base_descriptors_make_room(size_t more) {
  pthread_mutex_lock(&lock);
  raise_limit(count_open() + more);
  pthread_mutex_unlock(&lock);
}
