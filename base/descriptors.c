/* Open ones are counted in /proc; where there is none they count as a few. */
#include "base/descriptors.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/resource.h>

enum { OPEN_WHEN_UNKNOWN = 64 };

static size_t count_open(void) {
  DIR *directory = opendir("/proc/self/fd");
  size_t count = 0;
  if (directory == NULL) return OPEN_WHEN_UNKNOWN;
  while (readdir(directory) != NULL) count++; /* ".", ".." and its own: three too many */
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
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* else one could lower another's */
  pthread_mutex_lock(&lock);
  raise_limit(count_open() + more);
  pthread_mutex_unlock(&lock);
}
