/* The document stays in memory (jansson) until the end of the run and is written then. */
#include "bench/json_output.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/processor.h"
#include "base/status.h"

struct bench_json_output {
  FILE *file;
  const char *path;
  json_t *document, *rows;
};

static json_t *describe_machine(void) {
  struct utsname host;
  char processor[128];
  bool known = uname(&host) == 0;
  base_processor_name(processor, sizeof processor);
  return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I}", "host", known ? host.nodename : "",
                   "system", known ? host.release : "", "architecture", known ? host.machine : "",
                   "processor", processor, "processors", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN),
                   "l2_bytes", (json_int_t)sysconf(_SC_LEVEL2_CACHE_SIZE), "l3_bytes",
                   (json_int_t)sysconf(_SC_LEVEL3_CACHE_SIZE), "memory_bytes",
                   (json_int_t)sysconf(_SC_PHYS_PAGES) * (json_int_t)sysconf(_SC_PAGESIZE));
}

static json_t *describe_settings(const bench_settings_t *settings, int ranks) {
  json_t *knobs = json_array();
  const char *line;
  for (int i = 0; (line = coll_knob(i)) != NULL; i++)
    json_array_append_new(knobs, json_string(line));
  return json_pack("{s:i, s:s, s:i, s:i, s:i, s:i, s:I, s:s, s:b, s:s?, s:o}", "ranks", ranks,
                   "ranks_are", settings->threads > 0 ? "threads" : "processes", "iterations",
                   settings->iterations, "warmups", settings->warmups, "time_ms", settings->time_ms,
                   "checks", settings->checks, "misaligned_elements",
                   (json_int_t)settings->misalign, "memory",
                   settings->coll_memory ? "coll" : "malloc", "stream", settings->stream, "algo",
                   settings->algo, "knobs", knobs);
}

static json_t *describe_moment(void) {
  char text[32];
  time_t now = time(NULL);
  struct tm utc;
  gmtime_r(&now, &utc);
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return json_string(text);
}

static json_t *start_document(const bench_settings_t *settings, int ranks) {
  char version[32];
  int major, minor, patch;
  coll_version(&major, &minor, &patch);
  snprintf(version, sizeof version, "%d.%d.%d", major, minor, patch);
  return json_pack("{s:s, s:s, s:o, s:o, s:o, s:[]}", "tool", "collbench", "libcoll", version,
                   "began", describe_moment(), "machine", describe_machine(), "settings",
                   describe_settings(settings, ranks), "rows");
}

coll_status_t bench_json_output_begin(const char *path, const bench_settings_t *settings, int ranks,
                                      bench_json_output_t **output) {
  void *memory;
  COLL_TRY(base_alloc(1, sizeof(bench_json_output_t), "the JSON file", &memory));
  bench_json_output_t *begun = memory;
  begun->path = path;
  begun->file = fopen(path, "we");
  if (begun->file == NULL) {
    free(begun);
    return base_fail_errno(COLL_ERROR_SYSTEM, "--json %s: cannot write this file", path);
  }
  begun->document = start_document(settings, ranks);
  if (begun->document == NULL) {
    bench_json_output_abandon(begun);
    return base_fail(COLL_ERROR_MEMORY, "out of memory for the JSON file");
  }
  begun->rows = json_object_get(begun->document, "rows");
  *output = begun;
  return COLL_OK;
}

static json_t *describe_result(const bench_row_t *row, const bench_result_t *result, int ranks) {
  if (!result->ran) return json_null();
  return json_pack("{s:f, s:f, s:f, s:f, s:f, s:I, s:s}", "time_us", result->time_us, "least_us",
                   result->min_us, "most_us", result->max_us, "algbw_gb_s",
                   bench_result_algbw(row, result), "busbw_gb_s",
                   bench_result_busbw(row, result, ranks), "wrong", (json_int_t)result->wrong,
                   "algo", result->algo);
}

void bench_json_output_row(bench_json_output_t *output, const bench_row_t *row,
                           const bench_result_t *out_of_place, const bench_result_t *in_place,
                           int ranks) {
  json_t *root = row->root == BENCH_NO_ROOT ? json_null() : json_integer(row->root);
  json_t *described = json_pack(
      "{s:s, s:s?, s:s, s:s, s:o, s:I, s:I, s:o, s:o}", "collective",
      coll_collective_name(row->collective), "algo_asked", row->algo, "dtype",
      coll_dtype_name(row->dtype), "op", bench_op_name(row->op), "root", root, "bytes",
      (json_int_t)row->bytes, "count", (json_int_t)row->count, "out_of_place",
      describe_result(row, out_of_place, ranks), "in_place", describe_result(row, in_place, ranks));
  json_array_append_new(output->rows, described);
}

coll_status_t bench_json_output_end(bench_json_output_t *output, uint64_t wrong,
                                    double mean_busbw) {
  json_object_set_new(output->document, "wrong", json_integer((json_int_t)wrong));
  json_object_set_new(output->document, "mean_busbw_gb_s", json_real(mean_busbw));
  bool written = json_dumpf(output->document, output->file, JSON_INDENT(1)) == 0 &&
                 fputc('\n', output->file) != EOF;
  written = fclose(output->file) == 0 && written;
  output->file = NULL;
  coll_status_t status = COLL_OK;
  if (!written) {
    status = base_fail_errno(COLL_ERROR_SYSTEM, "--json %s: cannot write all of it", output->path);
  }
  bench_json_output_abandon(output);
  return status;
}

void bench_json_output_abandon(bench_json_output_t *output) {
  if (output->file != NULL) fclose(output->file);
  json_decref(output->document);
  free(output);
}
