/* Asks the library for its estimate of every algorithm (coll_comm_estimate). Prints the chosen one
 * first, then the others in order of time. */
#include "bench/explain.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/status.h"
#include "bench/collectives.h"

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
    COLL_TRY(
        bench_take_error(comm, coll_comm_estimate(comm, row->collective, row->count, row->dtype,
                                                  settings->coll_memory, i, estimate)));
  }
  qsort(explained->estimates, (size_t)explained->count, sizeof explained->estimates[0], compare);
  return COLL_OK;
}

/* ---- the table ------------------------------------------------------------------------------*/

static void print_head(const bench_settings_t *settings, const bench_row_t *row, int ranks,
                       FILE *out) {
  fprintf(out, "#\n# %s among %d rank%s, buffers from %s: expected times in us\n",
          coll_collective_name(row->collective), ranks, ranks == 1 ? "" : "s",
          settings->coll_memory ? "coll_mem_alloc" : "malloc");
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
  if (estimate->ruled_out != NULL) {
    fprintf(out, "  %-22s %10s   %s\n", estimate->algo, "-", estimate->ruled_out);
    return;
  }
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

static void print_row(const bench_row_t *row, const explained_t *explained, FILE *out) {
  for (int i = 0; i < explained->count; i++) {
    if (i == 0) {
      fprintf(out, "  %11zu %12s ", row->bytes, coll_dtype_name(row->dtype));
    } else {
      fprintf(out, "  %11s %12s ", "", "");
    }
    print_estimate(&explained->estimates[i], out);
  }
}

/* ---- the file -------------------------------------------------------------------------------*/

static json_t *describe(const coll_estimate_t *estimate) {
  json_t *terms = json_object();
  for (int i = 0; i < COLL_ESTIMATE_TERMS; i++) {
    json_object_set_new(terms, coll_estimate_term(i), json_real(estimate->term_us[i]));
  }
  return json_pack("{s:s, s:s?, s:b, s:f, s:o, s:s, s:f, s:f}", "algo", estimate->algo, "ruled_out",
                   estimate->ruled_out, "chosen", estimate->chosen, "time_us", estimate->time_us,
                   "terms_us", terms, "link", estimate->link, "link_bytes", estimate->link_bytes,
                   "link_busy_us", estimate->link_busy_us);
}

static json_t *describe_row(const bench_row_t *row, const explained_t *explained) {
  json_t *algos = json_array();
  for (int i = 0; i < explained->count; i++) {
    json_array_append_new(algos, describe(&explained->estimates[i]));
  }
  return json_pack("{s:s, s:s, s:I, s:I, s:o}", "collective", coll_collective_name(row->collective),
                   "dtype", coll_dtype_name(row->dtype), "bytes", (json_int_t)row->bytes, "count",
                   (json_int_t)row->count, "algorithms", algos);
}

static coll_status_t write_file(const bench_settings_t *settings, int ranks, json_t *rows) {
  json_t *document =
      json_pack("{s:s, s:i, s:s, s:O}", "tool", "collbench --explain", "ranks", ranks, "memory",
                settings->coll_memory ? "coll" : "malloc", "rows", rows);
  bool written = document != NULL && json_dump_file(document, settings->json, JSON_INDENT(1)) == 0;
  json_decref(document);
  if (written) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "--json %s: cannot write this file", settings->json);
}

/* ---- public ---------------------------------------------------------------------------------*/

static coll_status_t explain_rows(const bench_settings_t *settings, const bench_rows_t *rows,
                                  coll_comm_t comm, int ranks, json_t *described, FILE *out) {
  for (size_t i = 0; i < rows->count; i++) {
    const bench_row_t *row = &rows->rows[i];
    explained_t explained;
    COLL_TRY(estimate_all(settings, row, comm, &explained));
    if (i == 0 || row->collective != row[-1].collective) print_head(settings, row, ranks, out);
    print_row(row, &explained, out);
    json_array_append_new(described, describe_row(row, &explained));
  }
  fputs("#\n# * the algorithm that the library chooses\n", out);
  return COLL_OK;
}

coll_status_t bench_explain(const bench_settings_t *settings, const bench_rows_t *rows,
                            coll_comm_t comm, FILE *out) {
  int rank, ranks;
  COLL_TRY(bench_take_error(comm, coll_comm_rank(comm, &rank)));
  COLL_TRY(bench_take_error(comm, coll_comm_size(comm, &ranks)));
  if (rank != 0) return COLL_OK;
  json_t *described = json_array();
  coll_status_t status = explain_rows(settings, rows, comm, ranks, described, out);
  if (status == COLL_OK && settings->json != NULL) status = write_file(settings, ranks, described);
  json_decref(described);
  return status;
}
