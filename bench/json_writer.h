/*
 * Writes JSON (RFC 8259) to a stream, value by value. Whether the stream took all of it, the caller
 * asks the stream.
 *
 *   bench_json_t json = {.out = stdout};
 *   bench_json_open(&json, NULL, '{');
 *   bench_json_integer(&json, "ranks", 2);
 *   bench_json_close(&json, '}');
 */
#ifndef BENCH_JSON_WRITER_H
#define BENCH_JSON_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct bench_json {
  FILE *out;
  bool lines;      /* a line for each value, indented by a space for each bracket around it */
  int depth;       /* of open brackets */
  bool has_values; /* the innermost open bracket */
} bench_json_t;

/* key: of values in an object; NULL in arrays, and of the outermost value. */
void bench_json_open(bench_json_t *json, const char *key, char bracket);
void bench_json_close(bench_json_t *json, char bracket);

/* text NULL: null. Bytes that are not UTF-8 become U+FFFD. */
void bench_json_text(bench_json_t *json, const char *key, const char *text);
void bench_json_integer(bench_json_t *json, const char *key, int64_t value);
/* With as many digits as read back as the same number; null if it is infinite or no number. */
void bench_json_real(bench_json_t *json, const char *key, double value);
void bench_json_bool(bench_json_t *json, const char *key, bool value);
void bench_json_null(bench_json_t *json, const char *key);

#endif
