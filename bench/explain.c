/* Asks the library for its estimate of every algorithm (coll_comm_estimate). Prints the chosen one
 * first, then the others in order of time. */
#include "bench/explain.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "bench/collectives.h"
#include "bench/json_writer.h"

#define ALGOS_MAX 64

typedef struct explained {
  coll_estimate_t estimates[ALGOS_MAX];
  int count;
} explained_t;

/* Order: the chosen algorithm, the others from fast to slow, those that are ruled out. */
static int compare(const void *left, const void *right) {
  const coll_estimate_t *a = left, *b = right;
  if ((a->ruled_out != NULL) != (b->ruled_out != NULL)) return a->ruled_out != NULL ? 1 : -1;
  if (a->chosen != b->chosen) return a->chosen ? -1 : 1;
  return (a->time_us > b->time_us) - (a->time_us < b->time_us);
}

static coll_status_t estimate_all(const bench_settings_t *settings, const bench_row_t *row,
                                  coll_comm_t comm, explained_t *explained) {
  explained->count = 0;
  for (int i = 0; i < ALGOS_MAX && coll_algo_name(row->collective, i) != NULL; i++) {
    coll_estimate_t *estimate = &explained->estimates[explained->count++];
    *estimate = (coll_estimate_t)COLL_ESTIMATE_INIT;
    COLL_TRY(
        bench_take_error(comm, coll_comm_estimate(comm, row->collective, row->count, row->dtype,
                                                  settings->memory == BENCH_COLL, i, estimate)));
  }
  qsort(explained->estimates, (size_t)explained->count, sizeof explained->estimates[0], compare);
  return COLL_OK;
}

/* ---- the table ------------------------------------------------------------------------------*/

static void print_head(const bench_settings_t *settings, const bench_row_t *row, int ranks,
                       const explained_t *explained, FILE *out) {
  fprintf(out, "#\n# %s among %d rank%s, buffers from %s: expected times in us\n",
          coll_collective_name(row->collective), ranks, ranks == 1 ? "" : "s",
          bench_memory_function(settings->memory));
  const char *network = explained->estimates[0].network;
  if (network[0] != '\0') fprintf(out, "# network: %s\n", network);
  fprintf(out, "# %11s %12s  %-22s %10s =", "size (B)", "type", "algorithm", "time");
  const char *term;
  for (int i = 0; (term = coll_estimate_term(i)) != NULL; i++) {
    fprintf(out, "%s%9s", i > 0 ? " +" : " ", term);
  }
  fputc('\n', out);
}

static void print_us(FILE *out, int width, double us) {
  int digits = us < 10 ? 3 : us < 1000 ? 1 : 0;
  if (us > 0) {
    fprintf(out, "%*.*f", width, digits, us);
  } else {
    fprintf(out, "%*s", width, "-");
  }
}

static void print_estimate(const coll_estimate_t *estimate, FILE *out) {
  fprintf(out, "%s %-22s ", estimate->chosen ? "*" : " ", estimate->algo);
  print_us(out, 10, estimate->time_us);
  fputs("  ", out);
  for (int i = 0; i < COLL_ESTIMATE_TERMS; i++) {
    fputs(i > 0 ? "  " : " ", out);
    print_us(out, 9, estimate->term_us[i]);
  }
  if (estimate->link[0] != '\0') {
    fprintf(out, "  %s busy %.0f %%", estimate->link,
            100 * estimate->link_busy_us / estimate->time_us);
  }
  fputc('\n', out);
}

/* The columns before the algorithm's. */
static void print_indent(FILE *out) {
  fprintf(out, "  %11s %12s ", "", "");
}

/* A line for each reason, with the algorithms that it rules out. They are the last ones. */
static void print_ruled_out(const explained_t *explained, int first, FILE *out) {
  const char *said[ALGOS_MAX];
  int reasons = 0;
  for (int i = first; i < explained->count; i++) {
    const char *reason = explained->estimates[i].ruled_out;
    bool is_said = false;
    for (int k = 0; k < reasons; k++) is_said = is_said || strcmp(said[k], reason) == 0;
    if (is_said) continue;
    said[reasons++] = reason;
    print_indent(out);
    fprintf(out, "  %s:", reason);
    for (int k = i; k < explained->count; k++) {
      const coll_estimate_t *estimate = &explained->estimates[k];
      if (strcmp(estimate->ruled_out, reason) == 0) fprintf(out, " %s", estimate->algo);
    }
    fputc('\n', out);
  }
}

static void print_row(const bench_row_t *row, const explained_t *explained, FILE *out) {
  int possible = 0;
  for (; possible < explained->count; possible++) {
    const coll_estimate_t *estimate = &explained->estimates[possible];
    if (estimate->ruled_out != NULL) break;
    if (possible == 0) {
      fprintf(out, "  %11zu %12s ", row->bytes, coll_dtype_name(row->dtype));
    } else {
      print_indent(out);
    }
    print_estimate(estimate, out);
  }
  print_ruled_out(explained, possible, out);
}

/* ---- the file -------------------------------------------------------------------------------*/

static void describe(bench_json_t *json, const coll_estimate_t *estimate) {
  bench_json_open(json, NULL, '{');
  bench_json_text(json, "algo", estimate->algo);
  bench_json_text(json, "ruled_out", estimate->ruled_out);
  bench_json_bool(json, "chosen", estimate->chosen);
  bench_json_real(json, "time_us", estimate->time_us);
  bench_json_open(json, "terms_us", '{');
  for (int i = 0; i < COLL_ESTIMATE_TERMS; i++) {
    bench_json_real(json, coll_estimate_term(i), estimate->term_us[i]);
  }
  bench_json_close(json, '}');
  bench_json_text(json, "link", estimate->link);
  bench_json_real(json, "link_bytes", estimate->link_bytes);
  bench_json_real(json, "link_busy_us", estimate->link_busy_us);
  bench_json_close(json, '}');
}

static void describe_row(bench_json_t *json, const bench_row_t *row, const explained_t *explained) {
  bench_json_open(json, NULL, '{');
  bench_json_text(json, "collective", coll_collective_name(row->collective));
  bench_json_text(json, "dtype", coll_dtype_name(row->dtype));
  bench_json_integer(json, "bytes", (int64_t)row->bytes);
  bench_json_integer(json, "count", (int64_t)row->count);
  bench_json_text(json, "network", explained->estimates[0].network);
  bench_json_open(json, "algorithms", '[');
  for (int i = 0; i < explained->count; i++) describe(json, &explained->estimates[i]);
  bench_json_close(json, ']');
  bench_json_close(json, '}');
}

static coll_status_t fail_file(const bench_settings_t *settings) {
  return base_fail_errno(COLL_ERROR_SYSTEM, "--json %s: cannot write this file", settings->json);
}

static coll_status_t begin_file(const bench_settings_t *settings, int ranks, bench_json_t *json) {
  *json = (bench_json_t){.lines = true};
  if (settings->json == NULL) return COLL_OK;
  json->out = fopen(settings->json, "we");
  if (json->out == NULL) return fail_file(settings);
  bench_json_open(json, NULL, '{');
  bench_json_text(json, "tool", "collbench --explain");
  bench_json_integer(json, "ranks", ranks);
  bench_json_text(json, "memory", bench_memory_name(settings->memory));
  bench_json_open(json, "rows", '[');
  return COLL_OK;
}

static coll_status_t end_file(const bench_settings_t *settings, bench_json_t *json) {
  if (json->out == NULL) return COLL_OK;
  bench_json_close(json, ']');
  bench_json_close(json, '}');
  bool written = fputc('\n', json->out) != EOF && !ferror(json->out);
  written = fclose(json->out) == 0 && written;
  return written ? COLL_OK : fail_file(settings);
}

/* ---- public ---------------------------------------------------------------------------------*/

/* json: without a stream, nothing is written to it. */
static coll_status_t explain_rows(const bench_settings_t *settings, const bench_rows_t *rows,
                                  coll_comm_t comm, int ranks, bench_json_t *json, FILE *out) {
  for (size_t i = 0; i < rows->count; i++) {
    const bench_row_t *row = &rows->rows[i];
    explained_t explained;
    COLL_TRY(estimate_all(settings, row, comm, &explained));
    if (i == 0 || row->collective != row[-1].collective) {
      print_head(settings, row, ranks, &explained, out);
    }
    print_row(row, &explained, out);
    if (json->out != NULL) describe_row(json, row, &explained);
  }
  fputs("#\n# * the algorithm that the library chooses\n", out);
  return COLL_OK;
}

coll_status_t bench_explain(const bench_settings_t *settings, const bench_rows_t *rows,
                            coll_comm_t comm, FILE *out) {
  int rank, ranks;
  bench_json_t json;
  COLL_TRY(bench_take_error(comm, coll_comm_rank(comm, &rank)));
  COLL_TRY(bench_take_error(comm, coll_comm_size(comm, &ranks)));
  if (rank != 0) return COLL_OK;
  COLL_TRY(begin_file(settings, ranks, &json));
  coll_status_t status = explain_rows(settings, rows, comm, ranks, &json, out);
  if (status == COLL_OK) return end_file(settings, &json);
  if (json.out != NULL) fclose(json.out);
  return status;
}
