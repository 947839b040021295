/* The document stays in memory until the end of the run and is written then. */
#include "bench/json_output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/processor.h"
#include "base/status.h"
#include "bench/json_writer.h"

struct bench_json_output {
  FILE *file;
  const char *path;
  char *text; /* of the document, which json writes */
  size_t bytes;
  bench_json_t json;
};

static void describe_machine(bench_json_t *json) {
  struct utsname host;
  char processor[128];
  bool known = uname(&host) == 0;
  base_processor_name(processor, sizeof processor);
  bench_json_open(json, "machine", '{');
  bench_json_text(json, "host", known ? host.nodename : "");
  bench_json_text(json, "system", known ? host.release : "");
  bench_json_text(json, "architecture", known ? host.machine : "");
  bench_json_text(json, "processor", processor);
  bench_json_integer(json, "processors", sysconf(_SC_NPROCESSORS_ONLN));
  bench_json_integer(json, "l2_bytes", sysconf(_SC_LEVEL2_CACHE_SIZE));
  bench_json_integer(json, "l3_bytes", sysconf(_SC_LEVEL3_CACHE_SIZE));
  bench_json_integer(json, "memory_bytes", sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
  bench_json_close(json, '}');
}

static void describe_settings(bench_json_t *json, const bench_settings_t *settings, int ranks) {
  coll_knob_t knob = COLL_KNOB_INIT;
  bench_json_open(json, "settings", '{');
  bench_json_integer(json, "ranks", ranks);
  bench_json_text(json, "ranks_are", settings->threads > 0 ? "threads" : "processes");
  bench_json_integer(json, "iterations", settings->iterations);
  bench_json_integer(json, "warmups", settings->warmups);
  bench_json_integer(json, "time_ms", settings->time_ms);
  bench_json_integer(json, "checks", settings->checks);
  bench_json_integer(json, "misaligned_elements", (int64_t)settings->misalign);
  bench_json_text(json, "memory", bench_memory_name(settings->memory));
  bench_json_bool(json, "stream", settings->stream);
  bench_json_bool(json, "registered", settings->registered);
  bench_json_integer(json, "graph_launches", settings->launches);
  bench_json_text(json, "algo", settings->algo);
  bench_json_text(json, "plan", settings->plan);
  bench_json_bool(json, "ranks_may_hold_different_bits", settings->any_order);
  bench_json_open(json, "knobs", '{');
  for (int i = 0; coll_knob_get(i, &knob) == COLL_OK; i++) {
    bench_json_text(json, knob.name, knob.value);
  }
  bench_json_close(json, '}');
  bench_json_close(json, '}');
}

static void describe_moment(bench_json_t *json) {
  char text[32];
  time_t now = time(NULL);
  struct tm utc;
  gmtime_r(&now, &utc);
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  bench_json_text(json, "began", text);
}

static void start_document(bench_json_t *json, const bench_settings_t *settings, int ranks) {
  char version[32];
  int major, minor, patch;
  coll_version(&major, &minor, &patch);
  snprintf(version, sizeof version, "%d.%d.%d", major, minor, patch);
  bench_json_open(json, NULL, '{');
  bench_json_text(json, "tool", "collbench");
  bench_json_text(json, "libcoll", version);
  describe_moment(json);
  describe_machine(json);
  describe_settings(json, settings, ranks);
  bench_json_open(json, "rows", '[');
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
  begun->json = (bench_json_t){.out = open_memstream(&begun->text, &begun->bytes), .lines = true};
  if (begun->json.out == NULL) {
    bench_json_output_abandon(begun);
    return base_fail(COLL_ERROR_MEMORY, "out of memory for the JSON file");
  }
  start_document(&begun->json, settings, ranks);
  *output = begun;
  return COLL_OK;
}

static void describe_result(bench_json_t *json, const char *key, const bench_row_t *row,
                            const bench_result_t *result, int ranks) {
  if (!result->ran) {
    bench_json_null(json, key);
    return;
  }
  bench_json_open(json, key, '{');
  bench_json_real(json, "time_us", result->time_us);
  bench_json_real(json, "least_us", result->min_us);
  bench_json_real(json, "most_us", result->max_us);
  bench_json_real(json, "algbw_gb_s", bench_result_algbw(row, result));
  bench_json_real(json, "busbw_gb_s", bench_result_busbw(row, result, ranks));
  bench_json_integer(json, "wrong", (int64_t)result->wrong);
  bench_json_text(json, "algo", result->algo);
  bench_json_close(json, '}');
}

void bench_json_output_row(bench_json_output_t *output, const bench_row_t *row,
                           const bench_result_t *out_of_place, const bench_result_t *in_place,
                           int ranks) {
  bench_json_t *json = &output->json;
  bench_json_open(json, NULL, '{');
  bench_json_text(json, "collective", coll_collective_name(row->collective));
  bench_json_text(json, "algo_asked", row->algo);
  bench_json_text(json, "dtype", coll_dtype_name(row->dtype));
  bench_json_text(json, "op", bench_op_name(row->op));
  if (row->root == BENCH_NO_ROOT) {
    bench_json_null(json, "root");
  } else {
    bench_json_integer(json, "root", row->root);
  }
  bench_json_integer(json, "bytes", (int64_t)row->bytes);
  bench_json_integer(json, "count", (int64_t)row->count);
  describe_result(json, "out_of_place", row, out_of_place, ranks);
  describe_result(json, "in_place", row, in_place, ranks);
  bench_json_close(json, '}');
}

static bool end_document(bench_json_output_t *output) {
  bench_json_t *json = &output->json;
  bool written = !ferror(json->out) && fputc('\n', json->out) != EOF;
  written = fclose(json->out) == 0 && written;
  json->out = NULL;
  return written && fwrite(output->text, 1, output->bytes, output->file) == output->bytes;
}

coll_status_t bench_json_output_end(bench_json_output_t *output, uint64_t wrong,
                                    double mean_busbw) {
  bench_json_close(&output->json, ']');
  bench_json_integer(&output->json, "wrong", (int64_t)wrong);
  bench_json_real(&output->json, "mean_busbw_gb_s", mean_busbw);
  bench_json_close(&output->json, '}');
  bool written = end_document(output);
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
  if (output->json.out != NULL) fclose(output->json.out);
  free(output->text);
  free(output);
}
