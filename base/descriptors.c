/* Open ones are counted in /proc; where there is none they count as a few. */
#include "base/descriptors.h"

#include <dirent.h>
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

void base_descriptors_make_room(size_t more) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  rlim_t wanted = (rlim_t)(count_open() + more);
  if (wanted > limit.rlim_max) wanted = limit.rlim_max;
  if (wanted <= limit.rlim_cur) return;
  limit.rlim_cur = wanted;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}
