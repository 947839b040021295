/* Builds the file in one buffer and writes it at once. */
#include "container.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *container_write(const folder_t *folder, const char *name, uint64_t claimed,
                            const char *header, const void *data, size_t data_bytes) {
  size_t length = strlen(header), total = sizeof claimed + length + data_bytes;
  char *bytes = malloc(total);
  memcpy(bytes, &claimed, sizeof claimed);
  memcpy(bytes + sizeof claimed, header, length);
  if (data_bytes > 0) memcpy(bytes + sizeof claimed + length, data, data_bytes);
  unlink(folder_path(folder, name)); /* truncating an existing file may wait for the disk, which is
                                      * slow for many small files */
  const char *path = folder_write(folder, name, bytes, total);
  free(bytes);
  return path;
}
