/* Every rank adds what it owns to the arrays of the outcome, which all ranks share. */
#include "libtrain/layouts/worker.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "coll_algo.h"

#include "libtrain/common/random.h"
#include "libtrain/files/model_file.h"
#include "libtrain/parallel/save.h"
#include "libtrain/parallel/store_state.h"

#define TIMEOUT_MS 120000
#define SEED 5
#define RATE 1e-3f
#define CLIP 1.0
#define CHOICES_PER_DIFFERENCE 200

const train_model_config_t layout_config = {
    .vocabulary = 61, .context = 32, .layers = 4, .heads = 4, .width = 64};

const train_model_config_t layout_two_of_eight = {.vocabulary = 62,
                                                  .context = 32,
                                                  .layers = 4,
                                                  .heads = 4,
                                                  .width = 64,
                                                  .experts = 8,
                                                  .top_k = 2,
                                                  .moe_every = 4,
                                                  .shared_expert = 1};

const train_model_config_t *layout_trial_config(const layout_trial_t *trial) {
  return trial->config != NULL ? trial->config : &layout_config;
}

static const train_adamw_t adamw = TRAIN_ADAMW_INIT;

static int at_least_1(int value) {
  return value > 0 ? value : 1;
}

static int steps_of(const layout_trial_t *trial) {
  return trial->steps > 0 ? trial->steps : layout_steps();
}

const char *layout_trial_text(const layout_trial_t *trial, char text[200]) {
  snprintf(text, 200,
           "dp %d tp %d%s overlap %d%s cp %d%s pp %d %s x %d slices %d ep %d etp %d %s %d, "
           "%d micro-batches",
           at_least_1(trial->dp), at_least_1(trial->tp), trial->sequence_parallel ? " sp" : "",
           trial->tensor_overlap, trial->serial ? " serial" : "", at_least_1(trial->cp),
           trial->context_kind == TRAIN_CONTEXT_ULYSSES ? " ulysses" : "", at_least_1(trial->pp),
           train_schedule_names[trial->schedule], at_least_1(trial->chunks),
           train_slices_count(&trial->slices), at_least_1(trial->ep), trial->etp,
           trial->naive ? "naive" : "zero", trial->zero, at_least_1(trial->micro_batches));
  return text;
}

/* ---- data ---- */

/* Text in which a token mostly determines the next one. */
static void fill_row(uint64_t step, int row, int32_t *tokens, int32_t *targets) {
  int context = layout_config.context;
  uint64_t at = (step * LAYOUT_BATCH + (uint64_t)row) * (uint64_t)(context + 1);
  uint64_t classes = (uint64_t)layout_config.vocabulary;
  int32_t token = (int32_t)train_random_below(SEED, TRAIN_RANDOM_BATCHES, at, classes);
  for (int i = 0; i < context; i++) {
    uint64_t noise = train_random_below(SEED, TRAIN_RANDOM_BATCHES, ++at, 3);
    tokens[i] = token;
    token = (int32_t)(((uint64_t)token * 7 + noise) % classes);
    targets[i] = token;
  }
}

static void read_rows(void *context, int micro_batch, int32_t *tokens, int32_t *targets) {
  const layout_worker_t *worker = context;
  int micro_batches = at_least_1(worker->job->trial->micro_batches);
  int rows = LAYOUT_BATCH / worker->ranks.shares / micro_batches;
  int first = (worker->ranks.share * micro_batches + micro_batch) * rows;
  for (int row = 0; row < rows; row++) {
    size_t at = (size_t)row * (size_t)layout_config.context;
    fill_row(worker->step, first + row, tokens + at, targets + at);
  }
}

/* ---- what the whole model has ---- */

void layout_worker_collect(const layout_worker_t *worker, const store_array_t *array,
                           float *whole) {
  const train_store_t *store = worker->store;
  for (int i = 0; i < store->partition->bucket_count; i++) {
    const train_bucket_t *bucket = &store->partition->buckets[i];
    size_t shard = store_shard_index(store, bucket->unit);
    size_t first = store_flat_offset(store, bucket) + shard * bucket->shard;
    bool alike = store->options.stage == 0; /* as on the first rank */
    if (alike && store_group_of(store, bucket->unit)->rank > 0) continue;
    const void *values = store_shard_values(store, array, bucket);
    for (size_t at = 0; at < train_bucket_owned(bucket, (int)shard); at++) {
      size_t full;
      float buffer;
      train_layout_run(worker->layout, first + at, &full);
      const train_tensor_t *tensor = train_layout_tensor_at(worker->layout, first + at);
      if (tensor == NULL || !tensor->owned) continue;
      whole[full] = *train_dtype_read(array->dtype, values, at, 1, &buffer);
    }
  }
}

/* The weights of this rank must have the bits that their owners have collected. */
static int compare_tensor_copy(const layout_worker_t *worker, const train_tensor_t *tensor) {
  const train_store_t *store = worker->store;
  const store_array_t *weights = &store->weights;
  const void *values = store_unit_values(store, weights, tensor->unit);
  size_t in_unit = tensor->offset - worker->layout->units[tensor->unit].offset;
  for (size_t at = 0; at < train_tensor_count(tensor); at++) {
    size_t full;
    float buffer;
    const float *own = train_dtype_read(weights->dtype, values, in_unit + at, 1, &buffer);
    train_layout_run(worker->layout, tensor->offset + at, &full);
    PARTY_REQUIRE(memcmp(own, &worker->job->outcome->copies[full], sizeof *own) == 0,
                  "element %zu of %s is %a, and %a on the rank that owns it", at, tensor->name,
                  (double)*own, (double)worker->job->outcome->copies[full]);
  }
  return 0;
}

static int compare_copies(const layout_worker_t *worker) {
  if (!worker->job->trial->compare_copies) return 0;
  layout_worker_collect(worker, &worker->store->weights, worker->job->outcome->copies);
  PARTY_OK(coll_barrier(worker->ranks.all.comm, NULL));
  for (int i = 0; i < worker->layout->tensor_count; i++) {
    PARTY_TRY(compare_tensor_copy(worker, &worker->layout->tensors[i]));
  }
  return 0;
}

/* ---- traffic ---- */

static int use_rings(const train_mesh_t *mesh) {
  static const struct {
    coll_collective_t collective;
    const char *algo;
  } forced[] = {{COLL_ALLREDUCE, "ring"}, {COLL_ALLGATHER, "ring"},  {COLL_REDUCE_SCATTER, "ring"},
                {COLL_REDUCE, "chain"},   {COLL_BROADCAST, "chain"}, {COLL_ALLTOALL, "pairwise"}};
  for (int group = 0; group < TRAIN_MESH_GROUPS; group++) {
    coll_comm_t comm = mesh->axes[group].group.comm;
    for (size_t i = 0; i < sizeof forced / sizeof forced[0] && comm != NULL; i++) {
      PARTY_OK(coll_comm_algo_set(comm, forced[i].collective, forced[i].algo));
    }
  }
  return 0;
}

/* Adds what libcoll has sent so far to the step's counts, or subtracts it. */
static coll_status_t add_wire(layout_worker_t *worker, bool subtract) {
  const train_traffic_sources_t counters = train_executor_counters(worker->executor);
  uint64_t bytes[TRAIN_TRAFFIC_AXES];
  COLL_TRY(train_traffic_wire(&counters, bytes));
  for (int i = 0; i < TRAIN_TRAFFIC_AXES; i++) worker->wired[i] += subtract ? -bytes[i] : bytes[i];
  return COLL_OK;
}

/* All ranks' counts of the step. */
static coll_status_t sum_traffic(layout_worker_t *worker) {
  layout_outcome_t *outcome = worker->job->outcome;
  train_traffic_t traffic[TRAIN_TRAFFIC_AXES];
  double sums[2 * TRAIN_TRAFFIC_AXES]; /* exact below 2^53 */
  train_executor_traffic(worker->executor, traffic);
  for (int i = 0; i < TRAIN_TRAFFIC_AXES; i++) {
    sums[2 * i] = (double)traffic[i].bytes_sent;
    sums[2 * i + 1] = (double)worker->wired[i];
    worker->wired[i] = 0;
  }
  COLL_TRY(train_group_sum_doubles(&worker->ranks.all, sums, 2 * TRAIN_TRAFFIC_AXES));
  if (worker->ranks.all.rank > 0 || outcome == NULL) return COLL_OK;
  for (int i = 0; i < TRAIN_TRAFFIC_AXES; i++) {
    outcome->counted[i] = (uint64_t)sums[2 * i];
    outcome->wired[i] = (uint64_t)sums[2 * i + 1];
  }
  return COLL_OK;
}

/* ---- training ---- */

coll_status_t layout_worker_gradients(layout_worker_t *worker, float scale, double sums[2]) {
  const train_rows_t rows = {.read = read_rows, .context = worker};
  COLL_TRY(train_executor_gradients(worker->executor, &rows, scale, &sums[0]));
  return train_store_finish(worker->store, &sums[1]);
}

static coll_status_t take_step(layout_worker_t *worker) {
  layout_outcome_t *outcome = worker->job->outcome;
  float mean = 1.0f / (float)(LAYOUT_BATCH * layout_config.context);
  double sums[2];
  COLL_TRY(add_wire(worker, true));
  COLL_TRY(layout_worker_gradients(worker, mean, sums));
  if (worker->step == 0 && outcome != NULL) {
    layout_worker_collect(worker, &worker->store->gradients, outcome->gradients);
  }
  COLL_TRY(add_wire(worker, false));
  COLL_TRY(train_group_sum_doubles(&worker->ranks.all, sums, 2));
  COLL_TRY(add_wire(worker, true));
  double norm = sqrt(sums[1]);
  COLL_TRY(train_store_update(worker->store, &adamw, train_gradient_clip(norm, CLIP), RATE,
                              worker->step + 1));
  COLL_TRY(add_wire(worker, false));
  COLL_TRY(sum_traffic(worker));
  if (worker->ranks.all.rank == 0 && outcome != NULL) {
    outcome->losses[worker->step] = sums[0] * (double)mean;
    outcome->norms[worker->step] = norm;
  }
  worker->step++;
  return COLL_OK;
}

int layout_worker_loss(const layout_worker_t *worker, int first, int count, double *loss) {
  int32_t *tokens = worker->evaluated, *targets = tokens + LAYOUT_BATCH * layout_config.context;
  for (int row = 0; row < count; row++) {
    size_t at = (size_t)row * (size_t)layout_config.context;
    fill_row(worker->step, first + row, tokens + at, targets + at);
  }
  PARTY_OK(train_executor_loss(worker->executor, tokens, targets, count, loss));
  return 0;
}

/* Evaluates a batch, in passes of fewer sequences than training where that is possible. */
static int evaluate(const layout_worker_t *worker, int sequences) {
  int rows = LAYOUT_BATCH / worker->ranks.shares, most = sequences > 1 ? sequences - 1 : 1;
  double sum = 0, loss;
  for (int row = 0, count; row < rows; row += count) {
    count = rows - row < most ? rows - row : most;
    PARTY_TRY(layout_worker_loss(worker, worker->ranks.share * rows + row, count, &loss));
    sum += loss;
  }
  PARTY_OK(train_group_sum_doubles(&worker->ranks.all, &sum, 1));
  if (worker->ranks.all.rank == 0) {
    worker->job->outcome->evaluated = sum / (LAYOUT_BATCH * layout_config.context);
  }
  return 0;
}

static void count_bytes(const layout_worker_t *worker) {
  const train_axis_t *context = worker->ranks.axes.context;
  if (worker->ranks.all.rank > 0 || context == NULL) return;
  worker->job->outcome->context_bytes = context->bytes_sent;
}

/* Loads the checkpoint to begin with. */
static int resume(layout_worker_t *worker) {
  train_model_file_t *file;
  PARTY_REQUIRE(train_model_file_open(worker->job->trial->resume, &file) == COLL_OK, "%s",
                base_last_error());
  PARTY_REQUIRE(train_store_load(worker->store, &file->flat) == COLL_OK, "%s", base_last_error());
  worker->step = file->metadata.position.step;
  train_model_file_close(file);
  return 0;
}

static int save(const layout_worker_t *worker, const char *path) {
  const train_metadata_t metadata = {.config = *layout_trial_config(worker->job->trial),
                                     .precision = worker->job->trial->precision,
                                     .position.step = worker->step,
                                     .moments = true};
  const train_pieces_t pieces = train_store_pieces(worker->store);
  if (path == NULL) return 0;
  PARTY_REQUIRE(train_checkpoint_save(&worker->ranks.all, path, &metadata, &pieces) == COLL_OK,
                "%s", base_last_error());
  return 0;
}

static int begin(layout_worker_t *worker) {
  if (worker->job->trial->resume != NULL) return resume(worker);
  PARTY_OK(train_store_initialize(worker->store, SEED));
  return 0;
}

/* Records choices of experts, on one of the tensor ranks, which choose alike; or replays them. */
static void set_replay(layout_worker_t *worker) {
  const layout_outcome_t *outcome = worker->job->outcome;
  bool records = outcome != NULL && worker->layout->part.tensor_rank == 0;
  worker->router = (layout_router_t){.replayed = worker->job->trial->replay,
                                     .recorded = records ? outcome->routing : NULL,
                                     .share = worker->ranks.share,
                                     .shares = worker->ranks.shares};
  worker->replay = layout_router_replay(&worker->router);
}

/* At the first step weights are equal, and so are choices, although none is prescribed; later a
 * rounding changes few, unless it is that of a narrow type. */
static int compare_choices(const layout_worker_t *worker) {
  const layout_router_t *router = &worker->router;
  if (worker->job->trial->bfloat16_wire) return 0;
  PARTY_REQUIRE(router->first_differing == 0, "%lld choices of experts differ at the first step",
                (long long)router->first_differing);
  PARTY_REQUIRE(router->differing * CHOICES_PER_DIFFERENCE <= router->choices,
                "%lld of %lld choices of experts differ", (long long)router->differing,
                (long long)router->choices);
  return 0;
}

static int create_executor(layout_worker_t *worker) {
  const layout_trial_t *trial = worker->job->trial;
  int micro_batches = at_least_1(trial->micro_batches);
  const train_executor_options_t options = {
      .model = {.sequences = LAYOUT_BATCH / worker->ranks.shares / micro_batches,
                .experts = {.capacity_factor = 1.25,
                            .balance = LAYOUT_BALANCE,
                            .z = LAYOUT_Z,
                            .replay = &worker->replay},
                .recompute = trial->recompute,
                .slices = trial->slices,
                .precision = trial->precision,
                .ops = trial->ops},
      .micro_batches = micro_batches,
      .schedule = trial->schedule,
      .steps = trial->steps};
  set_replay(worker);
  PARTY_OK(train_executor_create(worker->store, &worker->ranks, &options, &worker->executor));
  if (trial->rings) train_store_set_overlap(worker->store, false); /* counts are complete */
  if (trial->serial) train_executor_set_overlap(worker->executor, false);
  return 0;
}

/* The loss is this rank's part, and other stages are at other steps. */
static coll_status_t update(void *context, int step, double loss) {
  layout_worker_t *worker = context;
  double squares;
  worker->losses[step] = loss;
  COLL_TRY(train_store_finish(worker->store, &squares));
  return train_store_update(worker->store, &adamw, 1, RATE, (uint64_t)step + 1);
}

/* Of an asynchronous schedule. A stage may be done when another one dies: the sum fails then. */
static coll_status_t take_steps(layout_worker_t *worker, int steps) {
  const train_rows_t rows = {.read = read_rows, .context = worker};
  const train_updates_t updates = {.update = update, .context = worker};
  layout_outcome_t *outcome = worker->job->outcome;
  float mean = 1.0f / (float)(LAYOUT_BATCH * layout_config.context);
  COLL_TRY(train_executor_steps(worker->executor, steps, &rows, mean, &updates));
  COLL_TRY(train_group_sum_doubles(&worker->ranks.all, worker->losses, LAYOUT_STEPS_MAX));
  for (int step = 0; worker->ranks.all.rank == 0 && outcome != NULL && step < steps; step++) {
    outcome->losses[step] = worker->losses[step] * (double)mean;
  }
  return COLL_OK;
}

static coll_status_t take_all_steps(layout_worker_t *worker) {
  const layout_trial_t *trial = worker->job->trial;
  int steps = steps_of(trial);
  if (train_schedule_is_asynchronous(trial->schedule)) return take_steps(worker, steps);
  for (int step = 0; step < steps; step++) COLL_TRY(take_step(worker));
  return COLL_OK;
}

static int train(layout_worker_t *worker) {
  const layout_trial_t *trial = worker->job->trial;
  PARTY_TRY(save(worker, trial->again));
  PARTY_OK(take_all_steps(worker));
  count_bytes(worker);
  PARTY_TRY(
      evaluate(worker, LAYOUT_BATCH / worker->ranks.shares / at_least_1(trial->micro_batches)));
  PARTY_TRY(save(worker, trial->save));
  layout_worker_collect(worker, &worker->store->arrays[TRAIN_PARAMETERS],
                        worker->job->outcome->weights);
  PARTY_TRY(compare_choices(worker));
  return compare_copies(worker);
}

static int start(party_rank_t *party, layout_worker_t *worker) {
  const layout_trial_t *trial = worker->job->trial;
  const train_mesh_options_t options = {.size = {[TRAIN_MESH_TP] = at_least_1(trial->tp),
                                                 [TRAIN_MESH_CP] = at_least_1(trial->cp),
                                                 [TRAIN_MESH_DP] = at_least_1(trial->dp),
                                                 [TRAIN_MESH_PP] = at_least_1(trial->pp)},
                                        .ep = at_least_1(trial->ep),
                                        .etp = trial->etp};
  const train_model_config_t *config = layout_trial_config(trial);
  train_store_options_t store = TRAIN_STORE_OPTIONS_INIT;
  train_group_t all;
  train_mesh_shape_t shape;
  train_placement_t placement;
  store.stage = trial->zero;
  store.naive = trial->naive;
  store.precision = trial->precision;
  store.bucket_bytes = LAYOUT_BUCKET_BYTES;
  store.comm.bfloat16 = trial->bfloat16_wire;
  PARTY_OK(train_group_init(party->comm, &all));
  PARTY_OK(train_mesh_shape_init(&options, party->size, &shape));
  PARTY_OK(train_placement_init(party->size, NULL, &placement));
  PARTY_OK(train_mesh_create(&all, &shape, &placement, &worker->mesh));
  if (trial->rings) PARTY_TRY(use_rings(worker->mesh));
  worker->ranks = train_ranks_of_mesh(worker->mesh, trial->sequence_parallel, trial->context_kind);
  worker->ranks.axes.tensor_overlap = trial->tensor_overlap;
  const train_part_t part =
      train_ranks_part(worker->mesh, config->layers, at_least_1(trial->chunks));
  if (train_part_groups_experts(&part)) store.experts = &worker->ranks.experts;
  PARTY_OK(train_layout_create_part(config, &part, &worker->layout));
  PARTY_OK(train_store_create(worker->layout, &worker->ranks.data, &store, &worker->store));
  return 0;
}

int layout_worker_open(party_rank_t *party, layout_worker_t *worker) {
  worker->evaluated = malloc(2 * LAYOUT_BATCH * (size_t)layout_config.context * sizeof(int32_t));
  PARTY_TRY(start(party, worker));
  PARTY_TRY(create_executor(worker));
  return begin(worker);
}

void layout_worker_close(layout_worker_t *worker) {
  free(worker->evaluated);
  train_executor_destroy(worker->executor);
  train_store_destroy(worker->store);
  train_layout_destroy(worker->layout);
  train_mesh_destroy(worker->mesh);
}

static int body(party_rank_t *party) {
  layout_worker_t worker = {.job = party->context};
  int failed = layout_worker_open(party, &worker);
  if (failed == 0) failed = worker.job->work(&worker);
  PARTY_OK(coll_barrier(party->comm, NULL));
  layout_worker_close(&worker);
  return failed;
}

int layout_train_rank(party_rank_t *party, const layout_trial_t *trial, coll_status_t *status) {
  const layout_job_t job = {.trial = trial};
  layout_worker_t worker = {.job = &job};
  PARTY_TRY(layout_worker_open(party, &worker));
  bool together = train_schedule_is_asynchronous(trial->schedule);
  int saved_step = trial->saved_step > 0 ? trial->saved_step : trial->steps;
  *status = together ? take_steps(&worker, trial->steps) : COLL_OK;
  for (int step = 0; !together && step < trial->steps && *status == COLL_OK; step++) {
    *status = take_step(&worker);
    if (*status == COLL_OK && step + 1 == saved_step) PARTY_TRY(save(&worker, trial->save));
  }
  *status = train_executor_fail(worker.executor, *status);
  layout_worker_close(&worker);
  return 0;
}

static layout_outcome_t create_outcome(const layout_trial_t *trial) {
  layout_outcome_t outcome = {0};
  cr_assert_eq(train_layout_create(layout_trial_config(trial), &outcome.layout), COLL_OK);
  outcome.gradients = malloc(outcome.layout->parameter_count * sizeof(float));
  outcome.weights = malloc(outcome.layout->parameter_count * sizeof(float));
  outcome.copies = malloc(outcome.layout->parameter_count * sizeof(float));
  outcome.routing =
      layout_routing_create(layout_trial_config(trial), steps_of(trial) + 1, LAYOUT_BATCH);
  for (size_t i = 0; i < outcome.layout->parameter_count; i++) {
    outcome.gradients[i] = outcome.weights[i] = outcome.copies[i] = NAN;
  }
  return outcome;
}

layout_outcome_t layout_run(const layout_trial_t *trial, layout_work_t work) {
  layout_outcome_t outcome = create_outcome(trial);
  const layout_job_t job = {.trial = trial, .outcome = &outcome, .work = work};
  harness_result_t result;
  char text[200];
  int ranks =
      at_least_1(trial->dp) * at_least_1(trial->tp) * at_least_1(trial->cp) * at_least_1(trial->pp);
  cr_assert(party_threads(ranks, TIMEOUT_MS, body, (void *)&job, &result), "%s: %s",
            layout_trial_text(trial, text), result.text);
  return outcome;
}

layout_outcome_t layout_train(const layout_trial_t *trial) {
  return layout_run(trial, train);
}

void layout_outcome_free(layout_outcome_t *outcome) {
  layout_routing_destroy(outcome->routing);
  free(outcome->copies);
  free(outcome->weights);
  free(outcome->gradients);
  train_layout_destroy(outcome->layout);
}
