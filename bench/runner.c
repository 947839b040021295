/* For each row and form (in place or out of place): lays out the buffers, times calls on many pairs
 * of them, checks the result of a call on one pair, and exchanges the reports of all ranks. The
 * exchange uses the library under test, so a rank that finds a wrong result also prints it. */
#include "bench/runner.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "bench/check.h"
#include "bench/numbers.h"
#include "bench/timing.h"

#define MISMATCH_REPORTS_MAX 20

/* The report of a rank about a row, which all ranks get. */
typedef struct rank_report {
  uint64_t wrong;
  int batches; /* the same on every rank */
  double batch_us[BENCH_BATCHES_MAX];
} rank_report_t;

/* A row in place or out of place. */
typedef struct form {
  const bench_row_t *row;
  bool in_place;
  bench_call_t call;
  bench_values_t values;
} form_t;

/* ---- buffers */

static size_t misalign_bytes(const bench_runner_t *runner, const bench_row_t *row) {
  return runner->settings->misalign * coll_dtype_bytes(row->dtype);
}

static int root_of(const bench_row_t *row) {
  return row->root == BENCH_NO_ROOT ? 0 : row->root;
}

static void describe(bench_runner_t *runner, const bench_row_t *row, bool in_place) {
  bench_buffer_layout_describe(row->collective, row->count, root_of(row), runner->rank,
                               runner->ranks, in_place, &runner->layout);
}

static bool has_form(const bench_runner_t *runner, const bench_row_t *row, bool in_place) {
  if (!in_place) return runner->settings->places[BENCH_OUT_OF_PLACE];
  return runner->settings->places[BENCH_IN_PLACE] && bench_collective_in_place(row->collective);
}

/* The number of buffer pairs: one for checks and for single calls, more for timing. */
static int pair_count_of(const bench_runner_t *runner, const bench_row_t *row) {
  size_t bytes = coll_dtype_bytes(row->dtype);
  if (runner->settings->iterations == 0 || runner->settings->together) return 1;
  return bench_buffer_pool_pairs(runner->layout.send_elements * bytes,
                                 runner->layout.recv_elements * bytes);
}

static coll_status_t make_pools(bench_runner_t *runner, const bench_rows_t *rows) {
  size_t send_bytes = 1, recv_bytes = 1;
  for (size_t i = 0; i < 2 * rows->count; i++) {
    const bench_row_t *row = &rows->rows[i / 2];
    bool in_place = i % 2 == 1;
    if (!has_form(runner, row, in_place)) continue;
    describe(runner, row, in_place);
    int buffers = pair_count_of(runner, row);
    size_t bytes = coll_dtype_bytes(row->dtype), late = misalign_bytes(runner, row);
    size_t send = bench_buffer_pool_bytes(runner->layout.send_elements * bytes, late, buffers);
    size_t recv = bench_buffer_pool_bytes(runner->layout.recv_elements * bytes, late, buffers);
    if (send > send_bytes) send_bytes = send;
    if (recv > recv_bytes) recv_bytes = recv;
  }
  COLL_TRY(bench_buffer_pool_make(send_bytes, runner->settings->coll_memory, &runner->send));
  return bench_buffer_pool_make(recv_bytes, runner->settings->coll_memory, &runner->recv);
}

coll_status_t bench_runner_make(const bench_settings_t *settings, const bench_rows_t *rows,
                                coll_comm_t comm, bench_runner_t *runner) {
  bench_runner_t made = {.settings = settings, .comm = comm};
  coll_status_t status = bench_take_error(comm, coll_comm_rank(comm, &made.rank));
  if (status == COLL_OK) status = bench_take_error(comm, coll_comm_size(comm, &made.ranks));
  if (status == COLL_OK) status = bench_buffer_layout_make(made.ranks, &made.layout);
  if (status == COLL_OK) status = bench_vectors_make(made.ranks, &made.vectors);
  if (status == COLL_OK) status = bench_check_scratch(&made.scratch);
  if (status == COLL_OK) {
    status =
        base_alloc((size_t)made.ranks, sizeof(rank_report_t), "the ranks' reports", &made.reports);
  }
  if (status == COLL_OK) status = make_pools(&made, rows);
  if (status == COLL_OK && settings->stream) {
    status = bench_take_error(NULL, coll_stream_create(&made.stream));
  }
  if (status != COLL_OK) {
    bench_runner_free(&made);
    return status;
  }
  *runner = made;
  return COLL_OK;
}

void bench_runner_free(bench_runner_t *runner) {
  if (runner->stream != NULL) (void)coll_stream_destroy(runner->stream);
  bench_buffer_pool_free(&runner->send);
  bench_buffer_pool_free(&runner->recv);
  bench_buffer_layout_free(&runner->layout);
  bench_vectors_free(&runner->vectors);
  free(runner->scratch);
  free(runner->reports);
  *runner = (bench_runner_t){0};
}

static bench_buffer_t buffer_of(const bench_runner_t *runner, const form_t *form,
                                const bench_buffer_pool_t *pool, int index) {
  return (bench_buffer_t){.region = bench_buffer_pool_region(pool, index),
                          .region_bytes = pool->stride,
                          .data_offset = BENCH_GUARD_BYTES + misalign_bytes(runner, form->row)};
}

static void fill(bench_runner_t *runner, const form_t *form, int index) {
  bench_buffer_t send = buffer_of(runner, form, &runner->send, index);
  bench_buffer_t recv = buffer_of(runner, form, &runner->recv, index);
  bench_check_fill(&form->values, &runner->layout.send, &send, runner->scratch);
  bench_check_fill(&form->values, &runner->layout.recv_before, &recv, runner->scratch);
}

static bench_buffer_pair_t pair_of(const bench_runner_t *runner, const form_t *form, int index) {
  size_t bytes = coll_dtype_bytes(form->row->dtype);
  const bench_buffer_pool_t *from = form->in_place ? &runner->recv : &runner->send;
  bench_buffer_t send = buffer_of(runner, form, from, index);
  bench_buffer_t recv = buffer_of(runner, form, &runner->recv, index);
  return (bench_buffer_pair_t){
      .send = send.region + send.data_offset + runner->layout.send_at * bytes,
      .recv = recv.region + recv.data_offset + runner->layout.recv_at * bytes};
}

static coll_status_t sync_stream(bench_runner_t *runner) {
  if (runner->stream == NULL) return COLL_OK;
  return bench_take_error(runner->comm, coll_stream_sync(runner->stream));
}

/* ---- time */

/* The context of the timed calls. */
typedef struct timed_form {
  bench_runner_t *runner;
  const bench_call_t *call;
  bench_buffer_pair_t pairs[BENCH_PAIRS_MAX];
} timed_form_t;

static coll_status_t timed_call(void *context, int pair) {
  const timed_form_t *timed = context;
  return bench_call_make(timed->call, timed->pairs[pair].send, timed->pairs[pair].recv);
}

static coll_status_t timed_complete(void *context) {
  return sync_stream(((const timed_form_t *)context)->runner);
}

static coll_status_t timed_barrier(void *context) {
  bench_runner_t *runner = ((const timed_form_t *)context)->runner;
  return bench_take_error(runner->comm, coll_barrier(runner->comm, NULL));
}

static coll_status_t timed_max(void *context, double *value) {
  bench_runner_t *runner = ((const timed_form_t *)context)->runner;
  return bench_take_error(
      runner->comm, coll_allreduce(value, value, 1, COLL_FLOAT64, COLL_MAX, runner->comm, NULL));
}

static coll_status_t time_form(bench_runner_t *runner, const form_t *form, rank_report_t *report) {
  const bench_settings_t *settings = runner->settings;
  const bench_timing_options_t options = {settings->warmups, settings->iterations,
                                          settings->time_ms, settings->together};
  timed_form_t context = {.runner = runner, .call = &form->call};
  const bench_timed_calls_t timed = {.context = &context,
                                     .call = timed_call,
                                     .complete = timed_complete,
                                     .barrier = timed_barrier,
                                     .max = timed_max,
                                     .pair_count = pair_count_of(runner, form->row)};
  for (int i = 0; i < timed.pair_count; i++) {
    fill(runner, form, i);
    context.pairs[i] = pair_of(runner, form, i);
  }
  return bench_timing_run(&timed, &options, report->batch_us, &report->batches);
}

/* ---- correctness */

static void report_mismatch(bench_runner_t *runner, const form_t *form, const char *where,
                            const bench_mismatch_t *mismatch) {
  const bench_row_t *row = form->row;
  if (++runner->mismatch_reports > MISMATCH_REPORTS_MAX) return;
  fprintf(stderr, "collbench: rank %d: wrong: %s%s%s %s %s of %zu elements", runner->rank,
          coll_collective_name(row->collective), row->algo != NULL ? " " : "",
          row->algo != NULL ? row->algo : "", coll_dtype_name(row->dtype), bench_op_name(row->op),
          row->count);
  if (row->root != BENCH_NO_ROOT) fprintf(stderr, ", root %d", row->root);
  fprintf(stderr, ", %s, %s buffer:", form->in_place ? "in place" : "out of place", where);
  if (mismatch->elements > 0) {
    char got[48], expected[48];
    fprintf(stderr, " element %zu is %s, not %s (%" PRIu64 " wrong)", mismatch->at,
            bench_element_text(row->dtype, mismatch->got, got),
            bench_element_text(row->dtype, mismatch->expected, expected), mismatch->elements);
  }
  if (mismatch->stray_bytes > 0) {
    fprintf(stderr,
            " byte %" PRId64 " is outside the result and was overwritten (%" PRIu64 " such bytes)",
            mismatch->stray_offset, mismatch->stray_bytes);
  }
  fprintf(stderr, "%s\n",
          runner->mismatch_reports == MISMATCH_REPORTS_MAX
              ? "; further wrong results are only counted"
              : "");
}

static uint64_t check_buffer(bench_runner_t *runner, const form_t *form, const char *where,
                             const bench_buffer_pool_t *pool, const bench_contents_t *contents) {
  bench_mismatch_t mismatch = {0};
  bench_buffer_t buffer = buffer_of(runner, form, pool, 0);
  bench_check_compare(&form->values, contents, &buffer, runner->scratch, &mismatch);
  uint64_t wrong = mismatch.elements + mismatch.stray_bytes;
  if (wrong > 0) report_mismatch(runner, form, where, &mismatch);
  return wrong;
}

static coll_status_t check_form(bench_runner_t *runner, form_t *form, uint64_t *wrong) {
  uint64_t found = 0;
  for (int i = 0; i < runner->settings->checks; i++) {
    form->values.seed = (uint64_t)i + 1;
    fill(runner, form, 0);
    bench_buffer_pair_t pair = pair_of(runner, form, 0);
    COLL_TRY(bench_call_make(&form->call, pair.send, pair.recv));
    COLL_TRY(sync_stream(runner));
    found += check_buffer(runner, form, "receive", &runner->recv, &runner->layout.recv_after);
    found += check_buffer(runner, form, "send", &runner->send, &runner->layout.send);
  }
  *wrong = found;
  return COLL_OK;
}

/* ---- a row */

/* Exchanges the reports of all ranks and combines them into one result. */
static coll_status_t combine_reports(bench_runner_t *runner, const rank_report_t *own,
                                     bench_result_t *result) {
  rank_report_t *reports = runner->reports;
  COLL_TRY(bench_take_error(
      runner->comm, coll_allgather(own, reports, sizeof *own, COLL_UINT8, runner->comm, NULL)));
  int batches = own->batches;
  double slowest[BENCH_BATCHES_MAX] = {0};
  uint64_t wrong = 0;
  for (int rank = 0; rank < runner->ranks; rank++) {
    wrong += reports[rank].wrong;
    for (int i = 0; i < batches; i++) {
      if (reports[rank].batch_us[i] > slowest[i]) slowest[i] = reports[rank].batch_us[i];
    }
  }
  result->ran = true;
  result->wrong = wrong > own->wrong ? wrong : own->wrong;
  if (batches == 0) return COLL_OK;
  result->time_us = bench_timing_median(slowest, batches);
  result->min_us = slowest[0];
  result->max_us = slowest[batches - 1];
  return COLL_OK;
}

static coll_status_t make_op(bench_runner_t *runner, const bench_values_t *values, coll_op_t *op) {
  if (values->op != BENCH_PREMUL_SUM) {
    *op = values->op == BENCH_OP_NONE ? COLL_SUM : (coll_op_t)values->op;
    return COLL_OK;
  }
  uint64_t scalar;
  bench_element_store(values->dtype, bench_values_scalar(values, runner->rank), &scalar);
  return bench_take_error(runner->comm,
                          coll_op_create_premul_sum(&scalar, values->dtype, runner->comm, op));
}

static coll_status_t force_algo(bench_runner_t *runner, const bench_row_t *row, const char *algo) {
  if (row->algo == NULL) return COLL_OK;
  return bench_take_error(runner->comm, coll_comm_algo_set(runner->comm, row->collective, algo));
}

/* A call without elements runs no algorithm. */
static void record_algo(bench_runner_t *runner, const bench_row_t *row, bench_result_t *result) {
  bool ran = row->count > 0 || row->collective == COLL_BARRIER;
  const char *used = ran ? coll_comm_algo_used(runner->comm, row->collective) : "";
  snprintf(result->algo, sizeof result->algo, "%s", used);
}

static coll_status_t run_form(bench_runner_t *runner, form_t *form, bench_result_t *result) {
  const bench_row_t *row = form->row;
  size_t bytes = coll_dtype_bytes(row->dtype), late = misalign_bytes(runner, row);
  rank_report_t report = {0};
  describe(runner, row, form->in_place);
  bench_buffer_pool_divide(runner->layout.send_elements * bytes, late, &runner->send);
  bench_buffer_pool_divide(runner->layout.recv_elements * bytes, late, &runner->recv);
  COLL_TRY(force_algo(runner, row, row->algo));
  if (runner->settings->iterations > 0) COLL_TRY(time_form(runner, form, &report));
  COLL_TRY(check_form(runner, form, &report.wrong));
  record_algo(runner, row, result);
  COLL_TRY(force_algo(runner, row, NULL));
  return combine_reports(runner, &report, result);
}

coll_status_t bench_runner_row(bench_runner_t *runner, const bench_row_t *row,
                               bench_result_t *out_of_place, bench_result_t *in_place) {
  form_t form = {.row = row,
                 .call = {.collective = row->collective,
                          .count = row->count,
                          .dtype = row->dtype,
                          .root = root_of(row),
                          .rank = runner->rank,
                          .ranks = runner->ranks,
                          .vectors = &runner->vectors,
                          .comm = runner->comm,
                          .stream = runner->stream},
                 .values = {.dtype = row->dtype, .op = row->op, .ranks = runner->ranks}};
  *out_of_place = *in_place = (bench_result_t){0};
  if (row->collective == COLL_ALLTOALLV) {
    bench_vectors_fill(row->count, runner->rank, runner->ranks, &runner->vectors);
  }
  COLL_TRY(make_op(runner, &form.values, &form.call.op));
  coll_status_t status = COLL_OK;
  if (has_form(runner, row, false)) status = run_form(runner, &form, out_of_place);
  if (status == COLL_OK && has_form(runner, row, true)) {
    form.in_place = true;
    status = run_form(runner, &form, in_place);
  }
  if (row->op == BENCH_PREMUL_SUM) (void)coll_op_destroy(form.call.op, runner->comm);
  return status;
}
