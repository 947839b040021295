/* The file of traces has the latest spans of every rank, in order. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "harness/party.h"
#include "libtrain/folder.h"
#include "libtrain/parallel/trace_file.h"

#define TIMEOUT_MS 60000
#define RANKS 4
#define CAPACITY 8

/* Nothing, less than the ring holds, just as much, and more. */
static const int recorded[RANKS] = {20, 0, CAPACITY, 3};

typedef struct trial {
  const char *path;
  bool fails;
} trial_t;

/* Span i of a rank is a pass of micro-batch i that takes i microseconds. */
static int body(party_rank_t *self) {
  const trial_t *trial = self->context;
  train_group_t group;
  train_trace_t *trace;
  train_trace_counts_t counts;
  PARTY_OK(train_group_init(self->comm, &group));
  PARTY_OK(train_trace_create(CAPACITY, &trace));
  for (int i = 0; i < recorded[self->rank]; i++) {
    uint64_t start_ns = trace->created_ns + (uint64_t)i * 1000000;
    const train_trace_span_t span = {.start_ns = start_ns,
                                     .end_ns = start_ns + (uint64_t)i * 1000,
                                     .micro_batch = i,
                                     .chunk = -1,
                                     .slice = -1,
                                     .kind = TRAIN_TRACE_FORWARD,
                                     .track = TRAIN_TRACE_COMPUTE};
    train_trace_add(trace, &span);
  }
  coll_status_t status = train_trace_write(trace, &group, "a rank", trial->path, &counts);
  train_trace_destroy(trace);
  PARTY_REQUIRE((status != COLL_OK) == trial->fails, "%s", base_last_error());
  PARTY_REQUIRE(trial->fails || self->rank > 0 ||
                    (counts.kept == 2 * CAPACITY + 3 && counts.recorded == 20 + CAPACITY + 3),
                "%llu spans kept", (unsigned long long)counts.kept);
  return 0;
}

/* Checks that the event is the rank's span number i. */
static void check_span(const json_t *event, int rank, int i) {
  char name[32];
  snprintf(name, sizeof name, "forward %d", i);
  cr_assert_str_eq(json_string_value(json_object_get(event, "name")), name, "rank %d", rank);
  cr_assert_float_eq(json_number_value(json_object_get(event, "dur")), i, 1e-3);
}

Test(parallel_trace, the_file_has_the_latest_spans) {
  folder_t folder;
  harness_result_t result;
  int next[RANKS], count[RANKS] = {0};
  size_t at;
  json_t *event;
  folder_make(&folder);
  const trial_t trial = {.path = folder_path(&folder, "trace.json")};
  cr_assert(party_threads(RANKS, TIMEOUT_MS, body, (void *)&trial, &result), "%s", result.text);
  json_t *document = json_load_file(trial.path, 0, NULL);
  cr_assert_not_null(document);
  for (int rank = 0; rank < RANKS; rank++) {
    next[rank] = recorded[rank] > CAPACITY ? recorded[rank] - CAPACITY : 0;
  }
  json_array_foreach(json_object_get(document, "traceEvents"), at, event) {
    int rank = (int)json_integer_value(json_object_get(event, "pid"));
    if (strcmp(json_string_value(json_object_get(event, "ph")), "X") != 0) continue;
    check_span(event, rank, next[rank]++);
    count[rank]++;
  }
  for (int rank = 0; rank < RANKS; rank++) {
    cr_assert_eq(count[rank], recorded[rank] < CAPACITY ? recorded[rank] : CAPACITY);
  }
  json_decref(document);
  folder_remove(&folder);
}

Test(parallel_trace, all_ranks_fail_if_it_cannot_be_written) {
  harness_result_t result;
  const trial_t missing = {.path = "/missing/trace.json", .fails = true};
  cr_assert(party_threads(RANKS, TIMEOUT_MS, body, (void *)&missing, &result), "%s", result.text);
  if (access("/dev/full", W_OK) != 0) return;
  const trial_t full = {.path = "/dev/full", .fails = true};
  cr_assert(party_threads(RANKS, TIMEOUT_MS, body, (void *)&full, &result), "%s", result.text);
}
