/* getline, whose memory grows with the lines. */
#include "base/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define BYTE_ORDER_MARK "\xef\xbb\xbf"

static void remove_end(base_lines_t *lines) {
  if (lines->length > 0 && lines->text[lines->length - 1] == '\n') lines->length--;
  if (lines->length > 0 && lines->text[lines->length - 1] == '\r') lines->length--;
  lines->text[lines->length] = '\0';
}

static void remove_mark(base_lines_t *lines) {
  size_t mark = strlen(BYTE_ORDER_MARK);
  if (strncmp(lines->text, BYTE_ORDER_MARK, mark) != 0) return;
  lines->length -= mark;
  memmove(lines->text, lines->text + mark, lines->length + 1);
}

bool base_lines_next(base_lines_t *lines, FILE *file) {
  errno = 0;
  ssize_t length = getline(&lines->text, &lines->capacity, file);
  if (length < 0) {
    lines->error = feof(file) ? 0 : errno;
    return false;
  }
  lines->length = (size_t)length;
  remove_end(lines);
  if (lines->number++ == 0) remove_mark(lines);
  return true;
}

coll_status_t base_lines_end(base_lines_t *lines, const char *file_name) {
  int error = lines->error;
  free(lines->text);
  *lines = (base_lines_t){0};
  if (error == 0) return COLL_OK;
  errno = error;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot read %s", file_name);
}

char *base_lines_first(const char *path) {
  base_lines_t lines = {0};
  FILE *file = fopen(path, "re");
  if (file == NULL) return NULL;
  bool found = base_lines_next(&lines, file);
  fclose(file);
  if (found) return lines.text;
  free(lines.text);
  return NULL;
}
