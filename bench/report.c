/* The columns are those of nccl-tests, so that scripts for its output can read this table too. */
#include "bench/report.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/status.h"
#include "base/tool.h"
#include "bench/collectives.h"

#define PROGRESS_ROWS_MIN 20
#define ALGO_WIDTH 22

/* Lost standard output is said at once: the rest of the run may take long. */
static void flush(const bench_report_t *report) {
  if (report->out == stdout)
    (void)base_tool_flush();
  else
    (void)fflush(report->out);
}

static void print_settings(const bench_report_t *report) {
  const bench_settings_t *settings = report->settings;
  int major, minor, patch;
  coll_version(&major, &minor, &patch);
  fprintf(report->out,
          "# collbench, libcoll %d.%d.%d: %d rank%s as %s, %d warm-up and %d timed "
          "calls%s, %d checked, buffers from %s%s%s",
          major, minor, patch, report->ranks, report->ranks == 1 ? "" : "s",
          settings->threads > 0 ? "threads" : "processes", settings->warmups, settings->iterations,
          settings->time_ms > 0 ? " or fewer" : "", settings->checks,
          bench_memory_function(settings->memory), settings->registered ? ", registered" : "",
          settings->stream ? ", on a host stream" : "");
  if (settings->launches > 0) {
    fprintf(report->out, ", captured in a graph that is launched %d times", settings->launches);
  }
  if (settings->any_order) {
    fprintf(report->out, "\n# %s reduces in any order: ranks may hold different bits",
            settings->plan);
  }
  fputc('\n', report->out);
}

static void print_head_line(const bench_report_t *report, const char *const left[5],
                            const char *algo, const char *const right[4]) {
  fprintf(report->out, "# %11s %12s %11s %9s %5s", left[0], left[1], left[2], left[3], left[4]);
  if (report->settings->algo != NULL) fprintf(report->out, " %*s", ALGO_WIDTH, algo);
  for (int i = 0; i < 2; i++) {
    fprintf(report->out, "  %9s %7s %7s %6s", right[0], right[1], right[2], right[3]);
  }
  fputc('\n', report->out);
}

static void print_table_head(const bench_report_t *report, coll_collective_t collective) {
  static const char *const names[] = {"size", "count", "type", "redop", "root"};
  static const char *const units[] = {"(B)", "(elements)", "", "", ""};
  static const char *const figures[] = {"time", "algbw", "busbw", "#wrong"};
  static const char *const figure_units[] = {"(us)", "(GB/s)", "(GB/s)", ""};
  int indent = report->settings->algo != NULL ? 54 + ALGO_WIDTH : 53;
  fprintf(report->out, "#\n# %-*s  %19s %13s  %17s\n", indent - 1, coll_collective_name(collective),
          "out of place", "", "in place");
  print_head_line(report, names, "algo", figures);
  print_head_line(report, units, "", figure_units);
}

static void print_brief_head(const bench_report_t *report) {
  fprintf(report->out, "#\n# %-14s %-*s %7s %8s %12s %12s\n", "collective", ALGO_WIDTH, "algo",
          "rows", "#wrong", "mean busbw", "best busbw");
  fprintf(report->out, "# %-14s %-*s %7s %8s %12s %12s\n", "", ALGO_WIDTH, "", "", "", "(GB/s)",
          "(GB/s)");
}

coll_status_t bench_report_begin(const bench_settings_t *settings, const bench_rows_t *rows,
                                 int ranks, FILE *out, bench_report_t *report) {
  bench_report_t begun = {
      .settings = settings, .ranks = ranks, .row_count = rows->count, .out = out};
  if (settings->json != NULL) {
    COLL_TRY(bench_json_output_begin(settings->json, settings, ranks, &begun.output));
  }
  print_settings(&begun);
  if (settings->brief) print_brief_head(&begun);
  if (rows->count >= PROGRESS_ROWS_MIN) {
    base_progress_begin(&begun.progress, "collbench", (double)rows->count);
    begun.shows_progress = begun.progress.terminal;
  }
  *report = begun;
  return COLL_OK;
}

/* Prints a time with a few significant digits in at most 9 columns. */
static void print_time(FILE *out, double time_us) {
  if (time_us <= 0) {
    fprintf(out, "  %9s", "-");
  } else {
    fprintf(out, "  %9.*f", time_us < 100 ? 2 : time_us < 10000 ? 1 : 0, time_us);
  }
}

static void print_bandwidth(FILE *out, const bench_result_t *result, double gigabytes_s) {
  if (result->time_us <= 0) {
    fprintf(out, " %7s", "-");
  } else {
    fprintf(out, " %7.*f", gigabytes_s < 100 ? 2 : 1, gigabytes_s);
  }
}

static void print_result(const bench_report_t *report, const bench_row_t *row,
                         const bench_result_t *result) {
  if (!result->ran) {
    fprintf(report->out, "  %9s %7s %7s %6s", "-", "-", "-", "N/A");
    return;
  }
  print_time(report->out, result->time_us);
  print_bandwidth(report->out, result, bench_result_algbw(row, result));
  print_bandwidth(report->out, result, bench_result_busbw(row, result, report->ranks));
  if (report->settings->checks > 0) {
    fprintf(report->out, " %6" PRIu64, result->wrong);
  } else {
    fprintf(report->out, " %6s", "N/A");
  }
}

/* The algorithm that ran, with a star if it is not the requested one. */
static void algo_text(const bench_row_t *row, const bench_result_t *result,
                      char text[BENCH_ALGO_BYTES + 1]) {
  const char *name = result->algo[0] != '\0' ? result->algo : "-";
  snprintf(text, BENCH_ALGO_BYTES + 1, "%s%s", name,
           bench_result_fell_back(row, result) ? "*" : "");
}

static void print_moment(FILE *out) {
  char text[32];
  time_t now = time(NULL);
  struct tm local;
  localtime_r(&now, &local);
  strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  fprintf(out, "  %s", text);
}

static void print_row(bench_report_t *report, const bench_row_t *row,
                      const bench_result_t *out_of_place, const bench_result_t *in_place) {
  const bench_result_t *shown = out_of_place->ran ? out_of_place : in_place;
  bool first = report->all.rows == 0 || row->collective != report->last.collective;
  if (first) print_table_head(report, row->collective);
  char root[16] = "-", algo[BENCH_ALGO_BYTES + 1];
  if (row->root != BENCH_NO_ROOT) snprintf(root, sizeof root, "%d", row->root);
  fprintf(report->out, "  %11zu %12zu %11s %9s %5s", row->bytes, row->count,
          coll_dtype_name(row->dtype), bench_op_name(row->op), root);
  if (report->settings->algo != NULL) {
    algo_text(row, shown, algo);
    fprintf(report->out, " %*s", ALGO_WIDTH, algo);
  }
  print_result(report, row, out_of_place);
  print_result(report, row, in_place);
  if (report->settings->timestamps) print_moment(report->out);
  fputc('\n', report->out);
  flush(report);
}

static void count_result(bench_tally_t *tally, const bench_row_t *row, const bench_result_t *result,
                         int ranks) {
  if (!result->ran) return;
  tally->wrong += result->wrong;
  if (result->time_us <= 0 || row->bytes == 0) return;
  double busbw = bench_result_busbw(row, result, ranks);
  tally->busbw_sum += busbw;
  tally->busbw_count++;
  if (busbw > tally->busbw_best) tally->busbw_best = busbw;
}

static double mean_busbw(const bench_tally_t *tally) {
  return tally->busbw_count > 0 ? tally->busbw_sum / (double)tally->busbw_count : 0;
}

static void end_part(bench_report_t *report) {
  if (report->part.rows == 0) return;
  const char *algo = report->last.algo != NULL ? report->last.algo : "(chosen)";
  if (report->shows_progress) fputs("\r\x1b[K", stderr);
  fprintf(report->out, "  %-14s %-*s %7zu %8" PRIu64, coll_collective_name(report->last.collective),
          ALGO_WIDTH, algo, report->part.rows, report->part.wrong);
  if (report->part.busbw_count > 0) {
    fprintf(report->out, " %12.2f %12.2f\n", mean_busbw(&report->part), report->part.busbw_best);
  } else {
    fprintf(report->out, " %12s %12s\n", "-", "-");
  }
  flush(report);
  report->part = (bench_tally_t){0};
}

void bench_report_row(bench_report_t *report, const bench_row_t *row,
                      const bench_result_t *out_of_place, const bench_result_t *in_place) {
  if (report->settings->brief) {
    bool same = row->collective == report->last.collective && row->algo == report->last.algo;
    if (!same) end_part(report);
  } else {
    if (report->shows_progress) fputs("\r\x1b[K", stderr);
    print_row(report, row, out_of_place, in_place);
  }
  bench_tally_t *const tallies[] = {&report->all, &report->part};
  for (int i = 0; i < 2; i++) {
    tallies[i]->rows++;
    count_result(tallies[i], row, out_of_place, report->ranks);
    count_result(tallies[i], row, in_place, report->ranks);
  }
  if (bench_result_fell_back(row, out_of_place) || bench_result_fell_back(row, in_place)) {
    report->fell_back = true;
  }
  report->last = *row;
  if (report->output != NULL) {
    bench_json_output_row(report->output, row, out_of_place, in_place, report->ranks);
  }
  if (report->shows_progress) {
    base_progress_update(&report->progress, (double)report->all.rows,
                         coll_collective_name(row->collective));
  }
}

coll_status_t bench_report_end(bench_report_t *report) {
  if (report->settings->brief) end_part(report);
  if (report->shows_progress) fputs("\r\x1b[K", stderr);
  fputs("#\n", report->out);
  if (report->fell_back && !report->settings->brief) {
    fputs("# * the requested algorithm does not support the call; this one ran instead\n",
          report->out);
  }
  if (report->settings->checks > 0) {
    fprintf(report->out, "# Wrong elements    : %" PRIu64 " %s\n", report->all.wrong,
            report->all.wrong == 0 ? "OK" : "FAILED");
  } else {
    fputs("# Wrong elements    : not checked\n", report->out);
  }
  if (report->all.busbw_count > 0) {
    fprintf(report->out, "# Mean bus bandwidth: %.4g GB/s\n", mean_busbw(&report->all));
  } else {
    fputs("# Mean bus bandwidth: not timed\n", report->out);
  }
  flush(report);
  coll_status_t status = COLL_OK;
  if (report->output != NULL) {
    status = bench_json_output_end(report->output, report->all.wrong, mean_busbw(&report->all));
  }
  *report = (bench_report_t){0};
  return status;
}

void bench_report_abandon(bench_report_t *report) {
  if (report->shows_progress) fputs("\r\x1b[K", stderr);
  if (report->output != NULL) bench_json_output_abandon(report->output);
  *report = (bench_report_t){0};
}
