/* The name may lack a model number in virtual machines; on ARM the kernel gives a part number
 * instead of a name. */
#include "base/processor.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void base_processor_name(char *name, size_t bytes) {
  snprintf(name, bytes, "unknown");
  FILE *file = fopen("/proc/cpuinfo", "re");
  if (file == NULL) return;
  char line[256];
  while (fgets(line, sizeof line, file) != NULL) {
    char *colon = strchr(line, ':');
    bool named = strncmp(line, "model name", 10) == 0 || strncmp(line, "CPU part", 8) == 0;
    if (!named || colon == NULL) continue;
    line[strcspn(line, "\n")] = '\0';
    snprintf(name, bytes, "%s", colon + 1 + strspn(colon + 1, " "));
    break;
  }
  fclose(file);
}
