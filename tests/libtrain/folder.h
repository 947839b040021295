/* A temporary folder with files, which is removed after the test. */
#ifndef TESTS_LIBTRAIN_FOLDER_H
#define TESTS_LIBTRAIN_FOLDER_H

#include <stddef.h>

typedef struct folder {
  char path[64];
} folder_t;

void folder_make(folder_t *folder);
void folder_remove(const folder_t *folder);

/* "folder/name" in one of several rotating buffers. */
const char *folder_path(const folder_t *folder, const char *name);

/* Writes a file, creating the folder before a '/' in its name. Returns its path. */
const char *folder_write(const folder_t *folder, const char *name, const void *bytes, size_t count);

/* Reads a file into new memory; *count is its size. */
void *folder_read(const char *path, size_t *count);

#endif
