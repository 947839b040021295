/* Sums the kernel's proportional set size over writable mappings. */
#include "tools/gpt/footprint.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lines.h"

size_t gpt_memory_total(const train_memory_t *memory) {
  return memory->parameters + memory->weights + memory->gradients + memory->moments +
         memory->workspaces + memory->activations;
}

/* The first line of a mapping is "from-to permissions ..."; one of the following lines is "Pss: 12
 * kB". */
uint64_t gpt_footprint_bytes(void) {
  base_lines_t lines = {0};
  uint64_t kib = 0;
  bool writable = false;
  FILE *file = fopen("/proc/self/smaps", "re");
  if (file == NULL) return 0;
  while (base_lines_next(&lines, file)) {
    const char *line = lines.text, *space = strchr(line, ' ');
    bool is_first = space != NULL && space > line && space[-1] != ':';
    if (is_first) writable = space[2] == 'w';
    if (writable && strncmp(line, "Pss:", 4) == 0) kib += strtoull(line + 4, NULL, 10);
  }
  (void)base_lines_end(&lines, "/proc/self/smaps");
  fclose(file);
  return kib * 1024;
}
