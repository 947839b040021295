/* The name may lack a model number in virtual machines; on ARM the kernel gives a part number
 * instead of a name. */
#include "base/processor.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/lines.h"

void base_processor_name(char *name, size_t bytes) {
  snprintf(name, bytes, "unknown");
  FILE *file = fopen("/proc/cpuinfo", "re");
  if (file == NULL) return;
  base_lines_t lines = {0};
  while (base_lines_next(&lines, file)) {
    char *line = lines.text, *colon = strchr(line, ':');
    bool named = strncmp(line, "model name", 10) == 0 || strncmp(line, "CPU part", 8) == 0;
    if (!named || colon == NULL) continue;
    snprintf(name, bytes, "%s", colon + 1 + strspn(colon + 1, " "));
    break;
  }
  (void)base_lines_end(&lines, "/proc/cpuinfo");
  fclose(file);
}
