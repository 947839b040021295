/* collbench's settings, rows, layout, pool, check and timing around another library's calls. */
#include "bench/peers/measure.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "bench/check.h"
#include "bench/collectives.h"
#include "bench/layout.h"
#include "bench/pool.h"
#include "bench/rows.h"
#include "bench/settings.h"
#include "bench/timing.h"

/* One rank at work on one row. */
typedef struct session {
  const bench_settings_t *settings;
  const peers_library_t *library;
  bench_layout_t layout;
  bench_values_t values;
  bench_pool_t send, recv;
  peers_call_t call;
  bench_pair_t pairs[BENCH_ROTATION_MAX];
  int rotation; /* how many of them */
  void *scratch;
} session_t;

static coll_status_t told(const char *trouble) {
  return trouble == NULL ? COLL_OK : base_fail(COLL_ERROR_SYSTEM, "%s", trouble);
}

static bench_buffer_t buffer_of(const bench_pool_t *pool, int index) {
  return (bench_buffer_t){.region = bench_pool_region(pool, index),
                          .region_bytes = pool->stride,
                          .data_at = BENCH_GUARD_BYTES};
}

static bench_pair_t pair_of(const session_t *session, int pair) {
  bench_buffer_t send = buffer_of(&session->send, pair), recv = buffer_of(&session->recv, pair);
  return (bench_pair_t){.send = send.region + send.data_at, .recv = recv.region + recv.data_at};
}

static void fill(session_t *session, int pair) {
  bench_buffer_t send = buffer_of(&session->send, pair), recv = buffer_of(&session->recv, pair);
  bench_check_fill(&session->values, &session->layout.send, &send, session->scratch);
  bench_check_fill(&session->values, &session->layout.recv_before, &recv, session->scratch);
}

static coll_status_t timed_call(void *context, int pair) {
  const session_t *session = context;
  const peers_library_t *library = session->library;
  return told(library->call(library->context, &session->call, session->pairs[pair].send,
                            session->pairs[pair].recv));
}

/* The peers' calls are complete when they return. */
static coll_status_t timed_settle(void *context) {
  (void)context;
  return COLL_OK;
}

static coll_status_t timed_meet(void *context) {
  const peers_library_t *library = ((const session_t *)context)->library;
  return told(library->meet(library->context));
}

/* Elements that the latest call on the first pair left wrong on this rank. What a rank without a
 * result finds in its buffer is the library's affair. */
static double count_wrong(session_t *session) {
  bench_mistake_t mistake = {0};
  if (session->layout.recv_after.count == 0) return 0;
  bench_buffer_t recv = buffer_of(&session->recv, 0);
  bench_check_compare(&session->values, &session->layout.recv_after, &recv, session->scratch,
                      &mistake);
  return (double)(mistake.elements + mistake.strays);
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

static coll_status_t timed_greatest(void *context, double *value) {
  const peers_library_t *library = ((const session_t *)context)->library;
  return told(library->greatest(library->context, value, 1));
}

static coll_status_t time_row(session_t *session, double *batch_us, int *batches) {
  const bench_settings_t *settings = session->settings;
  const bench_effort_t effort = {settings->warmups, settings->iterations, settings->time_ms};
  const bench_timed_t timed = {.context = session,
                               .call = timed_call,
                               .store_fence = timed_settle,
                               .meet = timed_meet,
                               .greatest = timed_greatest,
                               .rotation = session->rotation};
  for (int i = 0; i < session->rotation; i++) fill(session, i);
  return bench_timing_run(&timed, &effort, batch_us, batches);
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

static coll_status_t work_on_row(session_t *session, const bench_row_t *row) {
  const peers_library_t *library = session->library;
  double slowest_us[BENCH_BATCHES_MAX + 1] = {0}; /* and, behind them, what is wrong */
  int batches;
  COLL_TRY(time_row(session, slowest_us, &batches));
  COLL_TRY(check_row(session, &slowest_us[BENCH_BATCHES_MAX]));
  COLL_TRY(told(library->greatest(library->context, slowest_us, BENCH_BATCHES_MAX + 1)));
  if (library->rank != 0) return COLL_OK;
  return print_row(row, slowest_us[BENCH_BATCHES_MAX], slowest_us, batches);
}

static coll_status_t make_pool(size_t elements, int rotation, bench_pool_t *pool) {
  size_t bytes = elements * sizeof(float);
  COLL_TRY(bench_pool_make(bench_pool_bytes(bytes, 0, rotation), false, pool));
  bench_pool_cut(bytes, 0, pool);
  return COLL_OK;
}

static coll_status_t run_row(session_t *session, const bench_row_t *row) {
  bench_layout_t *layout = &session->layout;
  int ranks = session->library->ranks, root = row->root == BENCH_NO_ROOT ? 0 : row->root;
  session->call = (peers_call_t){row->collective, row->count, root};
  session->values = (bench_values_t){.dtype = row->dtype, .op = row->op, .ranks = ranks};
  bench_layout_describe(row->collective, row->count, root, session->library->rank, ranks, false,
                        layout);
  session->rotation = bench_pool_rotation(layout->send_elements * sizeof(float),
                                          layout->recv_elements * sizeof(float));
  COLL_TRY(make_pool(layout->send_elements, session->rotation, &session->send));
  coll_status_t status = make_pool(layout->recv_elements, session->rotation, &session->recv);
  if (status == COLL_OK) {
    for (int i = 0; i < session->rotation; i++) session->pairs[i] = pair_of(session, i);
    status = work_on_row(session, row);
    bench_pool_free(&session->recv);
  }
  bench_pool_free(&session->send);
  return status;
}

static coll_status_t run_rows(session_t *session, const bench_rows_t *rows) {
  const peers_library_t *library = session->library;
  if (library->rank == 0) COLL_TRY(print_line(json_pack("{s:s}", "library", library->name)));
  for (size_t i = 0; i < rows->count; i++) {
    if (!library->has(library->context, rows->rows[i].collective)) continue;
    COLL_TRY(run_row(session, &rows->rows[i]));
  }
  return COLL_OK;
}

/* What of collbench's command line says something about libcoll alone. */
static coll_status_t check_settings(const bench_settings_t *settings) {
  if (settings->coll_memory || settings->stream || settings->threads > 0 ||
      settings->algo != NULL || settings->json != NULL || settings->misalign > 0) {
    return base_fail(COLL_ERROR_INVALID,
                     "--mem, --stream, --threads, --algo, --json and -u are collbench's alone");
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
  coll_status_t status = bench_layout_make(library->ranks, &session.layout);
  if (status == COLL_OK) status = bench_check_scratch(&session.scratch);
  if (status == COLL_OK) status = run_rows(&session, &rows);
  free(session.scratch);
  bench_layout_free(&session.layout);
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
