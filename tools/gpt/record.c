/*
 * Every outlet gets the same numbers; a record of the log is one flat object that says in "record"
 * what it is.
 */
#include "tools/gpt/record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/progress.h"
#include "libtrain/files/curve.h"
#include "libtrain/files/events.h"
#include "libtrain/files/journal.h"
#include "tools/gpt/gpt.h"

struct gpt_record {
  const gpt_setup_t *setup;
  base_progress_t progress;
  double done; /* of the run, 0 to 1 */
  char note[128];
  train_journal_t *journal; /* NULL when not asked for, like the next */
  train_events_t *events;
  train_curve_t curve;
  train_evaluation_t evaluation; /* the latest; no bytes before the first */
  coll_status_t failure;         /* of a file, the first one */
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
  if (record->journal == NULL || record->failure != COLL_OK) {
    json_decref(line);
    return;
  }
  keep_failure(record, train_journal_write(record->journal, line));
}

static void log_scalars(gpt_record_t *record, uint64_t step, const train_scalar_t *scalars,
                        size_t count) {
  if (record->events == NULL || record->failure != COLL_OK) return;
  keep_failure(record, train_events_write(record->events, step, scalars, count));
}

/* ---- the setup ---- */

static json_t *text_object(const train_text_t *text) {
  return json_pack("{s:I, s:I}", "files", (json_int_t)text->files, "bytes",
                   (json_int_t)text->count);
}

static json_t *setup_line(const gpt_setup_t *setup) {
  const train_model_config_t *config = &setup->layout->config;
  json_t *model =
      json_pack("{s:i, s:i, s:i, s:i, s:i, s:I}", "vocabulary", config->vocabulary, "context",
                config->context, "layers", config->layers, "heads", config->heads, "width",
                config->width, "parameters", (json_int_t)setup->layout->parameter_count);
  return json_pack("{s:s, s:O, s:o, s:o, s:o, s:i, s:i, s:f, s:f}", "record", "setup", "options",
                   setup->settings->resolved, "model", model, "training",
                   text_object(&setup->data->training), "held_out",
                   text_object(&setup->data->held_out), "ranks", setup->team->size,
                   "threads_per_rank", setup->threads, "flops_per_token",
                   setup->speed.flops_per_token, "sgemm_flops_per_s", setup->speed.sgemm_per_s);
}

/* "2 layers, 4 heads, width 128, context 64" and so on, into text. */
static void describe(const gpt_setup_t *setup, char *text, size_t bytes) {
  const train_model_config_t *config = &setup->layout->config;
  snprintf(text, bytes,
           "%d layers, %d heads, width %d, context %d; batch %d on %d rank%s of %d thread%s",
           config->layers, config->heads, config->width, config->context,
           (int)setup->settings->batch, setup->team->size, setup->team->size > 1 ? "s" : "",
           setup->threads, setup->threads > 1 ? "s" : "");
}

static void print_setup(const gpt_setup_t *setup) {
  const train_data_t *data = setup->data;
  char text[160];
  describe(setup, text, sizeof text);
  printf("%s: %zu files, %.1f MB to train on; %zu files, %.1f MB held out\n", setup->settings->data,
         data->training.files, (double)data->training.count * 1e-6, data->held_out.files,
         (double)data->held_out.count * 1e-6);
  printf("%.2f M parameters: %s; sgemm %.0f GFLOP/s\n",
         (double)setup->layout->parameter_count * 1e-6, text, setup->speed.sgemm_per_s * 1e-9);
  fflush(stdout);
}

static coll_status_t open_files(const gpt_settings_t *settings, gpt_record_t *record) {
  if (settings->log != NULL) {
    COLL_TRY(train_journal_open(settings->log, settings->resume != NULL, &record->journal));
    COLL_TRY(train_journal_write(record->journal, setup_line(record->setup)));
  }
  if (settings->tensorboard != NULL) {
    COLL_TRY(train_events_open(settings->tensorboard, &record->events));
  }
  if (settings->curve == NULL) return COLL_OK;
  return train_curve_write(&record->curve, "", "", "nats per byte", settings->curve);
}

coll_status_t gpt_record_open(const gpt_setup_t *setup, gpt_record_t **record) {
  void *memory;
  COLL_TRY(base_alloc(1, sizeof(gpt_record_t), "the record of the run", &memory));
  gpt_record_t *opened = memory;
  opened->setup = setup;
  coll_status_t status = open_files(setup->settings, opened);
  if (status != COLL_OK) {
    gpt_record_close(opened);
    return status;
  }
  print_setup(setup);
  base_progress_begin(&opened->progress, "train", 1);
  *record = opened;
  return COLL_OK;
}

/* ---- the run ---- */

static void write_note(gpt_record_t *record, const train_step_t *step) {
  double fraction = gpt_speed_fraction(&record->setup->speed, step->tokens_per_s);
  int used = snprintf(
      record->note, sizeof record->note, "step %llu  loss %.3f  %.1fk tokens/s (%.0f%% of sgemm)",
      (unsigned long long)step->step, step->loss, step->tokens_per_s * 1e-3, fraction * 100);
  if (record->evaluation.bytes > 0) {
    snprintf(record->note + used, sizeof record->note - (size_t)used, "  held-out %.3f",
             record->evaluation.loss);
  }
}

static void on_step(void *context, const train_step_t *step) {
  gpt_record_t *record = context;
  double fraction = gpt_speed_fraction(&record->setup->speed, step->tokens_per_s);
  const train_scalar_t scalars[] = {{"loss/training", step->loss},
                                    {"optimizer/lr", step->rate},
                                    {"optimizer/grad_norm", step->gradient_norm},
                                    {"speed/tokens_per_s", step->tokens_per_s},
                                    {"speed/flops_fraction", fraction}};
  log_record(record, json_pack("{s:s, s:I, s:f, s:f, s:f, s:f, s:f}", "record", "step", "step",
                               (json_int_t)step->step, "loss", step->loss, "lr", step->rate,
                               "grad_norm", step->gradient_norm, "tokens_per_s", step->tokens_per_s,
                               "flops_fraction", fraction));
  log_scalars(record, step->step, scalars, sizeof scalars / sizeof scalars[0]);
  train_curve_add(&record->curve, TRAIN_CURVE_TRAINING, step->step, step->loss);
  record->done = step->progress;
  write_note(record, step);
  base_progress_update(&record->progress, record->done, record->note);
}

static coll_status_t draw_curve(const gpt_record_t *record, const train_step_t *step) {
  const gpt_setup_t *setup = record->setup;
  char title[64], text[160], note[256];
  if (setup->settings->curve == NULL) return COLL_OK;
  describe(setup, text, sizeof text);
  snprintf(title, sizeof title, "GPT-2, %.2f M parameters",
           (double)setup->layout->parameter_count * 1e-6);
  snprintf(note, sizeof note, "%s; %.0f tokens/s", text, step->tokens_per_s);
  return train_curve_write(&record->curve, title, note, "nats per byte", setup->settings->curve);
}

static void on_evaluation(void *context, const train_step_t *step,
                          const train_evaluation_t *evaluation) {
  gpt_record_t *record = context;
  const train_scalar_t scalar = {"loss/held_out", evaluation->loss};
  log_record(record,
             json_pack("{s:s, s:I, s:f, s:f, s:I}", "record", "evaluation", "step",
                       (json_int_t)step->step, "loss", evaluation->loss, "bits_per_byte",
                       evaluation->loss / log(2.0), "bytes", (json_int_t)evaluation->bytes));
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

coll_status_t gpt_record_finish(gpt_record_t *record, const train_result_t *result) {
  const gpt_setup_t *setup = record->setup;
  double fraction = gpt_speed_fraction(&setup->speed, result->last.tokens_per_s);
  log_record(record, json_pack("{s:s, s:I, s:f, s:f, s:f, s:f}", "record", "summary", "step",
                               (json_int_t)result->last.step, "loss", result->last.loss,
                               "held_out_loss", result->held_out.loss, "tokens_per_s",
                               result->last.tokens_per_s, "flops_fraction", fraction));
  gpt_evaluation_print(&result->held_out);
  printf("%.0f tokens/s, %.1f%% of the sgemm rate; checkpoint %s after step %llu\n",
         result->last.tokens_per_s, fraction * 100, setup->settings->out,
         (unsigned long long)result->last.step);
  if (record->failure == COLL_OK) return COLL_OK;
  return base_fail(record->failure, "%s", record->sentence);
}

void gpt_record_close(gpt_record_t *record) {
  if (record == NULL) return;
  train_journal_close(record->journal);
  train_events_close(record->events);
  free(record);
}
