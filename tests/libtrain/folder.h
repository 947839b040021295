/* A folder of its own for a test, with files in it, gone when the test is. */
#ifndef TESTS_LIBTRAIN_FOLDER_H
#define TESTS_LIBTRAIN_FOLDER_H

#include <stddef.h>

typedef struct folder {
  char path[64];
} folder_t;

void folder_make(folder_t *folder);
void folder_remove(const folder_t *folder);

/* "folder/name" in one of a few rotating buffers. */
const char *folder_path(const folder_t *folder, const char *name);

/* Writes a file, making the folder before a '/' in its name. Returns its path. */
const char *folder_write(const folder_t *folder, const char *name, const void *bytes, size_t count);

/* All of a file in new memory, its size in *count. */
void *folder_read(const char *path, size_t *count);

#endif
