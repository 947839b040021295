/* A comma is written before each value but the first, so that no end has to be known. */
#include "bench/json_writer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd"

/* ---- text -----------------------------------------------------------------------------------*/

/* The length of the UTF-8 sequence at the beginning of a text (RFC 3629); 0: there is none. */
static size_t sequence_bytes(const unsigned char *text) {
  size_t bytes = text[0] < 0x80   ? 1
                 : text[0] < 0xc2 ? 0
                 : text[0] < 0xe0 ? 2
                 : text[0] < 0xf0 ? 3
                                  : 4;
  if (text[0] > 0xf4) return 0;
  for (size_t i = 1; i < bytes; i++) {
    if ((text[i] & 0xc0) != 0x80) return 0;
  }
  bool is_overlong = (text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xf0 && text[1] < 0x90);
  bool is_none = (text[0] == 0xed && text[1] >= 0xa0) || (text[0] == 0xf4 && text[1] >= 0x90);
  return is_overlong || is_none ? 0 : bytes;
}

static void put_text(FILE *out, const char *text) {
  fputc('"', out);
  for (const unsigned char *at = (const unsigned char *)text; *at != '\0';) {
    size_t bytes = sequence_bytes(at);
    if (bytes == 0) {
      fputs(REPLACEMENT, out);
    } else if (*at == '"' || *at == '\\') {
      fprintf(out, "\\%c", *at);
    } else if (*at < ' ') {
      fprintf(out, "\\u%04x", *at);
    } else {
      fwrite(at, 1, bytes, out);
    }
    at += bytes > 0 ? bytes : 1;
  }
  fputc('"', out);
}

/* ---- values ---------------------------------------------------------------------------------*/

static void put_line(const bench_json_t *json) {
  if (json->lines && json->depth > 0) fprintf(json->out, "\n%*s", json->depth, "");
}

static void begin_value(bench_json_t *json, const char *key) {
  if (json->has_values) fputc(',', json->out);
  put_line(json);
  json->has_values = true;
  if (key == NULL) return;
  put_text(json->out, key);
  fputs(json->lines ? ": " : ":", json->out);
}

void bench_json_open(bench_json_t *json, const char *key, char bracket) {
  begin_value(json, key);
  fputc(bracket, json->out);
  json->depth++;
  json->has_values = false;
}

void bench_json_close(bench_json_t *json, char bracket) {
  json->depth--;
  if (json->has_values && json->lines) fprintf(json->out, "\n%*s", json->depth, "");
  fputc(bracket, json->out);
  json->has_values = true;
}

void bench_json_text(bench_json_t *json, const char *key, const char *text) {
  if (text == NULL) {
    bench_json_null(json, key);
    return;
  }
  begin_value(json, key);
  put_text(json->out, text);
}

void bench_json_integer(bench_json_t *json, const char *key, int64_t value) {
  begin_value(json, key);
  fprintf(json->out, "%" PRId64, value);
}

void bench_json_real(bench_json_t *json, const char *key, double value) {
  char text[32];
  if (!isfinite(value)) {
    bench_json_null(json, key);
    return;
  }
  snprintf(text, sizeof text, "%.15g", value);
  if (strtod(text, NULL) != value) snprintf(text, sizeof text, "%.17g", value);
  begin_value(json, key);
  fputs(text, json->out);
  if (strpbrk(text, ".e") == NULL) fputs(".0", json->out); /* or readers take it for an integer */
}

void bench_json_bool(bench_json_t *json, const char *key, bool value) {
  begin_value(json, key);
  fputs(value ? "true" : "false", json->out);
}

void bench_json_null(bench_json_t *json, const char *key) {
  begin_value(json, key);
  fputs("null", json->out);
}
