/* Writes the documented format: 256 32-bit words, then the tokens. */
#include "shards.h"

#include <stdint.h>
#include <stdlib.h>

const char *shards_write(const folder_t *folder, const char *name, int first, int count) {
  size_t bytes = 1024 + 2 * (size_t)count;
  int32_t *words = calloc(1, bytes);
  uint16_t *tokens = (uint16_t *)(words + 256);
  words[0] = 20240520;
  words[1] = 1;
  words[2] = count;
  for (int i = 0; i < count; i++) tokens[i] = (uint16_t)(first + i);
  const char *path = folder_write(folder, name, words, bytes);
  free(words);
  return path;
}
