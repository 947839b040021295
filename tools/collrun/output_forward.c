/* Reads a block, writes its complete lines and buffers the rest for the next block. Each call reads
 * one block, so that a rank with much output does not delay the others. */
#include "tools/collrun/output_forward.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/tool.h"

#define BLOCK_BYTES 65536
/* A longer line is forwarded in parts, which bounds the memory for a line without an end. */
#define LINE_BYTES_MAX (1 << 20)

void collrun_output_open(int from, FILE *to, int rank, collrun_output_t *output) {
  *output = (collrun_output_t){.from = from, .to = to};
  snprintf(output->prefix, sizeof output->prefix, "[%d] ", rank);
}

static void close_source(collrun_output_t *output) {
  if (output->from >= 0) close(output->from);
  output->from = -1;
}

/* Writes the buffered beginning and this end of a line, and adds a newline if the stream ended
 * without one. */
static void write_line(collrun_output_t *output, const char *end, size_t bytes) {
  fputs(output->prefix, output->to);
  if (output->partial_bytes > 0) fwrite(output->partial, 1, output->partial_bytes, output->to);
  if (bytes > 0) fwrite(end, 1, bytes, output->to);
  if (bytes == 0 || end[bytes - 1] != '\n') fputc('\n', output->to);
  output->partial_bytes = 0;
}

static coll_status_t append_partial(collrun_output_t *output, const char *text, size_t bytes) {
  if (bytes == 0) return COLL_OK;
  void *partial = output->partial;
  coll_status_t status = base_grow(&partial, &output->capacity, output->partial_bytes + bytes, 1,
                                   "an unfinished line of output");
  if (status != COLL_OK) return status;
  output->partial = partial;
  memcpy(output->partial + output->partial_bytes, text, bytes);
  output->partial_bytes += bytes;
  if (output->partial_bytes > LINE_BYTES_MAX) write_line(output, "", 0);
  return COLL_OK;
}

static coll_status_t forward_lines(collrun_output_t *output, const char *block, size_t bytes) {
  while (bytes > 0) {
    const char *newline = memchr(block, '\n', bytes);
    if (newline == NULL) return append_partial(output, block, bytes);
    size_t length = (size_t)(newline - block) + 1;
    write_line(output, block, length);
    block += length;
    bytes -= length;
  }
  return COLL_OK;
}

/* False if nobody reads any more. */
static bool flush(collrun_output_t *output) {
  bool is_written = output->to == stdout ? base_tool_flush() : fflush(output->to) == 0;
  if (is_written) return true;
  output->is_lost = true;
  return !base_tool_pipe_is_closed(fileno(output->to));
}

coll_status_t collrun_output_forward(collrun_output_t *output) {
  char block[BLOCK_BYTES];
  ssize_t got = read(output->from, block, sizeof block);
  bool is_open = got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
  coll_status_t status = COLL_OK;
  if (got > 0 && !output->is_lost) {
    status = forward_lines(output, block, (size_t)got);
    if (!flush(output)) is_open = false;
  }
  if (!is_open || status != COLL_OK) close_source(output);
  return status;
}

void collrun_output_close(collrun_output_t *output) {
  if (output->partial_bytes > 0 && !output->is_lost) write_line(output, "", 0);
  if (output->to != NULL) flush(output);
  close_source(output);
  free(output->partial);
  *output = (collrun_output_t){.from = -1};
}
