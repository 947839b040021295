/*
 * What the fuzz targets share. A target is one file with LLVMFuzzerTestOneInput, which gives the
 * bytes to a parser and uses what it accepts. It is linked with libFuzzer (tests/fuzz/run), or with
 * replay.c, which runs it on its corpus.
 */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Returns 0. Aborts if the parser breaks a promise. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* A stream that contains the bytes, which must live as long. */
FILE *fuzz_open(const uint8_t *data, size_t bytes);

/* A text that is written as a stream. */
typedef struct fuzz_text {
  FILE *out;
  char *text;
  size_t bytes;
} fuzz_text_t;

/* Begins a text: write to text->out, then call fuzz_text_end, which closes it; free text->text. */
void fuzz_text_begin(fuzz_text_t *text);
void fuzz_text_end(fuzz_text_t *text);

/* Aborts with the promise and the last error if the promise does not hold. */
void fuzz_require(bool holds, const char *promise);

#endif
