/* Reads a block, writes its whole lines, keeps the rest for the next block. One block per call, so
 * that a rank that floods its output does not keep the others waiting. */
#include "tools/collrun/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

#define BLOCK_BYTES 65536
/* A "line" that grows beyond this is passed on in pieces, so that a rank that never ends its line
 * cannot eat all memory. */
#define LINE_BYTES_MAX (1 << 20)

void collrun_lines_open(int from, FILE *to, int rank, collrun_lines_t *lines) {
  *lines = (collrun_lines_t){.from = from, .to = to};
  snprintf(lines->prefix, sizeof lines->prefix, "[%d] ", rank);
}

static void close_source(collrun_lines_t *lines) {
  if (lines->from >= 0) close(lines->from);
  lines->from = -1;
}

/* The kept beginning and this end of a line, which may lack its newline at the end of the stream.
 */
static void write_line(collrun_lines_t *lines, const char *end, size_t bytes) {
  fputs(lines->prefix, lines->to);
  if (lines->kept_bytes > 0) fwrite(lines->kept, 1, lines->kept_bytes, lines->to);
  if (bytes > 0) fwrite(end, 1, bytes, lines->to);
  if (bytes == 0 || end[bytes - 1] != '\n') fputc('\n', lines->to);
  lines->kept_bytes = 0;
}

static coll_status_t keep(collrun_lines_t *lines, const char *text, size_t bytes) {
  if (bytes == 0) return COLL_OK;
  void *kept = lines->kept;
  coll_status_t status = base_grow(&kept, &lines->capacity, lines->kept_bytes + bytes, 1,
                                   "an unfinished line of output");
  if (status != COLL_OK) return status;
  lines->kept = kept;
  memcpy(lines->kept + lines->kept_bytes, text, bytes);
  lines->kept_bytes += bytes;
  if (lines->kept_bytes > LINE_BYTES_MAX) write_line(lines, "", 0);
  return COLL_OK;
}

static coll_status_t pass_on(collrun_lines_t *lines, const char *block, size_t bytes) {
  while (bytes > 0) {
    const char *newline = memchr(block, '\n', bytes);
    if (newline == NULL) return keep(lines, block, bytes);
    size_t length = (size_t)(newline - block) + 1;
    write_line(lines, block, length);
    block += length;
    bytes -= length;
  }
  return COLL_OK;
}

coll_status_t collrun_lines_pump(collrun_lines_t *lines) {
  char block[BLOCK_BYTES];
  ssize_t got = read(lines->from, block, sizeof block);
  coll_status_t status = got > 0 ? pass_on(lines, block, (size_t)got) : COLL_OK;
  bool goes_on = got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
  bool refused = fflush(lines->to) != 0;
  if (!goes_on || refused || status != COLL_OK) close_source(lines);
  return status;
}

void collrun_lines_close(collrun_lines_t *lines) {
  if (lines->kept_bytes > 0) write_line(lines, "", 0);
  if (lines->to != NULL) fflush(lines->to);
  close_source(lines);
  free(lines->kept);
  *lines = (collrun_lines_t){.from = -1};
}
