/*
 * Mixtures of experts on several ranks: sequences that are cut over context ranks drop what the
 * whole sequences drop; experts that are divided among ranks give the results of one rank, and send
 * exactly the rows of other ranks' experts; a failed axis moves nothing.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "expert_cases.h"
#include "harness/party.h"
#include "libtrain/model/experts.h"
#include "libtrain/parallel/axis.h"

#define TIMEOUT_MS 30000

/* A layer and its arrays, on one thread. */
typedef struct bench {
  train_gemm_t *gemm;
  train_exec_t exec;
  train_experts_t layer;
  train_experts_activations_t activations;
  train_experts_buffers_t buffers;
  void *memory[4];
} bench_t;

static void *aligned(size_t bytes) {
  return aligned_alloc(BASE_CACHE_LINE, base_round_up(bytes + 1, BASE_CACHE_LINE));
}

/* Rows of `sequences` sequences, `length` positions of each. */
static int open_bench(const expert_case_t *c, const train_batch_t *batch, int segments,
                      int expert_ranks, int context_ranks, bench_t *bench) {
  train_router_t router = expert_router(c);
  router.segments = segments;
  router = train_experts_router(&router, expert_ranks);
  const train_experts_sizes_t sizes = {.rows = train_batch_rows(batch),
                                       .sequences = batch->sequences,
                                       .length = c->length,
                                       .expert_ranks = expert_ranks,
                                       .context_ranks = context_ranks,
                                       .hidden_width = c->hidden_width,
                                       .training = true};
  *bench = (bench_t){.layer = {.router = router,
                               .batch = *batch,
                               .hidden_width = c->hidden_width,
                               .first_tensor_rank = true}};
  PARTY_OK(train_gemm_create(NULL, &bench->gemm));
  void **memory = bench->memory;
  memory[0] = aligned(train_experts_carve_route(&router, &sizes, NULL, NULL));
  memory[1] = aligned(train_experts_carve(&router, &sizes, NULL, NULL));
  memory[2] = aligned(train_experts_carve_buffers(&router, &sizes, NULL, NULL));
  memory[3] = aligned(train_experts_scratch(&router, &sizes) * sizeof(float));
  train_experts_carve_route(&router, &sizes, memory[0], &bench->activations);
  train_experts_carve(&router, &sizes, memory[1], &bench->activations);
  train_experts_carve_buffers(&router, &sizes, memory[2], &bench->buffers);
  bench->exec = (train_exec_t){.gemm = bench->gemm, .scratch = memory[3]};
  bench->layer.exec = &bench->exec;
  return 0;
}

static void close_bench(bench_t *bench) {
  for (int i = 0; i < 4; i++) free(bench->memory[i]);
  train_gemm_destroy(bench->gemm);
}

/* Inputs [rows, width], then the gate and the tensors of all experts. */
static float *inputs_of(const expert_case_t *c, size_t *gate_at) {
  size_t width = (size_t)c->width, hidden = (size_t)c->hidden_width, experts = (size_t)c->experts;
  size_t ins = expert_rows(c) * width;
  size_t count = ins + experts * (width + 2 * width * hidden + hidden + width);
  float *x = malloc(count * sizeof *x);
  random_fill(expert_seed(c, TRAIN_FLOAT32, 0), expert_deviation(c), count, x);
  *gate_at = ins;
  return x;
}

/* ---- context ranks ---- */

typedef struct context_trial {
  expert_case_t c;
  bool ring; /* two segments of each sequence */
} context_trial_t;

/* The position of a rank's row in its sequence. */
static int position_of(const context_trial_t *trial, const party_rank_t *self, int row) {
  int segments = trial->ring ? 2 : 1, of_segment = trial->c.length / self->size / segments;
  int number = row / of_segment == 0 ? self->rank : 2 * self->size - 1 - self->rank;
  return number * of_segment + row % of_segment;
}

static int compare_parts(const context_trial_t *trial, const party_rank_t *self,
                         const bench_t *whole, const bench_t *part) {
  int length = part->layer.batch.length, top_k = trial->c.top_k;
  for (int i = 0; i < trial->c.sequences * length * top_k; i++) {
    int row = i / top_k, position = position_of(trial, self, row % length);
    int at = (row / length * trial->c.length + position) * top_k + i % top_k;
    PARTY_REQUIRE(
        (part->activations.route.slots[i] < 0) == (whole->activations.route.slots[at] < 0),
        "choice %d at position %d", i % top_k, position);
  }
  return 0;
}

static int context_body(party_rank_t *self) {
  const context_trial_t *trial = self->context;
  const expert_case_t *c = &trial->c;
  int segments = trial->ring ? 2 : 1;
  const train_batch_t all = expert_batch(c),
                      own = {.sequences = c->sequences, .length = c->length / self->size};
  size_t gate_at, width = (size_t)c->width;
  float *x = inputs_of(c, &gate_at), *in = malloc(gate_at * sizeof *in);
  train_axis_t axis;
  bench_t whole, part;
  PARTY_OK(train_axis_init(self->comm, &axis));
  PARTY_TRY(open_bench(c, &all, 1, 1, 1, &whole));
  PARTY_TRY(open_bench(c, &own, segments, 1, self->size, &part));
  for (int row = 0; row < train_batch_rows(&own); row++) {
    int at = row / own.length * c->length + position_of(trial, self, row % own.length);
    memcpy(in + (size_t)row * width, x + (size_t)at * width, width * sizeof *in);
  }
  whole.layer.gate = part.layer.gate = x + gate_at;
  part.layer.context = &axis;
  const train_router_result_t expected = train_experts_route(&whole.layer, x, &whole.activations);
  const train_router_result_t got = train_experts_route(&part.layer, in, &part.activations);
  double sums[] = {got.balance, got.z, (double)got.dropped};
  train_axis_sum_doubles(&axis, sums, 3);
  PARTY_OK(train_axis_status(&axis));
  PARTY_REQUIRE(expected.dropped > 0 && sums[2] == (double)expected.dropped, "%g are dropped",
                sums[2]);
  PARTY_REQUIRE(fabs(sums[0] - expected.balance) < 1e-5 * expected.balance, "balance %g", sums[0]);
  PARTY_REQUIRE(fabs(sums[1] - expected.z) < 1e-5 * expected.z, "z %g", sums[1]);
  PARTY_TRY(compare_parts(trial, self, &whole, &part));
  close_bench(&whole), close_bench(&part);
  train_axis_free(&axis);
  free(x), free(in);
  return 0;
}

Test(parallel_experts, context_ranks_drop_what_one_rank_drops) {
  for (int ranks = 2; ranks <= 3; ranks++) {
    for (int ring = 0; ring < 2; ring++) {
      for (int top_k = 1; top_k <= 2; top_k++) {
        context_trial_t trial = {{2, 36, 6, 5, top_k, 0.75, 1, 1, 4}, ring == 1};
        harness_result_t result;
        cr_assert(party_threads(ranks, TIMEOUT_MS, context_body, &trial, &result),
                  "%d ranks, ring %d, top-%d: %s", ranks, ring, top_k, result.text);
      }
    }
  }
}

/* ---- expert ranks ---- */

static void set_experts(const expert_case_t *c, const float *tensors, int first,
                        train_experts_t *layer) {
  size_t width = (size_t)c->width, hidden = (size_t)c->hidden_width, at = (size_t)first,
         experts = (size_t)c->experts;
  const float *weight = tensors + experts * width, *bias = weight + experts * hidden * width;
  const float *out = bias + experts * hidden, *out_bias = out + experts * width * hidden;
  layer->gate = tensors;
  layer->hidden_weight = weight + at * hidden * width;
  layer->hidden_bias = bias + at * hidden;
  layer->output_weight = out + at * width * hidden;
  layer->output_bias = out_bias + at * width;
}

static void run_forward(bench_t *bench, const float *in, float *out) {
  train_experts_route(&bench->layer, in, &bench->activations);
  train_experts_forward(&bench->layer, in, &bench->activations, &bench->buffers);
  train_experts_combine_forward(&bench->layer, &bench->activations, NULL, out);
}

/* The counts of an all-to-all, and rows to and from other ranks once in each direction. */
static uint64_t expected_bytes(const expert_case_t *c, const party_rank_t *self,
                               const bench_t *bench) {
  int own = c->experts / self->size;
  uint64_t bytes = (uint64_t)own * sizeof(int32_t) * (uint64_t)(self->size - 1);
  for (int i = 0; i < c->experts; i++) {
    if (i / own == self->rank) continue;
    int rows = bench->activations.route.counts[i] + bench->activations.arrived[i];
    bytes += (uint64_t)rows * (uint64_t)c->width * sizeof(float);
  }
  return bytes;
}

static int experts_body(party_rank_t *self) {
  const expert_case_t *c = self->context;
  const train_batch_t all = expert_batch(c),
                      own = {.sequences = c->sequences / self->size, .length = c->length};
  size_t gate_at, width = (size_t)c->width, count = (size_t)train_batch_rows(&own) * width;
  float *x = inputs_of(c, &gate_at), *out = malloc(2 * gate_at * sizeof *out), *got = out + gate_at;
  train_axis_t axis;
  bench_t whole, part;
  PARTY_OK(train_axis_init(self->comm, &axis));
  PARTY_TRY(open_bench(c, &all, 1, 1, 1, &whole));
  PARTY_TRY(open_bench(c, &own, 1, self->size, 1, &part));
  set_experts(c, x + gate_at, 0, &whole.layer);
  set_experts(c, x + gate_at, self->rank * c->experts / self->size, &part.layer);
  part.layer.experts = &axis;
  run_forward(&whole, x, out);
  run_forward(&part, x + (size_t)self->rank * count, got);
  PARTY_OK(train_axis_status(&axis));
  for (size_t i = 0; i < count; i++) {
    double expected = (double)out[(size_t)self->rank * count + i];
    PARTY_REQUIRE(fabs((double)got[i] - expected) < 1e-4, "element %zu is %g, not %g", i,
                  (double)got[i], expected);
  }
  uint64_t bytes = expected_bytes(c, self, &part);
  PARTY_REQUIRE(axis.bytes_sent == bytes, "%llu bytes are sent, not %llu",
                (unsigned long long)axis.bytes_sent, (unsigned long long)bytes);
  close_bench(&whole), close_bench(&part);
  train_axis_free(&axis);
  free(x), free(out);
  return 0;
}

Test(parallel_experts, divided_experts_send_the_rows_of_others) {
  for (int top_k = 1; top_k <= 2; top_k++) {
    for (int drops = 0; drops < 2; drops++) {
      expert_case_t c = {6, 20, 8, 6, top_k, drops, 1, 1, 12};
      for (int ranks = 2; ranks <= 3; ranks++) {
        harness_result_t result;
        cr_assert(party_threads(ranks, TIMEOUT_MS, experts_body, &c, &result),
                  "%d ranks, top-%d: %s", ranks, top_k, result.text);
      }
    }
  }
}

/* Rank 1 fails before the counts are exchanged: nobody reads counts that have not arrived. */
static int failure_body(party_rank_t *self) {
  const expert_case_t *c = self->context;
  const train_batch_t own = {.sequences = c->sequences / self->size, .length = c->length};
  size_t gate_at;
  float *x = inputs_of(c, &gate_at), *out = malloc(gate_at * sizeof *out);
  train_axis_t axis;
  bench_t part;
  PARTY_OK(train_axis_init(self->comm, &axis));
  PARTY_TRY(open_bench(c, &own, 1, self->size, 1, &part));
  set_experts(c, x + gate_at, 0, &part.layer);
  memset(part.activations.arrived, 0x7f, (size_t)c->experts * sizeof(int32_t));
  part.layer.experts = &axis;
  if (self->rank == 1) train_axis_fail(&axis, base_fail(COLL_ERROR_MEMORY, "no memory"));
  run_forward(&part, x, out);
  PARTY_REQUIRE(train_axis_status(&axis) != COLL_OK, "the failure is lost");
  PARTY_REQUIRE(part.activations.starts[c->experts / self->size] == 0, "rows arrive");
  close_bench(&part);
  train_axis_free(&axis);
  free(x), free(out);
  return 0;
}

Test(parallel_experts, nothing_arrives_after_a_failure) {
  expert_case_t c = {4, 20, 8, 4, 2, 1, 1, 1, 12};
  harness_result_t result;
  cr_assert(party_threads(2, TIMEOUT_MS, failure_body, &c, &result), "%s", result.text);
}
