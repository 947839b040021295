/* One jansson object that grows as the run goes. */
#include "tools/gpt/report.h"

#include <jansson.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/memory.h"

struct gpt_report {
  const char *path;
  json_t *root, *losses, *evaluations;
};

/* Whether a file can be written at `path`, found out without making one. */
static bool is_writable(const char *path) {
  char folder[PATH_MAX];
  if (access(path, F_OK) == 0) return access(path, W_OK) == 0;
  snprintf(folder, sizeof folder, "%s", path);
  return access(dirname(folder), W_OK) == 0;
}

coll_status_t gpt_report_create(const char *path, gpt_report_t **report) {
  if (!is_writable(path)) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write --json %s", path);
  void *memory;
  COLL_TRY(base_alloc(1, sizeof(gpt_report_t), "the report", &memory));
  gpt_report_t *created = memory;
  created->path = path;
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

void gpt_report_setup(gpt_report_t *report, const train_layout_t *layout, const train_data_t *data,
                      const train_options_t *options, const train_team_t *team, int threads) {
  const train_model_config_t *config = &layout->config;
  json_object_set_new(
      report->root, "model",
      json_pack("{s:i, s:i, s:i, s:i, s:i, s:I}", "vocabulary", config->vocabulary, "context",
                config->context, "layers", config->layers, "heads", config->heads, "width",
                config->width, "parameters", (json_int_t)layout->parameter_count));
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

coll_status_t gpt_report_write(gpt_report_t *report, const train_result_t *result) {
  json_object_set_new(report->root, "tokens_per_s", json_real(result->last.tokens_per_s));
  json_object_set_new(report->root, "held_out",
                      evaluation_object(&result->last, &result->held_out));
  json_object_set(report->root, "evaluations", report->evaluations);
  json_object_set(report->root, "losses", report->losses);
  if (json_dump_file(report->root, report->path, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0) {
    return COLL_OK;
  }
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write --json %s", report->path);
}
