/* For each row and form (in place or out of place): lays out the buffers, times calls on many pairs
 * of them, checks the result of a call on one pair, and exchanges the reports of all ranks. The
 * exchange uses the library under test, so a rank that finds a wrong result also prints it. */
#include "bench/runner.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "base/text.h"
#include "bench/contents.h"
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
  size_t send_bytes = 1, recv_bytes = 1, staged = 1;
  for (size_t i = 0; i < 2 * rows->count; i++) {
    const bench_row_t *row = &rows->rows[i / 2];
    bool in_place = i % 2 == 1;
    if (!has_form(runner, row, in_place)) continue;
    describe(runner, row, in_place);
    int buffers = pair_count_of(runner, row);
    size_t bytes = coll_dtype_bytes(row->dtype), late = misalign_bytes(runner, row);
    size_t send = bench_buffer_pool_bytes(runner->layout.send_elements * bytes, late, buffers);
    size_t recv = bench_buffer_pool_bytes(runner->layout.recv_elements * bytes, late, buffers);
    if (send / (size_t)buffers > staged) staged = send / (size_t)buffers;
    if (recv / (size_t)buffers > staged) staged = recv / (size_t)buffers;
    if (send > send_bytes) send_bytes = send;
    if (recv > recv_bytes) recv_bytes = recv;
  }
  bench_memory_t kind = runner->settings->memory;
  if (bench_memory_is_cuda(kind)) COLL_TRY(bench_gpu_stage(&runner->gpu, staged));
  COLL_TRY(bench_buffer_pool_make(send_bytes, kind, runner->gpu.device, &runner->send));
  return bench_buffer_pool_make(recv_bytes, kind, runner->gpu.device, &runner->recv);
}

static coll_status_t register_pools(bench_runner_t *runner) {
  const bench_buffer_pool_t *pools[] = {&runner->send, &runner->recv};
  for (int i = 0; i < 2; i++) {
    if (bench_memory_is_cuda(runner->settings->memory)) {
      COLL_TRY(
          bench_take_error(runner->comm, coll_window_create(runner->comm, pools[i]->memory,
                                                            pools[i]->bytes, &runner->windows[i])));
    } else {
      COLL_TRY(bench_take_error(runner->comm,
                                coll_mem_register(runner->comm, pools[i]->memory, pools[i]->bytes,
                                                  &runner->registrations[i])));
    }
  }
  return COLL_OK;
}

/* ---- a rank ---------------------------------------------------------------------------------*/

/* The rank's number on its machine, as launchers set it; else among all ranks. */
static int local_rank(const bench_runner_t *runner) {
  static const char *const variables[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                                          "MPI_LOCALRANKID", "SLURM_LOCALID"};
  if (runner->settings->threads > 0) return runner->rank;
  for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
    const char *text = getenv(variables[i]);
    int64_t value;
    if (text != NULL && base_text_integer(text, 0, INT32_MAX, &value)) return (int)value;
  }
  return runner->rank;
}

static coll_status_t make_stream(bench_runner_t *runner) {
  if (bench_memory_is_cuda(runner->settings->memory)) {
    COLL_TRY(bench_gpu_open(local_rank(runner), &runner->gpu));
    return bench_gpu_stream(&runner->gpu, &runner->stream);
  }
  if (!runner->settings->stream) return COLL_OK;
  return bench_take_error(NULL, coll_stream_create(&runner->stream));
}

static coll_status_t make_memory(const bench_settings_t *settings, const bench_rows_t *rows,
                                 bench_runner_t *runner) {
  COLL_TRY(bench_buffer_layout_make(runner->ranks, &runner->layout));
  runner->layout.even = settings->even;
  COLL_TRY(bench_vectors_make(runner->ranks, &runner->vectors));
  COLL_TRY(bench_check_scratch(&runner->scratch));
  COLL_TRY(base_alloc((size_t)runner->ranks, sizeof(rank_report_t), "the ranks' reports",
                      &runner->reports));
  COLL_TRY(make_pools(runner, rows));
  return settings->registered ? register_pools(runner) : COLL_OK;
}

coll_status_t bench_runner_make(const bench_settings_t *settings, const bench_rows_t *rows,
                                coll_comm_t comm, bench_runner_t *runner) {
  bench_runner_t made = {.settings = settings, .comm = comm};
  coll_status_t status = bench_take_error(comm, coll_comm_rank(comm, &made.rank));
  if (status == COLL_OK) status = bench_take_error(comm, coll_comm_size(comm, &made.ranks));
  if (status == COLL_OK) status = make_stream(&made);
  if (status == COLL_OK) status = make_memory(settings, rows, &made);
  if (status != COLL_OK) {
    bench_runner_free(&made);
    return status;
  }
  *runner = made;
  return COLL_OK;
}

void bench_runner_free(bench_runner_t *runner) {
  for (int i = 0; i < 2; i++) {
    if (runner->registrations[i] != NULL) (void)coll_mem_deregister(runner->registrations[i]);
    if (runner->windows[i] != NULL) (void)coll_window_destroy(runner->windows[i]);
  }
  if (runner->stream != NULL) (void)coll_stream_destroy(runner->stream);
  bench_buffer_pool_free(&runner->send);
  bench_buffer_pool_free(&runner->recv);
  bench_gpu_close(&runner->gpu);
  bench_buffer_layout_free(&runner->layout);
  bench_vectors_free(&runner->vectors);
  free(runner->scratch);
  free(runner->reports);
  *runner = (bench_runner_t){0};
}

/* ---- contents -------------------------------------------------------------------------------*/

/* NULL: the buffers are in the host's memory. */
static const bench_gpu_t *gpu_of(const bench_runner_t *runner) {
  return runner->gpu.stream != NULL ? &runner->gpu : NULL;
}

static bench_buffer_t buffer_of(const bench_runner_t *runner, const form_t *form,
                                const bench_buffer_pool_t *pool, int index) {
  return (bench_buffer_t){.region = bench_buffer_pool_region(pool, index),
                          .region_bytes = pool->stride,
                          .data_offset = BENCH_GUARD_BYTES + misalign_bytes(runner, form->row)};
}

/* Fills the first pair of buffers. */
static coll_status_t fill(bench_runner_t *runner, const form_t *form) {
  bench_buffer_t send = buffer_of(runner, form, &runner->send, 0);
  bench_buffer_t recv = buffer_of(runner, form, &runner->recv, 0);
  COLL_TRY(bench_contents_fill(gpu_of(runner), &form->values, &runner->layout.send, &send,
                               runner->scratch));
  return bench_contents_fill(gpu_of(runner), &form->values, &runner->layout.recv_before, &recv,
                             runner->scratch);
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
  bench_graph_t graph; /* of calls that were captured */
  bench_buffer_pair_t pairs[BENCH_PAIRS_MAX];
  int pair_count;
} timed_form_t;

static coll_status_t timed_call(void *context, int pair) {
  const timed_form_t *timed = context;
  return bench_call_make(timed->call, timed->pairs[pair].send, timed->pairs[pair].recv);
}

/* settings->aggregate calls on as many pairs of buffers, in a group. */
static coll_status_t grouped_calls(void *context, int pair) {
  const timed_form_t *timed = context;
  int count = timed->runner->settings->aggregate, pair_count = timed->pair_count;
  COLL_TRY(bench_take_error(NULL, coll_group_start()));
  coll_status_t status = COLL_OK;
  for (int i = 0; status == COLL_OK && i < count; i++) {
    status = timed_call(context, (pair + i) % pair_count);
  }
  coll_status_t ended = bench_take_error(NULL, coll_group_end());
  return status != COLL_OK ? status : ended;
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

static coll_status_t timed_launch(void *context, int pair) {
  const timed_form_t *timed = context;
  (void)pair;
  return bench_gpu_launch(&timed->runner->gpu, &timed->graph);
}

/* Captures `count` calls, which rotate among the pairs. A call that is not captured comes first:
 * the first one of its kind may wait for other ranks. A barrier must precede the first launch:
 * while kernels wait for a rank, making a graph may wait for the kernels. */
static coll_status_t capture_calls(timed_form_t *timed, int count, int pair_count) {
  bench_runner_t *runner = timed->runner;
  COLL_TRY(timed_call(timed, 0));
  COLL_TRY(sync_stream(runner));
  COLL_TRY(bench_gpu_capture(&runner->gpu));
  for (int i = 0; i < count; i++) {
    coll_status_t status = timed_call(timed, i % pair_count);
    if (status == COLL_OK) continue;
    bench_gpu_drop_capture(&runner->gpu);
    return status;
  }
  return bench_gpu_end_capture(&runner->gpu, &timed->graph);
}

static coll_status_t time_graph(timed_form_t *context, const bench_timed_calls_t *calls,
                                const bench_timing_options_t *options, rank_report_t *report) {
  const bench_settings_t *settings = context->runner->settings;
  bench_timed_calls_t launches = *calls;
  bench_timing_options_t limits = *options;
  COLL_TRY(capture_calls(context, settings->iterations, calls->pair_count));
  coll_status_t status = timed_barrier(context);
  launches.call = timed_launch;
  launches.pair_count = limits.warmups = 1;
  limits.iterations = settings->launches;
  if (status == COLL_OK) {
    status = bench_timing_run(&launches, &limits, report->batch_us, &report->batches);
  }
  for (int i = 0; status == COLL_OK && i < report->batches; i++) {
    report->batch_us[i] /= settings->iterations;
  }
  bench_gpu_free_graph(&context->graph);
  return status;
}

static coll_status_t time_form(bench_runner_t *runner, const form_t *form, rank_report_t *report) {
  const bench_settings_t *settings = runner->settings;
  const bench_timing_options_t options = {settings->warmups, settings->iterations,
                                          settings->time_ms, settings->together};
  timed_form_t context = {
      .runner = runner, .call = &form->call, .pair_count = pair_count_of(runner, form->row)};
  const bench_timed_calls_t timed = {.context = &context,
                                     .call = settings->aggregate > 1 ? grouped_calls : timed_call,
                                     .complete = timed_complete,
                                     .barrier = timed_barrier,
                                     .max = timed_max,
                                     .pair_count = context.pair_count};
  COLL_TRY(fill(runner, form));
  for (int i = 0; i < timed.pair_count; i++) {
    COLL_TRY(bench_contents_repeat(gpu_of(runner), &runner->send, i));
    COLL_TRY(bench_contents_repeat(gpu_of(runner), &runner->recv, i));
    context.pairs[i] = pair_of(runner, form, i);
  }
  if (settings->launches > 0) return time_graph(&context, &timed, &options, report);
  COLL_TRY(bench_timing_run(&timed, &options, report->batch_us, &report->batches));
  for (int i = 0; i < report->batches; i++) report->batch_us[i] /= settings->aggregate;
  return COLL_OK;
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

static coll_status_t check_buffer(bench_runner_t *runner, const form_t *form, const char *where,
                                  const bench_buffer_pool_t *pool, const bench_contents_t *contents,
                                  uint64_t *wrong) {
  bench_mismatch_t mismatch = {0};
  bench_buffer_t buffer = buffer_of(runner, form, pool, 0);
  COLL_TRY(bench_contents_compare(gpu_of(runner), &form->values, contents, &buffer, runner->scratch,
                                  &mismatch));
  if (mismatch.elements + mismatch.stray_bytes > 0) {
    report_mismatch(runner, form, where, &mismatch);
  }
  *wrong += mismatch.elements + mismatch.stray_bytes;
  return COLL_OK;
}

/* One call on the first pair, filled. */
static coll_status_t make_checked_call(bench_runner_t *runner, const form_t *form) {
  timed_form_t context = {
      .runner = runner, .call = &form->call, .pairs = {pair_of(runner, form, 0)}};
  COLL_TRY(fill(runner, form));
  if (runner->settings->launches == 0) return timed_call(&context, 0);
  COLL_TRY(capture_calls(&context, 1, 1));
  coll_status_t status = fill(runner, form); /* a call was made */
  if (status == COLL_OK) status = timed_barrier(&context);
  if (status == COLL_OK) status = timed_launch(&context, 0);
  if (status == COLL_OK) status = sync_stream(runner);
  bench_gpu_free_graph(&context.graph);
  return status;
}

static coll_status_t check_form(bench_runner_t *runner, form_t *form, uint64_t *wrong) {
  uint64_t found = 0;
  for (int i = 0; i < runner->settings->checks; i++) {
    form->values.seed = (uint64_t)i + 1;
    COLL_TRY(make_checked_call(runner, form));
    COLL_TRY(sync_stream(runner));
    COLL_TRY(
        check_buffer(runner, form, "receive", &runner->recv, &runner->layout.recv_after, &found));
    COLL_TRY(check_buffer(runner, form, "send", &runner->send, &runner->layout.send, &found));
  }
  *wrong = found;
  return COLL_OK;
}

/* ---- a row */

/* The time of a batch over all ranks. */
static double over_ranks(const bench_runner_t *runner, int batch) {
  const rank_report_t *reports = runner->reports;
  double sum = 0, min = reports[0].batch_us[batch], max = min;
  for (int rank = 0; rank < runner->ranks; rank++) {
    double us = reports[rank].batch_us[batch];
    sum += us;
    if (us < min) min = us;
    if (us > max) max = us;
  }
  switch (runner->settings->over_ranks) {
    case BENCH_OVER_RANKS_FIRST: return reports[0].batch_us[batch];
    case BENCH_OVER_RANKS_MEAN: return sum / runner->ranks;
    case BENCH_OVER_RANKS_MIN: return min;
    case BENCH_OVER_RANKS_MAX: break;
  }
  return max;
}

/* Exchanges the reports of all ranks and combines them into one result. */
static coll_status_t combine_reports(bench_runner_t *runner, const rank_report_t *own,
                                     bench_result_t *result) {
  rank_report_t *reports = runner->reports;
  COLL_TRY(bench_take_error(
      runner->comm, coll_allgather(own, reports, sizeof *own, COLL_UINT8, runner->comm, NULL)));
  int batches = own->batches;
  double times_us[BENCH_BATCHES_MAX] = {0};
  uint64_t wrong = 0;
  for (int rank = 0; rank < runner->ranks; rank++) wrong += reports[rank].wrong;
  for (int i = 0; i < batches; i++) times_us[i] = over_ranks(runner, i);
  result->ran = true;
  result->wrong = wrong > own->wrong ? wrong : own->wrong;
  if (batches == 0) return COLL_OK;
  result->time_us = bench_timing_median(times_us, batches);
  result->min_us = times_us[0];
  result->max_us = times_us[batches - 1];
  return COLL_OK;
}

static coll_status_t make_op(bench_runner_t *runner, const bench_values_t *values, coll_op_t *op) {
  if (values->op != BENCH_PREMUL_SUM) {
    *op = values->op == BENCH_OP_NONE ? COLL_SUM : (coll_op_t)values->op;
    return COLL_OK;
  }
  uint64_t scalar;
  bench_element_store(values->dtype, bench_values_scalar(values, runner->rank), &scalar);
  return bench_take_error(
      runner->comm, coll_op_create_premul_sum(&scalar, values->dtype, COLL_SCALAR_HOST_IMMEDIATE,
                                              runner->comm, op));
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
  } else if (bench_collective_has_uneven_blocks(row->collective)) {
    bench_vectors_fill_uneven(row->count, runner->ranks, runner->settings->even, &runner->vectors);
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
