/* Every job has operators that add its fault to the host's results. */
#include "trainer_jobs.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "harness/harness.h"
#include "libtrain/common/random.h"
#include "libtrain/files/model_file.h"

#define TIMEOUT_MS 120000

const train_model_config_t trainer_config = {
    .vocabulary = 256, .context = 16, .layers = 2, .heads = 2, .width = 32};

folder_t trainer_folder;
train_corpus_t trainer_corpus;

/* Learnable text: words in a fixed cycle with some noise between them. */
void trainer_setup(void) {
  static const char *const words[] = {"static ", "int ", "x", "= ", "42;\n"};
  static uint16_t tokens[2][4000];
  static train_shard_t shards[2];
  for (int split = 0; split < 2; split++) {
    size_t count = 0;
    for (unsigned i = 0; count + 16 < sizeof tokens[0] / sizeof tokens[0][0]; i++) {
      for (const char *descriptor = words[i % 5]; *descriptor != '\0'; descriptor++) {
        tokens[split][count++] = (uint8_t)*descriptor;
      }
      if (i % 5 == 2) tokens[split][count++] = (uint16_t)('0' + (i * i / 7 + (unsigned)split) % 10);
    }
    shards[split] = (train_shard_t){.tokens = tokens[split], .count = count, .name = "a test"};
    *(split == 0 ? &trainer_corpus.training : &trainer_corpus.held_out) = (train_dataset_t){
        .shards = &shards[split], .shard_count = 1, .count = count, .vocabulary = 256};
  }
  trainer_corpus.shards = shards;
  trainer_corpus.shard_count = 2;
  folder_make(&trainer_folder);
}

void trainer_teardown(void) {
  folder_remove(&trainer_folder);
}

static train_options_t usual_options(void) {
  return (train_options_t){.steps = STEPS,
                           .batch = 8,
                           .rate = 3e-3,
                           .warmup = 0.1,
                           .clip = 1,
                           .adamw = TRAIN_ADAMW_INIT,
                           .evaluations = 2,
                           .evaluation_tokens = 1024};
}

static void on_step(void *context, const train_step_t *step) {
  job_t *job = context;
  const train_flat_t flat = train_store_flat(job->store);
  uint64_t at = step->step - 1;
  size_t count = job->layout->parameter_count;
  float *parameters = malloc(count * sizeof *parameters);
  job->losses[at] = (float)step->loss;
  job->skipped[at] = step->skipped;
  job->scales[at] = step->loss_scale;
  job->overlaps[at] = step->tensor_overlap;
  if (flat.read(flat.context, TRAIN_PARAMETERS, 0, count, parameters) == COLL_OK) {
    job->digests[at] = train_random_digest(0, parameters, count * sizeof *parameters);
  }
  free(parameters);
}

static void on_evaluation(void *context, const train_step_t *step,
                          const train_evaluation_t *evaluation) {
  job_t *job = context;
  (void)evaluation;
  if (job->copy != NULL && step->progress < 1) {
    job->copied = link(job->options.checkpoint, job->copy) == 0;
  }
}

static void on_overlap(void *context, const train_overlap_choice_t *choice) {
  job_t *job = context;
  job->choices++;
  job->chosen = train_overlap_candidates[choice->chosen];
}

static int at_least_1(int value) {
  return value > 0 ? value : 1;
}

/* Divides the ranks. One that has data ranks only needs no mesh. */
static coll_status_t open_ranks(job_t *job) {
  const train_mesh_options_t options = {
      .size = {[TRAIN_MESH_TP] = at_least_1(job->tp), [TRAIN_MESH_PP] = at_least_1(job->pp)}};
  train_group_t all;
  train_mesh_shape_t shape;
  train_placement_t placement;
  COLL_TRY(train_group_init(job->comm, &all));
  job->ranks = train_ranks_data_parallel(&all);
  if (job->tp < 2 && job->pp < 2) return COLL_OK;
  COLL_TRY(train_mesh_shape_init(&options, all.size, &shape));
  COLL_TRY(train_placement_init(all.size, NULL, &placement));
  COLL_TRY(train_mesh_create(&all, &shape, &placement, &job->mesh));
  job->ranks = train_ranks_of_mesh(job->mesh, false, TRAIN_CONTEXT_RING);
  return COLL_OK;
}

static coll_status_t create_store(job_t *job, const train_model_config_t *config) {
  train_part_t part = train_part_whole(config->layers);
  if (job->mesh != NULL) part = train_ranks_part(job->mesh, config->layers, 1);
  COLL_TRY(train_layout_create_part(config, &part, &job->layout));
  return train_store_create(job->layout, &job->ranks.data, &job->store_options, &job->store);
}

/* Creates the store and initializes it, from a seed or a checkpoint. */
static coll_status_t open_store(job_t *job) {
  if (job->resume == NULL) {
    COLL_TRY(create_store(job, &trainer_config));
    return train_store_initialize(job->store, 11);
  }
  train_model_file_t *file;
  COLL_TRY(train_model_file_open(job->resume, &file));
  job->metadata.position = file->metadata.position;
  job->metadata.loss_scale = file->metadata.loss_scale;
  coll_status_t status = create_store(job, &file->metadata.config);
  if (status == COLL_OK) status = train_store_load(job->store, &file->flat);
  train_model_file_close(file);
  return status;
}

/* The job of the calling thread, for operators with faults. */
static _Thread_local const job_t *running;

static bool is_faulty(fault_kind_t kind) {
  const fault_t *fault = &running->fault;
  uint64_t step = running->metadata.position.step + 1;
  if (fault->kind != kind || fault->rank != running->rank) return false;
  if (step < fault->first || step > fault->last) return false;
  return fault->row == 0 || (step - fault->first) % (fault->row + 1) < fault->row;
}

static void faulty_linear_backward(const train_exec_t *exec, const train_linear_t *linear,
                                   const void *d_out, const void *in, int rows, const void *weight,
                                   const void *hidden, bool overwrite, void *d_in, float *d_weight,
                                   float *d_bias) {
  train_ops_host.linear_backward(exec, linear, d_out, in, rows, weight, hidden, overwrite, d_in,
                                 d_weight, d_bias);
  bool hidden_layer = linear->out_width * at_least_1(running->tp) == 4 * trainer_config.width;
  if (hidden_layer && is_faulty(FAULT_GRADIENT)) {
    d_weight[7] = INFINITY;
  }
}

static double faulty_classifier(const train_exec_t *exec, const void *in, const void *table,
                                const int32_t *targets, int rows, int width,
                                train_vocabulary_t classes, const train_parts_t *parts, float scale,
                                bool overwrite, void *d_in, float *d_table) {
  double loss = train_ops_host.classifier(exec, in, table, targets, rows, width, classes, parts,
                                          scale, overwrite, d_in, d_table);
  bool training = d_in != NULL;
  return training && is_faulty(FAULT_LOSS) ? (double)NAN : loss;
}

static coll_status_t run_rank(job_t *job) {
  train_ops_t ops = train_ops_host;
  ops.linear_backward = faulty_linear_backward;
  ops.classifier = faulty_classifier;
  job->options.model.ops = &ops;
  COLL_TRY(open_ranks(job));
  job->options.model.sequences = job->options.batch / job->ranks.shares / job->micro_batches;
  COLL_TRY(open_store(job));
  const train_observer_t observer = {
      .on_step = on_step, .on_evaluation = on_evaluation, .on_overlap = on_overlap, .context = job};
  COLL_TRY(train_run(&job->options, &trainer_corpus, &job->ranks, &observer, job->store,
                     &job->metadata, &job->result));
  const train_flat_t flat = train_store_flat(job->store);
  job->parameters = malloc(job->layout->parameter_count * sizeof(float));
  return flat.read(flat.context, TRAIN_PARAMETERS, 0, job->layout->parameter_count,
                   job->parameters);
}

static int rank_body(int rank, int size, void *context) {
  job_t *job = (job_t *)context + rank;
  (void)size;
  running = job;
  job->rank = rank;
  job->status = run_rank(job);
  if (job->status != COLL_OK) {
    snprintf(job->message, sizeof job->message, "%s", base_last_error());
  }
  return 0;
}

void run_jobs(int size, job_t *jobs) {
  coll_comm_t comms[RANKS_MAX];
  harness_result_t result;
  cr_assert_eq(coll_comm_create_local(size, NULL, comms), COLL_OK, "%s", coll_last_error(NULL));
  for (int rank = 0; rank < size; rank++) jobs[rank].comm = comms[rank];
  cr_assert(harness_run_threads(size, TIMEOUT_MS, rank_body, jobs, &result), "%s", result.text);
  for (int rank = 0; rank < size; rank++) train_store_destroy(jobs[rank].store);
  for (int rank = 0; rank < size; rank++) train_mesh_destroy(jobs[rank].mesh);
  for (int rank = 0; rank < size; rank++) coll_comm_destroy(comms[rank]);
}

void free_jobs(int size, job_t *jobs) {
  for (int rank = 0; rank < size; rank++) {
    free(jobs[rank].parameters);
    train_layout_destroy(jobs[rank].layout);
  }
}

void start_jobs(int size, job_t *jobs) {
  for (int rank = 0; rank < size; rank++) {
    jobs[rank] = (job_t){.options = usual_options(),
                         .store_options = TRAIN_STORE_OPTIONS_INIT,
                         .micro_batches = 1,
                         .metadata.position.seed = 3};
  }
}

void start_faulty_jobs(int size, job_t *jobs, fault_kind_t kind, uint64_t first, uint64_t last) {
  start_jobs(size, jobs);
  for (int rank = 0; rank < size; rank++) {
    jobs[rank].fault = (fault_t){kind, size - 1, first, last, 0};
  }
}

void check_all_ok(int size, const job_t *jobs) {
  for (int rank = 0; rank < size; rank++) {
    cr_assert_eq(jobs[rank].status, COLL_OK, "rank %d: %s", rank, jobs[rank].message);
  }
}

void check_all_failed(int size, const job_t *jobs, const char *words) {
  int sentences = 0;
  for (int rank = 0; rank < size; rank++) {
    cr_assert_neq(jobs[rank].status, COLL_OK, "rank %d of %d succeeded", rank, size);
    if (jobs[rank].message[0] == '\0') continue;
    sentences++;
    cr_assert(strstr(jobs[rank].message, words), "rank %d: %s", rank, jobs[rank].message);
  }
  cr_assert_eq(sentences, 1);
}

bool same_parameters(const job_t *a, const job_t *b) {
  return memcmp(a->parameters, b->parameters, a->layout->parameter_count * sizeof(float)) == 0;
}
