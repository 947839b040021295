/*
 * Every outlet gets the same numbers; a record of the log is one flat object that says in "record"
 * what it is.
 */
#include "tools/gpt/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/progress.h"
#include "libtrain/files/curve.h"
#include "libtrain/files/events.h"
#include "libtrain/files/json_log.h"
#include "tools/gpt/corpus.h"
#include "tools/gpt/footprint.h"
#include "tools/gpt/gpt.h"

#define UNIT "nats per token"

struct gpt_record {
  const gpt_setup_t *setup;
  bool told;          /* on rank 0 */
  uint64_t footprint; /* the most that was seen of this rank */
  base_progress_t progress;
  double done; /* of the run, 0 to 1 */
  char note[128];
  train_json_log_t *log; /* NULL when not asked for, like the next */
  train_events_t *events;
  train_curve_t curve;
  uint64_t recalled[TRAIN_CURVE_KINDS]; /* the last steps that are drawn from an earlier log */
  train_evaluation_t evaluation;        /* the latest; no tokens before the first */
  coll_status_t failure;                /* of a file, the first one */
  char sentence[512];
};

/* ---- files that fail ---- */

static void keep_failure(gpt_record_t *record, coll_status_t status) {
  if (status == COLL_OK || record->failure != COLL_OK) return;
  record->failure = status;
  snprintf(record->sentence, sizeof record->sentence, "%s", base_last_error());
  fprintf(stderr, "gpt train goes on, but %s\n", record->sentence);
}

/* Writes a record, and stops with the log when that fails. */
static void log_record(gpt_record_t *record, json_t *line) {
  if (record->log == NULL || record->failure != COLL_OK) {
    json_decref(line);
    return;
  }
  keep_failure(record, train_json_log_write(record->log, line));
}

static void log_scalars(gpt_record_t *record, uint64_t step, const train_scalar_t *scalars,
                        size_t count) {
  if (record->events == NULL || record->failure != COLL_OK) return;
  keep_failure(record, train_events_write(record->events, step, scalars, count));
}

/* ---- the setup ---- */

static json_t *dataset_object(const train_dataset_t *dataset) {
  return json_pack("{s:I, s:I, s:I}", "files", (json_int_t)dataset->files, "bytes",
                   (json_int_t)dataset->bytes, "tokens", (json_int_t)dataset->count);
}

static json_t *memory_object(const train_memory_t *memory) {
  return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "parameters", (json_int_t)memory->parameters,
                   "gradients", (json_int_t)memory->gradients, "moments",
                   (json_int_t)memory->moments, "workspaces", (json_int_t)memory->workspaces,
                   "activations", (json_int_t)memory->activations, "total",
                   (json_int_t)gpt_memory_total(memory));
}

static json_t *setup_line(const gpt_setup_t *setup) {
  const train_model_config_t *config = &setup->layout->config;
  json_t *model =
      json_pack("{s:i, s:i, s:i, s:i, s:i, s:I}", "vocabulary", config->vocabulary, "context",
                config->context, "layers", config->layers, "heads", config->heads, "width",
                config->width, "parameters", (json_int_t)setup->layout->parameter_count);
  return json_pack("{s:s, s:O, s:o, s:o, s:o, s:i, s:i, s:o, s:f, s:f}", "record", "setup",
                   "options", setup->settings->resolved, "model", model, "training",
                   dataset_object(&setup->corpus->training), "held_out",
                   dataset_object(&setup->corpus->held_out), "ranks", setup->group->size,
                   "threads_per_rank", setup->threads, "memory_bytes_predicted",
                   memory_object(&setup->memory), "flops_per_token", setup->speed.flops_per_token,
                   "sgemm_flops_per_s", setup->speed.sgemm_per_s);
}

/* "2 layers, 4 heads, width 128, context 64" and so on, into text. */
static void describe(const gpt_setup_t *setup, char *text, size_t bytes) {
  const train_model_config_t *config = &setup->layout->config;
  const gpt_settings_t *settings = setup->settings;
  char parts[32] = "";
  if (settings->accumulate > 1) {
    snprintf(parts, sizeof parts, " in %d micro-batches", (int)settings->accumulate);
  }
  snprintf(text, bytes,
           "%d layers, %d heads, width %d, context %d; batch %d%s on %d rank%s of %d thread%s, "
           "ZeRO %d",
           config->layers, config->heads, config->width, config->context, (int)settings->batch,
           parts, setup->group->size, setup->group->size > 1 ? "s" : "", setup->threads,
           setup->threads > 1 ? "s" : "", (int)settings->zero);
}

static void print_setup(const gpt_setup_t *setup) {
  char text[192], sides[2][96];
  describe(setup, text, sizeof text);
  printf("%s: %s to train on; %s held out\n", setup->settings->data,
         gpt_dataset_describe(&setup->corpus->training, sides[0]),
         gpt_dataset_describe(&setup->corpus->held_out, sides[1]));
  printf("%.2f M parameters: %s\n", (double)setup->layout->parameter_count * 1e-6, text);
  printf("%.1f MB on each rank; all together multiply matrices at %.0f GFLOP/s\n",
         (double)gpt_memory_total(&setup->memory) * 1e-6, setup->speed.sgemm_per_s * 1e-9);
  fflush(stdout);
}

/* A record of the log that an earlier run has left, onto the curve. What was logged after the
 * checkpoint is trained again, and where runs overlap the first one's steps count. */
static void recall(void *context, const json_t *line) {
  static const struct {
    const char *record;
    train_curve_kind_t kind;
  } drawn[] = {{"step", TRAIN_CURVE_TRAINING}, {"evaluation", TRAIN_CURVE_HELD_OUT}};
  gpt_record_t *record = context;
  const char *what = json_string_value(json_object_get(line, "record"));
  uint64_t step = (uint64_t)json_integer_value(json_object_get(line, "step"));
  const json_t *loss = json_object_get(line, "loss");
  if (what == NULL || step > record->setup->first_step || !json_is_number(loss)) return;
  for (size_t i = 0; i < sizeof drawn / sizeof drawn[0]; i++) {
    uint64_t *latest = &record->recalled[drawn[i].kind];
    if (strcmp(what, drawn[i].record) != 0 || step <= *latest) continue;
    train_curve_add(&record->curve, drawn[i].kind, step, json_number_value(loss));
    *latest = step;
  }
}

static coll_status_t open_files(const gpt_settings_t *settings, gpt_record_t *record) {
  bool goes_on = settings->resume != NULL;
  if (settings->log != NULL) {
    if (goes_on) COLL_TRY(train_json_log_read(settings->log, recall, record));
    COLL_TRY(train_json_log_open(settings->log, goes_on, &record->log));
    COLL_TRY(train_json_log_write(record->log, setup_line(record->setup)));
  }
  if (settings->tensorboard != NULL) {
    COLL_TRY(train_events_open(settings->tensorboard, &record->events));
  }
  if (settings->curve == NULL) return COLL_OK;
  return train_curve_write(&record->curve, "", "", UNIT, settings->curve);
}

coll_status_t gpt_record_open(const gpt_setup_t *setup, gpt_record_t **record) {
  void *memory;
  COLL_TRY(base_alloc(1, sizeof(gpt_record_t), "the record of the run", &memory));
  gpt_record_t *opened = memory;
  *opened = (gpt_record_t){.setup = setup, .told = setup->group->rank == 0};
  coll_status_t status = opened->told ? open_files(setup->settings, opened) : COLL_OK;
  if (status != COLL_OK) {
    gpt_record_close(opened);
    return status;
  }
  if (opened->told) {
    print_setup(setup);
    base_progress_begin(&opened->progress, "train", 1);
  }
  *record = opened;
  return COLL_OK;
}

/* ---- the run ---- */

static void write_note(gpt_record_t *record, const train_step_t *step) {
  double fraction = gpt_speed_fraction(&record->setup->speed, step->tokens_per_s);
  int used = snprintf(
      record->note, sizeof record->note, "step %llu  loss %.3f  %.1fk tokens/s (%.0f%% of sgemm)",
      (unsigned long long)step->step, step->loss, step->tokens_per_s * 1e-3, fraction * 100);
  if (record->evaluation.tokens > 0) {
    snprintf(record->note + used, sizeof record->note - (size_t)used, "  held-out %.3f",
             record->evaluation.loss);
  }
}

static void on_step(void *context, const train_step_t *step) {
  gpt_record_t *record = context;
  const gpt_setup_t *setup = record->setup;
  if (!record->told) return;
  double tokens = (double)setup->settings->batch * setup->layout->config.context;
  double tokens_per_s = tokens / (step->ms * 1e-3);
  double fraction = gpt_speed_fraction(&setup->speed, tokens_per_s);
  const train_scalar_t scalars[] = {{"loss/training", step->loss},
                                    {"optimizer/lr", step->rate},
                                    {"optimizer/grad_norm", step->gradient_norm},
                                    {"time/step_ms", step->ms},
                                    {"time/comm_ms", step->comm_ms},
                                    {"time/exposed_comm_ms", step->exposed_comm_ms},
                                    {"speed/tokens_per_s", tokens_per_s},
                                    {"speed/flops_fraction", fraction}};
  log_record(record, json_pack("{s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I}", "record",
                               "step", "step", (json_int_t)step->step, "loss", step->loss, "lr",
                               step->rate, "grad_norm", step->gradient_norm, "ms", step->ms,
                               "tokens_per_s", tokens_per_s, "flops_fraction", fraction, "comm_ms",
                               step->comm_ms, "exposed_comm_ms", step->exposed_comm_ms,
                               "bytes_sent", (json_int_t)step->bytes_sent));
  log_scalars(record, step->step, scalars, sizeof scalars / sizeof scalars[0]);
  train_curve_add(&record->curve, TRAIN_CURVE_TRAINING, step->step, step->loss);
  record->done = step->progress;
  write_note(record, step);
  base_progress_update(&record->progress, record->done, record->note);
}

static coll_status_t draw_curve(const gpt_record_t *record, const train_step_t *step) {
  const gpt_setup_t *setup = record->setup;
  char title[64], text[192], note[256];
  if (setup->settings->curve == NULL) return COLL_OK;
  describe(setup, text, sizeof text);
  snprintf(title, sizeof title, "GPT-2, %.2f M parameters",
           (double)setup->layout->parameter_count * 1e-6);
  snprintf(note, sizeof note, "%s; %.0f tokens/s", text, step->tokens_per_s);
  return train_curve_write(&record->curve, title, note, UNIT, setup->settings->curve);
}

static void on_evaluation(void *context, const train_step_t *step,
                          const train_evaluation_t *evaluation) {
  gpt_record_t *record = context;
  uint64_t footprint = gpt_footprint_bytes();
  if (footprint > record->footprint) record->footprint = footprint;
  if (!record->told) return;
  const train_scalar_t scalar = {"loss/held_out", evaluation->loss};
  log_record(record,
             json_pack("{s:s, s:I, s:f, s:f, s:I, s:I}", "record", "evaluation", "step",
                       (json_int_t)step->step, "loss", evaluation->loss, "nats_per_byte",
                       gpt_nats_per_byte(evaluation), "tokens", (json_int_t)evaluation->tokens,
                       "bytes", (json_int_t)evaluation->bytes));
  log_scalars(record, step->step, &scalar, 1);
  train_curve_add(&record->curve, TRAIN_CURVE_HELD_OUT, step->step, evaluation->loss);
  keep_failure(record, draw_curve(record, step));
  record->evaluation = *evaluation;
  write_note(record, step);
}

train_observer_t gpt_record_observer(gpt_record_t *record) {
  return (train_observer_t){on_step, on_evaluation, record};
}

void gpt_record_stop(gpt_record_t *record) {
  if (record->progress.shown) base_progress_end(&record->progress, record->done, record->note);
}

/* What the run added to the ranks' footprints, on average. */
static coll_status_t memory_taken(const gpt_record_t *record, double *bytes) {
  double sum = (double)record->footprint - (double)record->setup->footprint_before;
  COLL_TRY(train_group_sum_doubles(record->setup->group, &sum, 1));
  *bytes = sum / record->setup->group->size;
  return COLL_OK;
}

static void print_result(const gpt_setup_t *setup, const train_result_t *result, double taken) {
  const train_step_t *last = &result->last;
  gpt_evaluation_print(&result->held_out);
  printf("%.0f tokens/s, %.1f%% of the sgemm rate; each rank took %.1f MB (%.1f predicted)",
         last->tokens_per_s, gpt_speed_fraction(&setup->speed, last->tokens_per_s) * 100,
         taken * 1e-6, (double)gpt_memory_total(&setup->memory) * 1e-6);
  if (last->bytes_sent > 0) printf(" and sent %.1f MB a step", (double)last->bytes_sent * 1e-6);
  printf("\ncheckpoint %s after step %llu\n", setup->settings->out, (unsigned long long)last->step);
}

coll_status_t gpt_record_finish(gpt_record_t *record, const train_result_t *result) {
  const gpt_setup_t *setup = record->setup;
  const train_step_t *last = &result->last;
  double taken;
  COLL_TRY(memory_taken(record, &taken));
  if (!record->told) return COLL_OK;
  log_record(record,
             json_pack("{s:s, s:I, s:f, s:f, s:f, s:f, s:I, s:I, s:I}", "record", "summary", "step",
                       (json_int_t)last->step, "loss", last->loss, "held_out_loss",
                       result->held_out.loss, "tokens_per_s", last->tokens_per_s, "flops_fraction",
                       gpt_speed_fraction(&setup->speed, last->tokens_per_s), "bytes_sent",
                       (json_int_t)last->bytes_sent, "memory_bytes", (json_int_t)taken,
                       "memory_bytes_predicted", (json_int_t)gpt_memory_total(&setup->memory)));
  print_result(setup, result, taken);
  if (record->failure == COLL_OK) return COLL_OK;
  return base_fail(record->failure, "%s", record->sentence);
}

void gpt_record_close(gpt_record_t *record) {
  if (record == NULL) return;
  train_json_log_close(record->log);
  train_events_close(record->events);
  free(record);
}
