/* Memory, traffic and time of layouts against hand-worked values and the trainer's own formulas. */
#include <criterion/criterion.h>

#include "jobs.h"
#include "libtrain/parallel/memory.h"
#include "libtrain/planner/metrics.h"
#include "libtrain/planner/parts.h"

static train_plan_cost_t predict(const train_plan_job_t *job, const train_plan_layout_t *layout,
                                 int per_host) {
  int host_of[JOBS_RANKS_MAX];
  const train_plan_machine_t machine = machine_of(layout->mesh.ranks, per_host, host_of);
  train_plan_cost_t cost;
  train_plan_limit_t limit;
  cr_assert_eq(train_plan_predict(job, layout, &machine, &cost, &limit), COLL_OK, "%s",
               base_last_error());
  return cost;
}

static train_plan_memory_t memory_of(const train_plan_job_t *job,
                                     const train_plan_layout_t *layout) {
  return predict(job, layout, JOBS_RANKS_MAX).memory;
}

/* ---- memory ---- */

/* With data parallelism only, the planner predicts what train_memory_predict does, to the byte. */
Test(plan_memory, as_the_store_and_the_model) {
  train_plan_job_t job = small_job();
  train_layout_t *whole;
  cr_assert_eq(train_layout_create(&job.model, &whole), COLL_OK);
  for (int i = 0; i < 4 * 3 * TRAIN_PRECISIONS; i++) {
    train_plan_layout_t layout = layout_of(4, 1, 1, 1);
    layout.zero = i % 4;
    layout.schedule.micro_batches = 2;
    layout.recompute = (train_recompute_t)(i / 4 % 3);
    job.precision = (train_precision_t)(i / 12);
    const train_store_options_t store = {
        .stage = layout.zero, .bucket_bytes = job.bucket_bytes, .precision = job.precision};
    const train_model_options_t model = {
        .sequences = 2, .recompute = layout.recompute, .precision = job.precision};
    train_memory_t expected;
    cr_assert_eq(train_memory_predict(whole, &model, &store, 4, &expected), COLL_OK);
    const train_plan_memory_t memory = memory_of(&job, &layout);
    cr_expect_eq(memory.parameters, expected.parameters);
    cr_expect_eq(memory.weights, expected.weights);
    cr_expect_eq(memory.gradients, expected.gradients);
    cr_expect_eq(memory.moments, expected.moments);
    cr_expect_eq(memory.workspaces, expected.workspaces);
    cr_expect_eq(memory.activations, expected.activations);
    cr_expect_eq(memory.buffers, 0);
  }
  train_layout_destroy(whole);
}

/* Two tensor ranks: 129 of 257 token rows, 32 positions, the final layernorm; each block half of
 * 12 C^2 + 7 C, and 6 C whole. C = 64. */
Test(plan_memory, parameters_of_a_tensor_rank) {
  const train_plan_job_t job = small_job();
  const train_plan_layout_t layout = layout_of(1, 2, 1, 1);
  const train_plan_memory_t memory = memory_of(&job, &layout);
  size_t root = (129 + 32 + 2) * 64, block = (12 * 64 * 64 + 7 * 64) / 2 + 6 * 64;
  cr_expect_eq(memory.parameters, 4 * (root + 4 * block));
  cr_expect_eq(memory.moments, 8 * (root + 4 * block));
}

/* The first of four stages holds the token and position tables and most micro-batches. */
Test(plan_memory, first_stage) {
  train_plan_job_t job = small_job();
  job.batch = 8192;
  train_plan_layout_t layout = layout_of(1, 1, 1, 4);
  layout.schedule.micro_batches = 8;
  const train_plan_memory_t memory = memory_of(&job, &layout);
  cr_expect_eq(memory.stage, 0);
  cr_expect_eq(memory.parameters, 4 * ((257 + 32) * 64 + 12 * 64 * 64 + 13 * 64));
  layout.schedule.kind = TRAIN_SCHEDULE_NAIVE;
  const train_plan_memory_t fewer = memory_of(&job, &layout);
  /* 3 micro-batches of 1024 x 32 positions more: the stage's input and 16 C of its layer, with
   * means, deviations and sums of 4 heads. Arenas are whole huge pages. */
  size_t pass = 1024 * 32 * (64 + 16 * 64 + 2 + 2 + 4) * 4, more = memory.activations;
  more -= fewer.activations;
  cr_expect_float_eq((double)more, 3.0 * (double)pass, 2 << 20);
  cr_expect_eq(memory.buffers % (1024 * 32 * 64 * 4), 0); /* of a channel to the second stage */
  cr_expect_gt(memory.buffers, 0);
}

/* Of long sequences a context rank holds a part, and with sequence parallelism a tensor rank. */
Test(plan_memory, falls_with_context_and_sequence_parallelism) {
  train_plan_job_t job = small_job();
  train_plan_layout_t layout = layout_of(1, 1, 1, 1);
  job.model.context = 4096;
  job.model.layers = 32; /* which share the buffers of the ring */
  size_t whole = memory_of(&job, &layout).activations;
  layout = layout_of(1, 1, 4, 1);
  cr_expect_lt((double)memory_of(&job, &layout).activations, 0.27 * (double)whole);
  layout = layout_of(1, 4, 1, 1);
  size_t replicated = memory_of(&job, &layout).activations;
  layout.sequence = true;
  size_t cut = memory_of(&job, &layout).activations;
  cr_expect_lt(replicated, whole);
  cr_expect_lt(cut, replicated);
}

static train_plan_job_t experts_job(int experts, int top_k) {
  train_plan_job_t job = small_job();
  job.model.experts = experts;
  job.model.top_k = top_k;
  job.model.moe_every = 1;
  return job;
}

static train_plan_layout_t experts_layout(int dp, int ep) {
  const train_mesh_options_t options = {.size = {1, 1, dp, 1}, .ep = ep};
  train_plan_layout_t layout = layout_of(dp, 1, 1, 1);
  train_mesh_shape_init(&options, dp, &layout.mesh);
  return layout;
}

/* The elements that traffic is computed from are those of the layouts of the parts. */
static void check_parts(const train_plan_job_t *job) {
  const int divisions[][2] = {{1, 1}, {2, 1}, {4, 1}, {1, 3}, {2, 2}, {4, 4}};
  for (size_t i = 0; i < sizeof divisions / sizeof divisions[0]; i++) {
    const train_plan_layout_t layout = layout_of(1, divisions[i][0], 1, divisions[i][1]);
    for (int place = 0; place < layout.mesh.ranks; place++) {
      int tensor_rank = place % divisions[i][0], stage = place / divisions[i][0];
      train_part_t part = plan_part(job, &layout, stage);
      train_layout_t *made;
      train_partition_t *partition;
      part.tensor_rank = tensor_rank;
      cr_assert_eq(train_layout_create_part(&job->model, &part, &made), COLL_OK);
      cr_assert_eq(plan_partition(job, &layout, stage, &partition), COLL_OK);
      cr_expect_eq(partition->count, made->parameter_count);
      cr_expect_eq(partition->unit_count, made->unit_count);
      for (int unit = 0; unit < made->unit_count; unit++) {
        cr_expect_eq(partition->units[unit].count, made->units[unit].count);
        cr_expect_eq(partition->units[unit].experts, made->units[unit].experts);
      }
      train_partition_destroy(partition);
      train_layout_destroy(made);
    }
  }
}

Test(plan_memory, parameters_of_parts) {
  train_plan_job_t job = small_job();
  check_parts(&job);
  job = experts_job(4, 2);
  job.model.moe_every = 2;
  check_parts(&job);
  job.model.shared_expert = 1;
  check_parts(&job);
}

/* Two ranks with two experts each instead of a MLP, whose parameters ep divides, and a router of
 * 4 x 64; attention and the layernorms are whole on both. */
Test(plan_memory, experts) {
  train_plan_job_t job = experts_job(4, 1);
  const train_plan_layout_t layout = experts_layout(2, 2);
  size_t expert = 8 * 64 * 64 + 5 * 64, block = 4 * 64 * 64 + 8 * 64 + 4 * 64 + 2 * expert;
  size_t root = (257 + 32 + 2) * 64;
  cr_expect_eq(memory_of(&job, &layout).parameters, 4 * (root + 4 * block));
}

/* ---- traffic ---- */

/* By all ranks, on one host. */
static uint64_t sent(const train_plan_job_t *job, const train_plan_layout_t *layout,
                     train_mesh_group_t group) {
  const train_plan_traffic_t traffic = predict(job, layout, JOBS_RANKS_MAX).traffic;
  cr_assert_eq(traffic.bytes[group][TRAIN_PLAN_BETWEEN], 0);
  return train_plan_bytes(&traffic, group);
}

/* Megatron-LM: 8 b s h (t - 1) / t elements of a rank and layer, with b s h = 16 x 32 x 64 and
 * t = 4. Outside the layers two allreduces, and an allgather of 3 floats for each of 512 rows. */
Test(plan_traffic, tensor) {
  const train_plan_job_t job = small_job();
  train_plan_layout_t layout = layout_of(1, 4, 1, 1);
  uint64_t stream = 16 * 32 * 64, layers = 4 * 4 * (8 * stream * 3 / 4) * 4;
  uint64_t edge = 4 * (2 * 2 * stream * 3 / 4) * 4 + 4 * (3 * 512 * 3) * 4;
  cr_expect_eq(sent(&job, &layout, TRAIN_MESH_TP), layers + edge);
  layout.schedule.micro_batches = 4; /* the same positions in four parts */
  cr_expect_eq(sent(&job, &layout, TRAIN_MESH_TP), layers + edge);
}

/* 10 b s h (t - 1) / t, and once per step an allreduce of 4 C for each layer and 2 C. */
Test(plan_traffic, sequence) {
  const train_plan_job_t job = small_job();
  train_plan_layout_t layout = layout_of(1, 4, 1, 1);
  layout.sequence = true;
  uint64_t stream = 16 * 32 * 64, layers = 4 * 4 * (10 * stream * 3 / 4) * 4;
  uint64_t edge = 4 * (2 * 2 * stream * 3 / 4) * 4 + 4 * (3 * 512 * 3) * 4;
  uint64_t gradients = 4 * (2 * (4 * 4 + 2) * 64 * 3 / 4) * 4;
  cr_expect_eq(sent(&job, &layout, TRAIN_MESH_TP), layers + edge + gradients);
}

/* 218560 parameters on 4 ranks: 2 (n - 1) / n of 4 bytes each for an allreduce. */
Test(plan_traffic, data) {
  train_plan_job_t job = small_job();
  train_plan_layout_t layout = layout_of(4, 1, 1, 1);
  uint64_t count = (257 + 32 + 2) * 64 + 4 * (12 * 64 * 64 + 13 * 64);
  cr_expect_eq(sent(&job, &layout, TRAIN_MESH_DATA), 3 * 2 * 4 * count);
  layout.zero = 1; /* all shards are whole cache lines here */
  cr_expect_eq(sent(&job, &layout, TRAIN_MESH_DATA), 3 * (4 + 4) * count);
  layout.zero = 2;
  layout.schedule.micro_batches = 2;
  cr_expect_eq(sent(&job, &layout, TRAIN_MESH_DATA), 3 * (4 * 2 + 4) * count);
  layout.zero = 3;
  job.precision = TRAIN_PRECISION_BF16;
  cr_expect_eq(sent(&job, &layout, TRAIN_MESH_DATA), 3 * (4 + 2 * 2) * 2 * count);
}

/* Recomputation of a block repeats the allreduce of attention's result; with sequence parallelism
 * two allgathers and a reduce-scatter. */
Test(plan_traffic, recomputation) {
  const train_plan_job_t job = small_job();
  train_plan_layout_t layout = layout_of(1, 4, 1, 1);
  uint64_t step = 16 * 32 * 64 * 3 * 4; /* (t - 1) b s h elements */
  uint64_t before = sent(&job, &layout, TRAIN_MESH_TP);
  layout.recompute = TRAIN_RECOMPUTE_ATTENTION;
  cr_expect_eq(sent(&job, &layout, TRAIN_MESH_TP), before);
  layout.recompute = TRAIN_RECOMPUTE_BLOCK;
  cr_expect_eq(sent(&job, &layout, TRAIN_MESH_TP), before + 4 * 2 * step);
  layout.sequence = true;
  layout.recompute = TRAIN_RECOMPUTE_NONE;
  before = sent(&job, &layout, TRAIN_MESH_TP);
  layout.recompute = TRAIN_RECOMPUTE_ATTENTION;
  cr_expect_eq(sent(&job, &layout, TRAIN_MESH_TP), before + 4 * step);
  layout.recompute = TRAIN_RECOMPUTE_BLOCK;
  cr_expect_eq(sent(&job, &layout, TRAIN_MESH_TP), before + 4 * 3 * step);
}

/* Four stages: the stream of all 16 x 32 positions passes three boundaries, and its gradient; two
 * ranks exchange the gradient of the token table. Interleaved on two ranks: three boundaries, too.
 */
Test(plan_traffic, pipeline) {
  const train_plan_job_t job = small_job();
  train_plan_layout_t layout = layout_of(1, 1, 1, 4);
  layout.schedule.micro_batches = 8;
  uint64_t stream = 16 * 32 * 64 * 4;
  cr_expect_eq(sent(&job, &layout, TRAIN_MESH_PP), 2 * 3 * stream);
  cr_expect_eq(sent(&job, &layout, TRAIN_MESH_EMBEDDING), 2 * 257 * 64 * 4);
  layout = layout_of(1, 1, 1, 2);
  layout.schedule.micro_batches = 8;
  layout.schedule.kind = TRAIN_SCHEDULE_INTERLEAVED;
  layout.schedule.chunks = 2;
  cr_expect_eq(sent(&job, &layout, TRAIN_MESH_PP), 2 * 3 * stream);
  layout = layout_of(1, 2, 1, 2); /* each tensor rank sends all rows, or its own */
  cr_expect_eq(sent(&job, &layout, TRAIN_MESH_PP), 2 * 2 * stream);
  layout.sequence = true;
  cr_expect_eq(sent(&job, &layout, TRAIN_MESH_PP), 2 * stream);
}

/* Four context ranks, 4 layers, each rank with 16 x 8 x 64 elements of keys and as many of values:
 * three steps forward and backward, and three of gradients. Ulysses: 8 exchanges of 3/4 of that. */
Test(plan_traffic, context) {
  const train_plan_job_t job = small_job();
  train_plan_layout_t layout = layout_of(1, 1, 4, 1);
  uint64_t own = 16 * 8 * 64 * 4;
  cr_expect_eq(sent(&job, &layout, TRAIN_MESH_CP), 4 * 4 * 3 * (2 * own * 3));
  layout.attention = TRAIN_CONTEXT_ULYSSES;
  cr_expect_eq(sent(&job, &layout, TRAIN_MESH_CP), 4 * 4 * 8 * own * 3 / 4);
}

/* Four expert ranks, two experts a token: dispatch and return, forward and backward, of 4 x 32 x 2
 * rows of each rank, 3/4 of them to others. */
Test(plan_traffic, experts) {
  train_plan_job_t job = experts_job(8, 2);
  const train_plan_layout_t layout = experts_layout(4, 4);
  uint64_t rows = 4 * 32 * 2 * 64 * 4;
  cr_expect_eq(sent(&job, &layout, TRAIN_MESH_EP), 4 * 4 * 4 * rows * 3 / 4);
}

/* Gradients of experts are summed by the two ranks that have them, four experts each of 33088
 * elements in each layer; of everything else by all four. */
Test(plan_traffic, gradients_of_experts) {
  train_plan_job_t job = experts_job(8, 2);
  const train_plan_layout_t layout = experts_layout(4, 2);
  uint64_t experts = 4 * 4 * (8 * 64 * 64 + 5 * 64), blocks = 4 * (4 * 64 * 64 + 8 * 64 + 8 * 64);
  cr_expect_eq(sent(&job, &layout, TRAIN_MESH_EXPERT_DATA), 2 * 2 * 4 * experts);
  cr_expect_eq(sent(&job, &layout, TRAIN_MESH_DATA), 3 * 2 * 4 * ((257 + 32 + 2) * 64 + blocks));
}

/* Hosts of two ranks. Four tensor ranks in a ring: every second message leaves its host. Two: none
 * does, but all of the data axis, as ranks 0 and 2 are on different hosts. */
Test(plan_traffic, link_classes) {
  const train_plan_job_t job = small_job();
  train_plan_layout_t layout = layout_of(1, 4, 1, 1);
  train_plan_traffic_t traffic = predict(&job, &layout, 2).traffic;
  const uint64_t *tensor = traffic.bytes[TRAIN_MESH_TP], *data = traffic.bytes[TRAIN_MESH_DATA];
  cr_expect_eq(tensor[TRAIN_PLAN_INSIDE], tensor[TRAIN_PLAN_BETWEEN]);
  layout = layout_of(2, 2, 1, 1);
  traffic = predict(&job, &layout, 2).traffic;
  cr_expect_gt(tensor[TRAIN_PLAN_INSIDE], 0);
  cr_expect_eq(tensor[TRAIN_PLAN_BETWEEN], 0);
  cr_expect_eq(data[TRAIN_PLAN_INSIDE], 0);
  cr_expect_gt(data[TRAIN_PLAN_BETWEEN], 0);
}

/* ---- time and metrics ---- */

/* One rank: 16 x 32 tokens at 6 (12 x 4 x 64^2 + 257 x 64) + 6 x 4 x 64 x 33 FLOPs each. */
Test(plan_time, one_rank) {
  const train_plan_job_t job = small_job();
  const train_plan_layout_t layout = layout_of(1, 1, 1, 1);
  const train_plan_time_t time = predict(&job, &layout, 1).time;
  double flops = 16 * 32 * (6.0 * (12 * 4 * 64 * 64 + 257 * 64) + 6 * 4 * 64 * 33);
  cr_expect_float_eq(time.step, flops / 1e12, 1e-15);
  cr_expect_float_eq(time.utilization, 1, 1e-9);
}

/* The time of a layout at 1 GB/s in operators, 2 GB/s in updates. */
static train_plan_time_t time_of(const train_plan_job_t *job, const train_plan_layout_t *layout) {
  int host_of[JOBS_RANKS_MAX];
  train_plan_machine_t machine = machine_of(layout->mesh.ranks, JOBS_RANKS_MAX, host_of);
  train_plan_cost_t cost;
  train_plan_limit_t limit;
  machine.operator_bandwidth = 1e9;
  machine.update_bandwidth = 2e9;
  cr_assert_eq(train_plan_predict(job, layout, &machine, &cost, &limit), COLL_OK);
  return cost.time;
}

/* 16 x 32 tokens; of each layer 33 C, of the embedding 8 C, of the final layernorm 5 C, and 4 x 257
 * logits. AdamW reads and writes 28 bytes of an element, the norm reads 4. */
Test(plan_time, operators_and_update) {
  train_plan_job_t job = small_job();
  train_plan_layout_t layout = layout_of(1, 1, 1, 1);
  double tokens = 16 * 32, edges = (8 + 5) * 64 + 4 * 257, elements = 218560;
  train_plan_time_t time = time_of(&job, &layout);
  cr_expect_float_eq(time.elementwise, tokens * 4 * (4 * 33 * 64 + edges) / 1e9, 1e-12);
  cr_expect_float_eq(time.update, elements * 32 / 2e9, 1e-12);
  cr_expect_float_eq(time.step, time.compute + time.update, 1e-12);
  cr_expect_float_eq(time.compute - time.elementwise, predict(&job, &layout, 1).time.compute,
                     1e-12);
  layout = layout_of(2, 1, 1, 1);
  layout.zero = 1;
  cr_expect_float_eq(time_of(&job, &layout).update, elements / 2 * 32 / 2e9, 1e-12);
}

/* Tensor ranks add residuals in an operator of its own, 18 C of rows of the stream, which sequence
 * parallelism divides as well as the final layernorm; 17 C are divided at any rate. */
Test(plan_time, operators_of_tensor_ranks) {
  const train_plan_job_t job = small_job();
  train_plan_layout_t layout = layout_of(1, 4, 1, 1);
  double whole = (4 * 2 + 8) * 64, stream = (4 * 18 + 5) * 64, divided = 4 * 17 * 64 + 4 * 257;
  double each = 16 * 32 * 4 / 1e9;
  cr_expect_float_eq(time_of(&job, &layout).elementwise, each * (whole + stream + divided / 4),
                     1e-12);
  layout.sequence = true;
  cr_expect_float_eq(time_of(&job, &layout).elementwise, each * (whole + (stream + divided) / 4),
                     1e-12);
}

/* Four stages of 1F1B with 8 micro-batches: the bubble is 3/8 of the last stage's computation,
 * which has the classifier; the fill is 6 messages of 2 x 32 x 64 floats, then the table. */
Test(plan_time, pipeline) {
  const train_plan_job_t job = small_job();
  train_plan_layout_t layout = layout_of(1, 1, 1, 4);
  layout.schedule.micro_batches = 8;
  const train_plan_time_t time = predict(&job, &layout, JOBS_RANKS_MAX).time;
  double compute = 16 * 32 * (6.0 * (12 * 64 * 64 + 257 * 64) + 6 * 64 * 33) / 1e12;
  cr_expect_float_eq(time.compute, compute, 1e-15);
  cr_expect_float_eq(time.bubble_share, 3.0 / 11, 1e-12);
  cr_expect_float_eq(time.bubble, compute * 3 / 8, 1e-15);
  double fill = 6 * (2 * 32 * 64 * 4 / 100e9 + 1e-6), table = 257 * 64 * 4 / 100e9;
  cr_expect_float_eq(time.exposed[TRAIN_MESH_PP], fill, 1e-15);
  cr_expect_float_eq(time.step, compute * 11 / 8 + fill + table, 1e-15);
}

/* An allreduce over two hosts at 10 GB/s: each of 2 ranks sends all parameters once, in one bucket
 * per unit with two messages, of which the backward pass covers its own duration. */
Test(plan_time, data) {
  train_plan_job_t job = small_job();
  const train_plan_layout_t layout = layout_of(2, 1, 1, 1);
  cr_expect_eq(predict(&job, &layout, 1).time.exposed[TRAIN_MESH_DATA], 0);
  job.batch = 2;
  const train_plan_time_t time = predict(&job, &layout, 1).time;
  double transfer = 218560 * 4 / 10e9 + 5 * 2 * 5e-6, backward = time.compute * 2 / 3;
  cr_expect_float_eq(time.exposed[TRAIN_MESH_DATA], transfer - backward, 1e-12);
}

/* GPT-2 on sequences of 1024 tokens: 6 x (84934656 + 38597376) + 6 x 12 x 768 x 1025. */
Test(metrics, flops_per_token) {
  const train_model_config_t gpt2 = {50257, 1024, 12, 12, 768};
  cr_expect_float_eq(train_metrics_flops_per_token(&gpt2, 1024), 797870592.0, 0.5);
}

/* Two of eight experts besides a shared one in every second layer. */
Test(metrics, flops_of_experts) {
  const train_model_config_t config = {257, 32, 2, 4, 64, 8, 2, 2, 1};
  double dense = 6 * (12.0 * 64 * 64 + 64 * 33), head = 6.0 * 257 * 64;
  double routed = dense + 6 * (2 * 8.0 * 64 * 64 + 8 * 64);
  cr_expect_float_eq(train_metrics_flops_per_token(&config, 32), dense + routed + head, 1e-6);
}

Test(metrics, shares) {
  const double busy[] = {3, 1};
  cr_expect_float_eq(train_metrics_mfu(1e9, 100, 1e12), 0.1, 1e-12);
  cr_expect_float_eq(train_metrics_bubble(busy, 2, 4), 0.5, 1e-12);
  cr_expect_float_eq(train_metrics_exposed(0.5, 2), 0.25, 1e-12);
  cr_expect_eq(train_metrics_mfu(1, 1, 0), 0);
  cr_expect_eq(train_metrics_bubble(busy, 2, 0), 0);
}
