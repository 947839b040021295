/* Reads a file line by line, whatever the length of a line. */
#ifndef BASE_LINES_H
#define BASE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/status.h"

typedef struct base_lines {
  char *text;    /* the line, without its end (LF or CR LF) and without a byte order mark */
  int number;    /* of the line, from 1 */
  size_t length; /* of the line; more than strlen(text) if there is a zero byte in it */
  size_t capacity;
  int error; /* errno of a read that failed */
} base_lines_t;

/* Reads the next line; false at the end, and when reading fails. The first time *lines must be
 * zeroed. The text is valid until the next call, and base_lines_end. */
bool base_lines_next(base_lines_t *lines, FILE *file);

/* Frees. COLL_ERROR_SYSTEM if not all lines have been read because reading failed. */
coll_status_t base_lines_end(base_lines_t *lines, const char *file_name);

/* The first line of a file, in new memory that the caller frees; NULL if there is no such file. */
char *base_lines_first(const char *path);

#endif
