/* Node lists of Slurm, as in "gpu[01-04,9],login": names with ranges of numbers in brackets. */
#include <string.h>

#include "bootstrap/launch/launch.h"

/* The first number of a bracket: up to '-', ',' or ']'. */
bool launch_slurm_first(const char *list, char *host, size_t bytes) {
  size_t length = 0;
  for (const char *at = list; *at != '\0' && *at != ','; at++) {
    size_t run = 1;
    const char *from = at;
    if (*at == '[') {
      const char *end = strchr(at, ']');
      from = at + 1;
      run = strcspn(from, "-,[]");
      if (end == NULL || run == 0 || from[run] == '[') return false;
      at = end;
    } else if (*at == ']') {
      return false;
    }
    if (length + run >= bytes) return false;
    memcpy(host + length, from, run);
    length += run;
  }
  host[length] = '\0';
  return length > 0;
}
