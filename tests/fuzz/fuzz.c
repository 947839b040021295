/* Streams over memory, and the end of a target that has found an error. */
#include "fuzz.h"

#include <stdlib.h>

#include "base/status.h"

FILE *fuzz_open(const uint8_t *data, size_t bytes) {
  FILE *in = bytes > 0 ? fmemopen((void *)(uintptr_t)data, bytes, "r") : fopen("/dev/null", "r");
  fuzz_require(in != NULL, "a stream over memory opens");
  return in;
}

void fuzz_text_begin(fuzz_text_t *text) {
  *text = (fuzz_text_t){0};
  text->out = open_memstream(&text->text, &text->bytes);
  fuzz_require(text->out != NULL, "a stream into memory opens");
}

void fuzz_text_end(fuzz_text_t *text) {
  fuzz_require(fclose(text->out) == 0, "a stream into memory closes");
  text->out = NULL;
}

void fuzz_require(bool holds, const char *promise) {
  if (holds) return;
  fprintf(stderr, "broken promise: %s\nthe last error: %s\n", promise, base_last_error());
  abort();
}
