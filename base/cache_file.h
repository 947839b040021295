/*
 * Files that keep results for later processes, in the user's cache folder: $XDG_CACHE_HOME/libcoll
 * or ~/.cache/libcoll. A file that cannot be read or written is no error: the caller computes its
 * content again.
 */
#ifndef BASE_CACHE_FILE_H
#define BASE_CACHE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#define BASE_CACHE_PATH_BYTES 1024

/* Writes the path of a file whose name has less than 64 bytes; creates the folder. False: there is
 * no such folder. */
bool base_cache_file(const char *name, char path[BASE_CACHE_PATH_BYTES]);

/* Replaces the file. Concurrent readers see all of the old content or all of the new. */
void base_cache_write(const char *path, const char *text, size_t bytes);

#endif
