/* The kernel's proportional set size, summed over all mappings but those of files. */
#include "tools/gpt/footprint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t gpt_memory_total(const train_memory_t *memory) {
  return memory->parameters + memory->gradients + memory->moments + memory->workspaces +
         memory->activations;
}

uint64_t gpt_footprint_bytes(void) {
  static const char *const kinds[] = {"Pss_Anon:", "Pss_Shmem:"};
  char line[128];
  uint64_t kib = 0;
  FILE *file = fopen("/proc/self/smaps_rollup", "re");
  if (file == NULL) return 0;
  while (fgets(line, sizeof line, file) != NULL) {
    for (int i = 0; i < 2; i++) {
      size_t length = strlen(kinds[i]);
      if (strncmp(line, kinds[i], length) == 0) kib += strtoull(line + length, NULL, 10);
    }
  }
  fclose(file);
  return kib * 1024;
}
