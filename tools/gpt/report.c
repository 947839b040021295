/* One jansson object that grows as the run goes. */
#include "tools/gpt/report.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"

struct gpt_report {
  json_t *root, *losses, *evaluations;
};

coll_status_t gpt_report_create(gpt_report_t **report) {
  void *memory;
  COLL_TRY(base_alloc(1, sizeof(gpt_report_t), "the report", &memory));
  gpt_report_t *created = memory;
  created->root = json_object();
  created->losses = json_array();
  created->evaluations = json_array();
  *report = created;
  return COLL_OK;
}

void gpt_report_destroy(gpt_report_t *report) {
  if (report == NULL) return;
  json_decref(report->root);
  json_decref(report->losses);
  json_decref(report->evaluations);
  free(report);
}

static json_t *text_object(const train_text_t *text) {
  return json_pack("{s:I, s:I}", "files", (json_int_t)text->files, "bytes",
                   (json_int_t)text->count);
}

void gpt_report_setup(gpt_report_t *report, const train_model_t *model, const train_data_t *data,
                      const train_options_t *options, const train_team_t *team, int threads) {
  const train_model_config_t *config = &model->config;
  json_object_set_new(
      report->root, "model",
      json_pack("{s:i, s:i, s:i, s:i, s:i, s:I}", "vocabulary", config->vocabulary, "context",
                config->context, "layers", config->layers, "heads", config->heads, "width",
                config->width, "parameters", (json_int_t)model->parameter_count));
  json_object_set_new(report->root, "data",
                      json_pack("{s:o, s:o}", "training", text_object(&data->training), "held_out",
                                text_object(&data->held_out)));
  json_object_set_new(
      report->root, "options",
      json_pack("{s:i, s:f, s:f, s:f, s:f, s:I}", "batch", options->batch, "lr", options->rate,
                "warmup", options->warmup, "clip", options->clip, "weight_decay",
                (double)options->adamw.weight_decay, "seed", (json_int_t)options->seed));
  json_object_set_new(report->root, "ranks", json_integer(team->size));
  json_object_set_new(report->root, "threads_per_rank", json_integer(threads));
}

void gpt_report_step(gpt_report_t *report, const train_step_t *step) {
  json_array_append_new(report->losses, json_real(step->loss));
}

static json_t *evaluation_object(const train_step_t *step, const train_evaluation_t *evaluation) {
  return json_pack("{s:I, s:f, s:f, s:I}", "step", (json_int_t)step->step, "nats_per_byte",
                   evaluation->loss, "bits_per_byte", evaluation->loss / log(2.0), "bytes",
                   (json_int_t)evaluation->bytes);
}

void gpt_report_evaluation(gpt_report_t *report, const train_step_t *step,
                           const train_evaluation_t *evaluation) {
  json_array_append_new(report->evaluations, evaluation_object(step, evaluation));
}

coll_status_t gpt_report_write(gpt_report_t *report, const train_result_t *result,
                               const char *path) {
  json_object_set_new(report->root, "tokens_per_s", json_real(result->last.tokens_per_s));
  json_object_set_new(report->root, "held_out",
                      evaluation_object(&result->last, &result->held_out));
  json_object_set(report->root, "evaluations", report->evaluations);
  json_object_set(report->root, "losses", report->losses);
  if (json_dump_file(report->root, path, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0) {
    return COLL_OK;
  }
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write --json %s", path);
}
