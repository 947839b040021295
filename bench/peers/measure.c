/* Uses the settings, rows, buffers, checks and timing of collbench for the calls of the library. */
#include "bench/peers/measure.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "base/tool.h"
#include "bench/buffer_layout.h"
#include "bench/buffer_pool.h"
#include "bench/collectives.h"
#include "bench/contents.h"
#include "bench/json_writer.h"
#include "bench/rows.h"
#include "bench/settings.h"
#include "bench/timing.h"

#define NAME_BYTES 512

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

static coll_status_t fill(session_t *session) {
  const bench_gpu_t *gpu = session->library->gpu;
  bench_buffer_t send = buffer_of(&session->send, 0), recv = buffer_of(&session->recv, 0);
  COLL_TRY(
      bench_contents_fill(gpu, &session->values, &session->layout.send, &send, session->scratch));
  return bench_contents_fill(gpu, &session->values, &session->layout.recv_before, &recv,
                             session->scratch);
}

static coll_status_t timed_call(void *context, int pair) {
  const session_t *session = context;
  const peers_library_t *library = session->library;
  return to_status(library->call(library->context, &session->call, session->pairs[pair].send,
                                 session->pairs[pair].recv));
}

static coll_status_t timed_complete(void *context) {
  const peers_library_t *library = ((const session_t *)context)->library;
  return library->complete != NULL ? to_status(library->complete(library->context)) : COLL_OK;
}

static coll_status_t timed_barrier(void *context) {
  const peers_library_t *library = ((const session_t *)context)->library;
  return to_status(library->barrier(library->context));
}

/* Adds the number of elements of the first pair that are wrong on this rank after a call. A rank
 * without a result is not checked: the library may use its buffer. */
static coll_status_t count_wrong(session_t *session, double *wrong) {
  bench_mismatch_t mismatch = {0};
  if (session->layout.recv_after.count == 0) return COLL_OK;
  bench_buffer_t recv = buffer_of(&session->recv, 0);
  COLL_TRY(bench_contents_compare(session->library->gpu, &session->values,
                                  &session->layout.recv_after, &recv, session->scratch, &mismatch));
  *wrong += (double)(mismatch.elements + mismatch.stray_bytes);
  return COLL_OK;
}

static coll_status_t check_row(session_t *session, double *wrong) {
  *wrong = 0;
  for (int i = 0; i < session->settings->checks; i++) {
    session->values.seed = (uint64_t)i + 1;
    COLL_TRY(fill(session));
    COLL_TRY(timed_call(session, 0));
    COLL_TRY(timed_complete(session));
    COLL_TRY(count_wrong(session, wrong));
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
  COLL_TRY(fill(session));
  for (int i = 0; i < session->pair_count; i++) {
    COLL_TRY(bench_contents_repeat(session->library->gpu, &session->send, i));
    COLL_TRY(bench_contents_repeat(session->library->gpu, &session->recv, i));
  }
  return bench_timing_run(&timed, &options, batch_us, batches);
}

static coll_status_t end_line(void) {
  bool printed = putchar('\n') != EOF && !ferror(stdout);
  return printed && fflush(stdout) == 0
             ? COLL_OK
             : base_fail_errno(COLL_ERROR_SYSTEM, "cannot write to standard output");
}

static coll_status_t print_row(const bench_row_t *row, double wrong, const double *batch_us,
                               int batches) {
  bench_json_t json = {.out = stdout};
  bench_json_open(&json, NULL, '{');
  bench_json_text(&json, "collective", coll_collective_name(row->collective));
  bench_json_integer(&json, "bytes", (int64_t)row->bytes);
  bench_json_real(&json, "wrong", wrong);
  bench_json_open(&json, "batch_us", '[');
  for (int i = 0; i < batches; i++) bench_json_real(&json, NULL, batch_us[i]);
  bench_json_close(&json, ']');
  bench_json_close(&json, '}');
  return end_line();
}

static coll_status_t print_name(const peers_library_t *library) {
  bench_json_t json = {.out = stdout};
  bench_json_open(&json, NULL, '{');
  bench_json_text(&json, "library", library->name);
  bench_json_close(&json, '}');
  return end_line();
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

/* Fills in the layout of the row, and the number of pairs of buffers. */
static void describe(session_t *session, const bench_row_t *row) {
  bench_buffer_layout_t *layout = &session->layout;
  int root = row->root == BENCH_NO_ROOT ? 0 : row->root;
  layout->even = session->settings->even;
  session->call = (peers_call_t){row->collective, row->count, root, layout->even};
  bench_buffer_layout_describe(row->collective, row->count, root, session->library->rank,
                               session->library->ranks, false, layout);
  session->pair_count = bench_buffer_pool_pairs(layout->send_elements * sizeof(float),
                                                layout->recv_elements * sizeof(float));
}

static coll_status_t make_pools(session_t *session, size_t send_bytes, size_t recv_bytes) {
  const bench_gpu_t *gpu = session->library->gpu;
  bench_memory_t kind = gpu != NULL ? BENCH_CUDA : BENCH_MALLOC;
  int device = gpu != NULL ? gpu->device : 0;
  COLL_TRY(bench_buffer_pool_make(send_bytes, kind, device, &session->send));
  return bench_buffer_pool_make(recv_bytes, kind, device, &session->recv);
}

static void free_pools(session_t *session) {
  bench_buffer_pool_free(&session->send);
  bench_buffer_pool_free(&session->recv);
}

static bool is_measured(const session_t *session, const bench_row_t *row) {
  const peers_library_t *library = session->library;
  if (!library->supports(library->context, row->collective)) return false;
  return row->count > 0 ||
         row->collective == COLL_BARRIER; /* Gloo rejects calls without elements */
}

/* Of a GPU's memory one allocation serves all rows: to allocate or free it may wait until no kernel
 * runs on the GPU, and those of other ranks wait for this one. */
static coll_status_t make_gpu_pools(session_t *session, const bench_rows_t *rows) {
  size_t send_bytes = 1, recv_bytes = 1, staged = 1;
  for (size_t i = 0; i < rows->count; i++) {
    if (!is_measured(session, &rows->rows[i])) continue;
    describe(session, &rows->rows[i]);
    size_t send = bench_buffer_pool_bytes(session->layout.send_elements * sizeof(float), 0, 1);
    size_t recv = bench_buffer_pool_bytes(session->layout.recv_elements * sizeof(float), 0, 1);
    size_t pairs = (size_t)session->pair_count;
    if (send > staged) staged = send;
    if (recv > staged) staged = recv;
    if (send * pairs > send_bytes) send_bytes = send * pairs;
    if (recv * pairs > recv_bytes) recv_bytes = recv * pairs;
  }
  COLL_TRY(bench_gpu_stage(session->library->gpu, staged));
  return make_pools(session, send_bytes, recv_bytes);
}

static coll_status_t run_row(session_t *session, const bench_row_t *row) {
  coll_status_t status = COLL_OK;
  bool on_host = session->library->gpu == NULL;
  describe(session, row);
  session->values =
      (bench_values_t){.dtype = row->dtype, .op = row->op, .ranks = session->library->ranks};
  size_t send_bytes = session->layout.send_elements * sizeof(float);
  size_t recv_bytes = session->layout.recv_elements * sizeof(float);
  if (on_host) {
    status = make_pools(session, bench_buffer_pool_bytes(send_bytes, 0, session->pair_count),
                        bench_buffer_pool_bytes(recv_bytes, 0, session->pair_count));
  }
  if (status == COLL_OK) {
    bench_buffer_pool_divide(send_bytes, 0, &session->send);
    bench_buffer_pool_divide(recv_bytes, 0, &session->recv);
    for (int i = 0; i < session->pair_count; i++) session->pairs[i] = pair_of(session, i);
    status = measure_row(session, row);
  }
  if (on_host) free_pools(session);
  return status;
}

static coll_status_t run_rows(session_t *session, const bench_rows_t *rows) {
  const peers_library_t *library = session->library;
  if (library->rank == 0) COLL_TRY(print_name(library));
  for (size_t i = 0; i < rows->count; i++) {
    const bench_row_t *row = &rows->rows[i];
    if (is_measured(session, row)) COLL_TRY(run_row(session, row));
  }
  return COLL_OK;
}

/* Rejects the options of collbench that apply to libcoll only. */
static coll_status_t check_settings(const bench_settings_t *settings) {
  if (settings->memory != BENCH_MALLOC || settings->launches > 0 || settings->registered ||
      settings->stream || settings->threads > 0 || settings->algo != NULL ||
      settings->json != NULL || settings->misalign > 0 || settings->aggregate > 1 ||
      settings->cycles != 1 || settings->timeout_s > 0) {
    return base_fail(
        COLL_ERROR_INVALID,
        "--mem, --stream, --threads, --algo, --json, -u, -g, -t, -m, -N, -T, -G and -R apply to "
        "libcoll only");
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
  if (status == COLL_OK && library->gpu != NULL) status = make_gpu_pools(&session, &rows);
  if (status == COLL_OK) status = run_rows(&session, &rows);
  free_pools(&session);
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
  char name[NAME_BYTES];
  snprintf(name, sizeof name, "%s, rank %d", library->name, library->rank);
  return base_tool_fail(name, base_tool_input(status));
}
