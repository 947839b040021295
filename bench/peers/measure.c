/* Uses the settings, rows, buffers, checks and timing of collbench for the calls of the library. */
#include "bench/peers/measure.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "bench/buffer_layout.h"
#include "bench/buffer_pool.h"
#include "bench/check.h"
#include "bench/collectives.h"
#include "bench/rows.h"
#include "bench/settings.h"
#include "bench/timing.h"

/* The state of a rank and of the row that it measures. */
typedef struct session {
  const bench_settings_t *settings;
  const peers_library_t *library;
  bench_buffer_layout_t layout;
  bench_values_t values;
  bench_buffer_pool_t send, recv;
  peers_call_t call;
  bench_buffer_pair_t pairs[BENCH_PAIRS_MAX];
  int pair_count; /* number of pairs */
  void *scratch;
} session_t;

static coll_status_t to_status(const char *message) {
  return message == NULL ? COLL_OK : base_fail(COLL_ERROR_SYSTEM, "%s", message);
}

static bench_buffer_t buffer_of(const bench_buffer_pool_t *pool, int index) {
  return (bench_buffer_t){.region = bench_buffer_pool_region(pool, index),
                          .region_bytes = pool->stride,
                          .data_offset = BENCH_GUARD_BYTES};
}

static bench_buffer_pair_t pair_of(const session_t *session, int pair) {
  bench_buffer_t send = buffer_of(&session->send, pair), recv = buffer_of(&session->recv, pair);
  return (bench_buffer_pair_t){.send = send.region + send.data_offset,
                               .recv = recv.region + recv.data_offset};
}

static void fill(session_t *session, int pair) {
  bench_buffer_t send = buffer_of(&session->send, pair), recv = buffer_of(&session->recv, pair);
  bench_check_fill(&session->values, &session->layout.send, &send, session->scratch);
  bench_check_fill(&session->values, &session->layout.recv_before, &recv, session->scratch);
}

static coll_status_t timed_call(void *context, int pair) {
  const session_t *session = context;
  const peers_library_t *library = session->library;
  return to_status(library->call(library->context, &session->call, session->pairs[pair].send,
                                 session->pairs[pair].recv));
}

/* The calls of the peers are complete when they return. */
static coll_status_t timed_complete(void *context) {
  (void)context;
  return COLL_OK;
}

static coll_status_t timed_barrier(void *context) {
  const peers_library_t *library = ((const session_t *)context)->library;
  return to_status(library->barrier(library->context));
}

/* The number of elements of the first pair that are wrong on this rank after a call. A rank without
 * a result is not checked: the library may use its buffer. */
static double count_wrong(session_t *session) {
  bench_mismatch_t mismatch = {0};
  if (session->layout.recv_after.count == 0) return 0;
  bench_buffer_t recv = buffer_of(&session->recv, 0);
  bench_check_compare(&session->values, &session->layout.recv_after, &recv, session->scratch,
                      &mismatch);
  return (double)(mismatch.elements + mismatch.stray_bytes);
}

static coll_status_t check_row(session_t *session, double *wrong) {
  *wrong = 0;
  for (int i = 0; i < session->settings->checks; i++) {
    session->values.seed = (uint64_t)i + 1;
    fill(session, 0);
    COLL_TRY(timed_call(session, 0));
    *wrong += count_wrong(session);
  }
  return COLL_OK;
}

static coll_status_t timed_max(void *context, double *value) {
  const peers_library_t *library = ((const session_t *)context)->library;
  return to_status(library->max(library->context, value, 1));
}

static coll_status_t time_row(session_t *session, double *batch_us, int *batches) {
  const bench_settings_t *settings = session->settings;
  const bench_timing_options_t options = {settings->warmups, settings->iterations,
                                          settings->time_ms, settings->together};
  const bench_timed_calls_t timed = {.context = session,
                                     .call = timed_call,
                                     .complete = timed_complete,
                                     .barrier = timed_barrier,
                                     .max = timed_max,
                                     .pair_count = session->pair_count};
  for (int i = 0; i < session->pair_count; i++) fill(session, i);
  return bench_timing_run(&timed, &options, batch_us, batches);
}

static coll_status_t print_line(json_t *line) {
  if (line == NULL) return base_fail(COLL_ERROR_MEMORY, "out of memory for a line of output");
  bool printed = json_dumpf(line, stdout, JSON_COMPACT) == 0 && putchar('\n') != EOF;
  json_decref(line);
  return printed && fflush(stdout) == 0
             ? COLL_OK
             : base_fail_errno(COLL_ERROR_SYSTEM, "cannot write to standard output");
}

static coll_status_t print_row(const bench_row_t *row, double wrong, const double *batch_us,
                               int batches) {
  json_t *times = json_array();
  for (int i = 0; i < batches; i++) json_array_append_new(times, json_real(batch_us[i]));
  return print_line(json_pack("{s:s, s:I, s:f, s:o}", "collective",
                              coll_collective_name(row->collective), "bytes",
                              (json_int_t)row->bytes, "wrong", wrong, "batch_us", times));
}

static coll_status_t measure_row(session_t *session, const bench_row_t *row) {
  const peers_library_t *library = session->library;
  double slowest_us[BENCH_BATCHES_MAX + 1] = {0}; /* the last one: the number of wrong elements */
  int batches;
  COLL_TRY(time_row(session, slowest_us, &batches));
  COLL_TRY(check_row(session, &slowest_us[BENCH_BATCHES_MAX]));
  COLL_TRY(to_status(library->max(library->context, slowest_us, BENCH_BATCHES_MAX + 1)));
  if (library->rank != 0) return COLL_OK;
  return print_row(row, slowest_us[BENCH_BATCHES_MAX], slowest_us, batches);
}

static coll_status_t make_pool(size_t elements, int pair_count, bench_buffer_pool_t *pool) {
  size_t bytes = elements * sizeof(float);
  COLL_TRY(bench_buffer_pool_make(bench_buffer_pool_bytes(bytes, 0, pair_count), false, pool));
  bench_buffer_pool_divide(bytes, 0, pool);
  return COLL_OK;
}

static coll_status_t run_row(session_t *session, const bench_row_t *row) {
  bench_buffer_layout_t *layout = &session->layout;
  int ranks = session->library->ranks, root = row->root == BENCH_NO_ROOT ? 0 : row->root;
  session->call = (peers_call_t){row->collective, row->count, root};
  session->values = (bench_values_t){.dtype = row->dtype, .op = row->op, .ranks = ranks};
  bench_buffer_layout_describe(row->collective, row->count, root, session->library->rank, ranks,
                               false, layout);
  session->pair_count = bench_buffer_pool_pairs(layout->send_elements * sizeof(float),
                                                layout->recv_elements * sizeof(float));
  COLL_TRY(make_pool(layout->send_elements, session->pair_count, &session->send));
  coll_status_t status = make_pool(layout->recv_elements, session->pair_count, &session->recv);
  if (status == COLL_OK) {
    for (int i = 0; i < session->pair_count; i++) session->pairs[i] = pair_of(session, i);
    status = measure_row(session, row);
    bench_buffer_pool_free(&session->recv);
  }
  bench_buffer_pool_free(&session->send);
  return status;
}

static coll_status_t run_rows(session_t *session, const bench_rows_t *rows) {
  const peers_library_t *library = session->library;
  if (library->rank == 0) COLL_TRY(print_line(json_pack("{s:s}", "library", library->name)));
  for (size_t i = 0; i < rows->count; i++) {
    const bench_row_t *row = &rows->rows[i];
    if (!library->supports(library->context, row->collective)) continue;
    if (row->count == 0 && row->collective != COLL_BARRIER) continue; /* Gloo rejects such calls */
    COLL_TRY(run_row(session, row));
  }
  return COLL_OK;
}

/* Rejects the options of collbench that apply to libcoll only. */
static coll_status_t check_settings(const bench_settings_t *settings) {
  if (settings->coll_memory || settings->stream || settings->threads > 0 ||
      settings->algo != NULL || settings->json != NULL || settings->misalign > 0) {
    return base_fail(COLL_ERROR_INVALID,
                     "--mem, --stream, --threads, --algo, --json and -u apply to libcoll only");
  }
  if (!settings->places[BENCH_OUT_OF_PLACE]) {
    return base_fail(COLL_ERROR_INVALID, "--place in: peers are measured out of place only");
  }
  for (int i = 0; i < COLL_DTYPE_COUNT; i++) {
    if (settings->dtypes[i] != (i == COLL_FLOAT32)) {
      return base_fail(COLL_ERROR_INVALID, "-d: peers are measured with float32 only");
    }
  }
  for (int i = 0; i < BENCH_OP_COUNT; i++) {
    if (settings->ops[i] != (i == COLL_SUM)) {
      return base_fail(COLL_ERROR_INVALID, "-o: peers are measured with sums only");
    }
  }
  return COLL_OK;
}

static coll_status_t run(const bench_settings_t *settings, const peers_library_t *library) {
  session_t session = {.settings = settings, .library = library};
  bench_rows_t rows;
  COLL_TRY(check_settings(settings));
  COLL_TRY(bench_rows_make(settings, library->ranks, &rows));
  coll_status_t status = bench_buffer_layout_make(library->ranks, &session.layout);
  if (status == COLL_OK) status = bench_check_scratch(&session.scratch);
  if (status == COLL_OK) status = run_rows(&session, &rows);
  free(session.scratch);
  bench_buffer_layout_free(&session.layout);
  bench_rows_free(&rows);
  return status;
}

int peers_measure(int argc, char **argv, const peers_library_t *library) {
  bench_settings_t settings;
  bool help_printed = false;
  coll_status_t status = bench_settings_parse(argc, argv, &settings, &help_printed);
  if (status == COLL_OK && !help_printed) {
    status = run(&settings, library);
    bench_settings_free(&settings);
  }
  if (status == COLL_OK) return 0;
  fprintf(stderr, "%s, rank %d: %s\n", library->name, library->rank, base_last_error());
  return 1;
}
