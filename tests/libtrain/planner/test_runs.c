/*
 * Predictions of layouts against runs of them: memory of every rank against what its store and its
 * executor allocate, and bytes on the axes against what they count.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

#include "counting.h"
#include "harness/party.h"
#include "harness/sample.h"
#include "jobs.h"
#include "libtrain/mesh/mesh.h"
#include "libtrain/parallel/executor.h"
#include "libtrain/parallel/ranks.h"
#include "libtrain/planner/parts.h"
#include "libtrain/planner/search.h"

#define TIMEOUT_MS 60000
#define TOLERANCE 0.01

/* A layout as the planner and as the executor have it. */
typedef struct run {
  train_plan_job_t job;
  train_plan_layout_t layout;
  size_t allocated[JOBS_RANKS_MAX]; /* by rank */
  uint64_t sent[JOBS_RANKS_MAX][TRAIN_MESH_GROUPS];
} run_t;

typedef struct worker {
  run_t *run;
  train_mesh_t *mesh;
  train_ranks_t ranks;
  train_layout_t *layout;
  train_store_t *store;
  train_executor_t *executor;
} worker_t;

/* 8 layers of width 128, so that the few KiB of bookkeeping are little. */
static train_plan_job_t run_job(train_precision_t precision) {
  return (train_plan_job_t){.model = {1024, 64, 8, 4, 128},
                            .batch = 16,
                            .precision = precision,
                            .bucket_bytes = (size_t)1 << 20};
}

static void read_rows(void *context, int micro_batch, int32_t *tokens, int32_t *targets) {
  const worker_t *worker = context;
  const train_plan_layout_t *layout = &worker->run->layout;
  int rows = plan_sequences(&worker->run->job, layout) * worker->run->job.model.context;
  for (int i = 0; i < rows; i++) {
    tokens[i] = (i * 7 + micro_batch) % worker->run->job.model.vocabulary;
    targets[i] = (tokens[i] + 1) % worker->run->job.model.vocabulary;
  }
}

/* Then the memory is compared, but no step is run. */
static bool updates_apart(const run_t *run) {
  return train_schedule_is_asynchronous(run->layout.schedule.kind);
}

static int divide(party_rank_t *party, worker_t *worker) {
  const run_t *run = worker->run;
  train_group_t all;
  train_placement_t placement;
  PARTY_OK(train_group_init(party->comm, &all));
  PARTY_OK(train_placement_init(party->size, NULL, &placement));
  PARTY_OK(train_mesh_create(&all, &run->layout.mesh, &placement, &worker->mesh));
  worker->ranks = train_ranks_of_mesh(worker->mesh, run->layout.sequence, run->layout.attention);
  const train_part_t part = train_ranks_cut(worker->mesh, run->job.model.layers,
                                            run->layout.schedule.chunks, run->layout.blocks);
  PARTY_OK(train_layout_create_part(&run->job.model, &part, &worker->layout));
  return 0;
}

static int create(worker_t *worker) {
  const run_t *run = worker->run;
  const train_plan_layout_t *layout = &run->layout;
  train_store_options_t store = TRAIN_STORE_OPTIONS_INIT;
  const train_executor_options_t options = {
      .model = {.sequences = plan_sequences(&run->job, layout),
                .recompute = layout->recompute,
                .slices = layout->slices,
                .precision = run->job.precision},
      .micro_batches = layout->schedule.micro_batches,
      .schedule = layout->schedule.kind,
      .steps = layout->schedule.steps};
  store.stage = layout->zero;
  store.precision = run->job.precision;
  store.bucket_bytes = run->job.bucket_bytes;
  if (train_part_groups_experts(&worker->layout->part)) store.experts = &worker->ranks.experts;
  PARTY_OK(train_store_create(worker->layout, &worker->ranks.data, &store, &worker->store));
  PARTY_OK(train_executor_create(worker->store, &worker->ranks, &options, &worker->executor));
  return 0;
}

/* Sums and agreements of other parts are counted before and after, not here. */
static int step(party_rank_t *party, worker_t *worker) {
  static const train_adamw_t adamw = TRAIN_ADAMW_INIT;
  const train_rows_t rows = {.read = read_rows, .context = worker};
  double loss, squares;
  PARTY_OK(train_store_initialize(worker->store, 1));
  for (int group = 0; group < TRAIN_MESH_GROUPS; group++) worker->mesh->axes[group].bytes_sent = 0;
  PARTY_OK(train_executor_gradients(worker->executor, &rows, 1e-3F, &loss));
  PARTY_OK(train_store_finish(worker->store, &squares));
  PARTY_OK(train_store_update(worker->store, &adamw, 1, 1e-3F, 1));
  for (int group = 0; group < TRAIN_MESH_GROUPS; group++) {
    worker->run->sent[party->rank][group] = worker->mesh->axes[group].bytes_sent;
  }
  return 0;
}

static int body(party_rank_t *party) {
  worker_t worker = {.run = party->context};
  int failed = divide(party, &worker);
  size_t before = counting_bytes();
  if (failed == 0) failed = create(&worker);
  worker.run->allocated[party->rank] = counting_bytes() - before;
  if (failed == 0 && !updates_apart(worker.run)) failed = step(party, &worker);
  PARTY_OK(coll_barrier(party->comm, NULL));
  train_executor_destroy(worker.executor);
  train_store_destroy(worker.store);
  train_layout_destroy(worker.layout);
  train_mesh_destroy(worker.mesh);
  return failed;
}

/* Tensor rank 0 holds the most tokens; the table is divided evenly here. */
static void compare_memory(const run_t *run, const char *flags) {
  plan_parts_t parts;
  cr_assert_eq(plan_parts_init(&run->job, &run->layout, &parts), COLL_OK);
  for (int rank = 0; rank < run->layout.mesh.ranks; rank++) {
    int stage = train_mesh_coordinate(&run->layout.mesh, TRAIN_MESH_PP, rank);
    train_plan_memory_t memory;
    cr_assert_eq(plan_memory_of_stage(&run->job, &run->layout, &parts, stage, &memory), COLL_OK);
    cr_expect_float_eq((double)memory.total, (double)run->allocated[rank],
                       TOLERANCE * (double)run->allocated[rank],
                       "%s: rank %d allocates %zu bytes, planned are %zu", flags, rank,
                       run->allocated[rank], memory.total);
  }
  plan_parts_free(&parts);
}

static void compare_traffic(const run_t *run, const char *flags) {
  const train_mesh_group_t groups[] = {TRAIN_MESH_TP, TRAIN_MESH_CP, TRAIN_MESH_EMBEDDING};
  int host_of[JOBS_RANKS_MAX];
  const train_plan_machine_t machine = machine_of(run->layout.mesh.ranks, 64, host_of);
  train_plan_cost_t cost;
  train_plan_limit_t limit;
  cr_assert_eq(train_plan_predict(&run->job, &run->layout, &machine, &cost, &limit), COLL_OK);
  for (int i = 0; i < 3; i++) {
    uint64_t sent = 0;
    for (int rank = 0; rank < run->layout.mesh.ranks; rank++) sent += run->sent[rank][groups[i]];
    cr_expect_eq(sent, train_plan_bytes(&cost.traffic, groups[i]),
                 "%s: %llu bytes are sent on %s, planned are %llu", flags, (unsigned long long)sent,
                 train_mesh_group_name(groups[i]),
                 (unsigned long long)train_plan_bytes(&cost.traffic, groups[i]));
  }
}

static void check(const train_plan_job_t *job, const train_plan_layout_t *layout) {
  run_t run = {.job = *job, .layout = *layout};
  harness_result_t result;
  char flags[TRAIN_PLAN_FLAGS_BYTES];
  train_plan_limit_t limit;
  train_plan_flags(layout, flags);
  cr_assert_eq(train_plan_check(&run.job, layout, &limit), COLL_OK, "%s: %s", flags,
               base_last_error());
  cr_assert(party_threads(layout->mesh.ranks, TIMEOUT_MS, body, &run, &result), "%s: %s", flags,
            result.text);
  compare_memory(&run, flags);
  if (!updates_apart(&run)) compare_traffic(&run, flags);
}

static train_plan_layout_t with(train_plan_layout_t layout, int zero, bool sequence, int micro,
                                train_recompute_t recompute) {
  layout.zero = zero;
  layout.sequence = sequence;
  layout.schedule.micro_batches = micro;
  layout.recompute = recompute;
  return layout;
}

static train_plan_layout_t scheduled(train_plan_layout_t layout, train_schedule_kind_t kind,
                                     int chunks) {
  layout.schedule.kind = kind;
  layout.schedule.chunks = chunks;
  return layout;
}

static train_plan_layout_t sliced(train_plan_layout_t layout, train_slices_t slices) {
  layout.schedule.kind = TRAIN_SCHEDULE_TERAPIPE;
  layout.schedule.slices = slices.count;
  layout.slices = slices;
  return layout;
}

static void check_all(const train_plan_layout_t layouts[], size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (!harness_takes(HARNESS_LAYOUTS, (unsigned)i)) continue;
    const train_plan_job_t job =
        run_job(i % 3 == 2 ? TRAIN_PRECISION_BF16 : TRAIN_PRECISION_FLOAT32);
    check(&job, &layouts[i]);
  }
}

Test(planned_runs, data_and_tensor) {
  const train_recompute_t none = TRAIN_RECOMPUTE_NONE, attention = TRAIN_RECOMPUTE_ATTENTION,
                          block = TRAIN_RECOMPUTE_BLOCK;
  const train_plan_layout_t layouts[] = {with(layout_of(1, 1, 1, 1), 0, false, 2, none),
                                         with(layout_of(2, 1, 1, 1), 0, false, 1, attention),
                                         with(layout_of(4, 1, 1, 1), 1, false, 2, none),
                                         with(layout_of(4, 1, 1, 1), 2, false, 2, block),
                                         with(layout_of(4, 1, 1, 1), 3, false, 1, none),
                                         with(layout_of(1, 2, 1, 1), 0, false, 2, none),
                                         with(layout_of(1, 4, 1, 1), 0, false, 1, block),
                                         with(layout_of(1, 4, 1, 1), 0, true, 2, none),
                                         with(layout_of(1, 2, 1, 1), 0, true, 1, attention),
                                         with(layout_of(2, 2, 1, 1), 1, true, 2, block),
                                         with(layout_of(2, 2, 1, 1), 3, false, 2, none)};
  check_all(layouts, sizeof layouts / sizeof layouts[0]);
}

Test(planned_runs, pipelines) {
  const train_recompute_t none = TRAIN_RECOMPUTE_NONE, block = TRAIN_RECOMPUTE_BLOCK;
  const train_plan_layout_t two = with(layout_of(1, 1, 1, 2), 0, false, 4, none);
  const train_plan_layout_t four = with(layout_of(1, 1, 1, 4), 0, false, 8, none);
  const train_plan_layout_t tensor = with(layout_of(1, 2, 1, 2), 0, true, 4, block);
  const train_plan_layout_t stored = with(layout_of(1, 2, 1, 2), 0, true, 4, none);
  const train_plan_layout_t all = with(layout_of(2, 2, 1, 2), 1, true, 4, none);
  const train_plan_layout_t layouts[] = {scheduled(two, TRAIN_SCHEDULE_NAIVE, 1),
                                         scheduled(two, TRAIN_SCHEDULE_GPIPE, 1),
                                         scheduled(two, TRAIN_SCHEDULE_1F1B, 1),
                                         scheduled(four, TRAIN_SCHEDULE_1F1B, 1),
                                         scheduled(four, TRAIN_SCHEDULE_GPIPE, 1),
                                         scheduled(two, TRAIN_SCHEDULE_INTERLEAVED, 2),
                                         scheduled(two, TRAIN_SCHEDULE_INTERLEAVED, 4),
                                         scheduled(four, TRAIN_SCHEDULE_ZB_H1, 1),
                                         scheduled(stored, TRAIN_SCHEDULE_ZB_H1, 1),
                                         scheduled(tensor, TRAIN_SCHEDULE_1F1B, 1),
                                         scheduled(tensor, TRAIN_SCHEDULE_INTERLEAVED, 2),
                                         scheduled(all, TRAIN_SCHEDULE_1F1B, 1)};
  check_all(layouts, sizeof layouts / sizeof layouts[0]);
}

static train_plan_layout_t cut(train_plan_layout_t layout, const int blocks[]) {
  layout.blocks = blocks;
  layout.block_ranges = layout.schedule.stages * layout.schedule.chunks;
  return layout;
}

/* Of 8 layers, some stages have none. */
Test(planned_runs, uneven_stages) {
  const train_recompute_t none = TRAIN_RECOMPUTE_NONE, block = TRAIN_RECOMPUTE_BLOCK;
  const int uneven[] = {1, 3, 2, 2}, ends[] = {0, 5, 3, 0}, head[] = {8, 0}, table[] = {0, 8};
  const train_plan_layout_t two = with(layout_of(1, 1, 1, 2), 0, false, 4, none);
  const train_plan_layout_t four = with(layout_of(1, 1, 1, 4), 0, false, 8, block);
  const train_plan_layout_t tensor = with(layout_of(2, 2, 1, 2), 1, true, 2, none);
  const train_plan_layout_t layouts[] = {cut(scheduled(four, TRAIN_SCHEDULE_1F1B, 1), uneven),
                                         cut(scheduled(four, TRAIN_SCHEDULE_GPIPE, 1), ends),
                                         cut(scheduled(two, TRAIN_SCHEDULE_ZB_H1, 1), head),
                                         cut(scheduled(two, TRAIN_SCHEDULE_INTERLEAVED, 2), ends),
                                         cut(scheduled(tensor, TRAIN_SCHEDULE_1F1B, 1), table)};
  check_all(layouts, sizeof layouts / sizeof layouts[0]);
}

static train_plan_layout_t updating_apart(train_plan_layout_t layout, train_schedule_kind_t kind,
                                          int steps) {
  layout = scheduled(layout, kind, 1);
  layout.schedule.steps = steps;
  return layout;
}

/* Stages keep older versions of the weights: the first one of PipeDream p - 1, of 2BW one. */
Test(planned_runs, versions_of_weights) {
  const train_recompute_t none = TRAIN_RECOMPUTE_NONE, block = TRAIN_RECOMPUTE_BLOCK;
  const train_schedule_kind_t pipedream = TRAIN_SCHEDULE_PIPEDREAM,
                              two_versions = TRAIN_SCHEDULE_PIPEDREAM_2BW;
  const int uneven[] = {1, 7};
  const train_plan_layout_t layouts[] = {
      updating_apart(with(layout_of(1, 1, 1, 2), 0, false, 1, none), pipedream, 8),
      updating_apart(with(layout_of(1, 1, 1, 4), 0, false, 1, none), pipedream, 20),
      updating_apart(with(layout_of(1, 2, 1, 2), 0, true, 1, block), pipedream, 8),
      updating_apart(with(layout_of(2, 1, 1, 2), 1, false, 1, none), pipedream, 8),
      updating_apart(with(layout_of(1, 1, 1, 4), 0, false, 4, none), two_versions, 6),
      updating_apart(with(layout_of(1, 1, 1, 4), 0, false, 1, none), two_versions, 9),
      updating_apart(with(layout_of(2, 1, 1, 2), 1, false, 2, block), two_versions, 6),
      cut(updating_apart(with(layout_of(1, 1, 1, 2), 0, false, 4, none), two_versions, 6), uneven)};
  for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
    train_plan_job_t job = run_job(i % 2 ? TRAIN_PRECISION_BF16 : TRAIN_PRECISION_FLOAT32);
    job.model.untied = 1;
    check(&job, &layouts[i]);
  }
}

Test(planned_runs, slices) {
  const train_recompute_t none = TRAIN_RECOMPUTE_NONE, attention = TRAIN_RECOMPUTE_ATTENTION,
                          block = TRAIN_RECOMPUTE_BLOCK;
  const train_slices_t even = {2, {32, 32}}, uneven = {4, {26, 18, 12, 8}};
  const train_plan_layout_t layouts[] = {
      sliced(with(layout_of(1, 1, 1, 2), 0, false, 4, none), even),
      sliced(with(layout_of(1, 1, 1, 4), 0, false, 2, none), uneven),
      sliced(with(layout_of(2, 1, 1, 2), 1, false, 2, attention), uneven),
      sliced(with(layout_of(1, 2, 1, 2), 0, false, 4, block), uneven),
      sliced(with(layout_of(1, 2, 1, 2), 0, true, 2, none), uneven)};
  check_all(layouts, sizeof layouts / sizeof layouts[0]);
}

static train_plan_layout_t attending(train_plan_layout_t layout, train_context_kind_t kind) {
  layout.attention = kind;
  return layout;
}

Test(planned_runs, contexts) {
  const train_recompute_t none = TRAIN_RECOMPUTE_NONE, block = TRAIN_RECOMPUTE_BLOCK;
  const train_plan_layout_t two = with(layout_of(1, 1, 2, 1), 0, false, 2, none);
  const train_plan_layout_t four = with(layout_of(1, 1, 4, 1), 1, false, 1, block);
  const train_plan_layout_t tensor = with(layout_of(1, 2, 2, 1), 0, true, 2, none);
  const train_plan_layout_t all = with(layout_of(1, 2, 2, 2), 1, false, 4, none);
  const train_plan_layout_t layouts[] = {
      attending(two, TRAIN_CONTEXT_RING),    attending(two, TRAIN_CONTEXT_ULYSSES),
      attending(four, TRAIN_CONTEXT_RING),   attending(four, TRAIN_CONTEXT_ULYSSES),
      attending(tensor, TRAIN_CONTEXT_RING), attending(all, TRAIN_CONTEXT_ULYSSES)};
  check_all(layouts, sizeof layouts / sizeof layouts[0]);
}

/* Two of four experts a token in every second block, whole or divided over ranks. */
Test(planned_runs, experts) {
  train_plan_job_t job = run_job(TRAIN_PRECISION_FLOAT32);
  job.model.experts = 4;
  job.model.top_k = 2;
  job.model.moe_every = 2;
  const train_mesh_options_t options = {.size = {1, 1, 4, 1}, .ep = 2};
  train_plan_layout_t layout = layout_of(2, 1, 1, 1);
  check(&job, &layout);
  layout = with(layout_of(4, 1, 1, 1), 1, false, 2, TRAIN_RECOMPUTE_NONE);
  train_mesh_shape_init(&options, 4, &layout.mesh);
  check(&job, &layout);
  layout.recompute = TRAIN_RECOMPUTE_BLOCK;
  check(&job, &layout);
}

/* Experts that tensor ranks cut, with and without a shared one. */
Test(planned_runs, experts_on_tensor_ranks) {
  train_plan_job_t job = run_job(TRAIN_PRECISION_FLOAT32);
  job.model.experts = 4;
  job.model.top_k = 2;
  job.model.moe_every = 2;
  for (int i = 0; i < 8; i++) {
    const train_plan_layout_t layout =
        with(layout_of(1, 2, 1, 1), 0, i % 2 == 1, 2,
             i / 2 % 2 == 1 ? TRAIN_RECOMPUTE_BLOCK : TRAIN_RECOMPUTE_NONE);
    job.model.shared_expert = i / 4;
    check(&job, &layout);
  }
}

/* Experts that tensor ranks do not cut, alone and divided over data ranks. */
Test(planned_runs, whole_experts) {
  train_plan_job_t job = run_job(TRAIN_PRECISION_FLOAT32);
  job.model.experts = 4;
  job.model.top_k = 2;
  job.model.moe_every = 2;
  for (int data = 1; data <= 2; data++) {
    const train_mesh_options_t options = {.size = {2, 1, data, 1}, .ep = data, .etp = 1};
    for (int zero = 0; zero <= 3; zero += data == 1 ? 1 : 3) {
      train_plan_layout_t layout =
          with(layout_of(data, 2, 1, 1), zero, data == 2, 2, TRAIN_RECOMPUTE_NONE);
      train_mesh_shape_init(&options, 2 * data, &layout.mesh);
      check(&job, &layout);
    }
  }
}

Test(planned_runs, split_experts) {
  train_plan_job_t job = run_job(TRAIN_PRECISION_FLOAT32);
  job.model.experts = 4;
  job.model.top_k = 2;
  job.model.moe_every = 2;
  job.model.shared_expert = 1;
  const train_mesh_options_t options = {.size = {1, 1, 2, 2}, .ep = 2};
  train_plan_layout_t layout = scheduled(
      with(layout_of(1, 1, 1, 2), 0, false, 4, TRAIN_RECOMPUTE_NONE), TRAIN_SCHEDULE_ZB_H1, 1);
  check(&job, &layout);
  train_mesh_shape_init(&options, 4, &layout.mesh);
  check(&job, &layout);
  layout = scheduled(with(layout_of(1, 2, 1, 2), 0, true, 4, TRAIN_RECOMPUTE_NONE),
                     TRAIN_SCHEDULE_ZB_H1, 1);
  check(&job, &layout);
  job.model.shared_expert = 0;
  check(&job, &layout);
}

/* ---- forward passes alone ---- */

static int forward_body(party_rank_t *party) {
  worker_t worker = {.run = party->context};
  const train_model_options_t model = {.sequences = 4, .precision = worker.run->job.precision};
  const train_param_provider_t unused = {0};
  PARTY_TRY(divide(party, &worker));
  size_t before = counting_bytes(),
         planned = train_executor_predict_forward(worker.layout, &worker.ranks, &model);
  PARTY_OK(train_executor_create_forward(worker.layout, &unused, &worker.ranks, &model,
                                         &worker.executor));
  double allocated = (double)(counting_bytes() - before);
  PARTY_REQUIRE(fabs((double)planned - allocated) <= TOLERANCE * allocated,
                "%.0f bytes are allocated, planned are %zu", allocated, planned);
  PARTY_OK(coll_barrier(party->comm, NULL));
  train_executor_destroy(worker.executor);
  train_layout_destroy(worker.layout);
  train_mesh_destroy(worker.mesh);
  return 0;
}

Test(planned_runs, forward_passes) {
  const train_plan_layout_t layouts[] = {layout_of(1, 1, 1, 1), layout_of(1, 2, 1, 1),
                                         layout_of(1, 1, 2, 1), layout_of(1, 1, 1, 4),
                                         layout_of(2, 2, 1, 2)};
  for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
    run_t run = {.job = run_job(TRAIN_PRECISION_FLOAT32), .layout = layouts[i]};
    harness_result_t result;
    char flags[TRAIN_PLAN_FLAGS_BYTES];
    cr_assert(party_threads(layouts[i].mesh.ranks, TIMEOUT_MS, forward_body, &run, &result),
              "%s: %s", train_plan_flags(&layouts[i], flags), result.text);
  }
}
