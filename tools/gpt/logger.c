/*
 * All outputs receive the same values. A log record is one flat JSON object whose member "record"
 * gives its kind.
 */
#include "tools/gpt/logger.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/progress.h"
#include "libtrain/files/curve.h"
#include "libtrain/files/events.h"
#include "libtrain/files/json_log.h"
#include "tools/gpt/corpus.h"
#include "tools/gpt/explain.h"
#include "tools/gpt/footprint.h"
#include "tools/gpt/gpt.h"
#include "tools/gpt/metrics.h"
#include "tools/gpt/traffic.h"

#define UNIT "nats per token"

struct gpt_logger {
  const gpt_setup_t *setup;
  bool is_rank_0;
  gpt_speed_t speed;       /* the setup's, raised by faster steps */
  uint64_t peak_footprint; /* maximum measured on this rank */
  base_progress_t progress;
  double done;            /* fraction of the run, 0 to 1 */
  uint64_t skipped_steps; /* of this run */
  gpt_metrics_t metrics;
  char note[128];
  train_json_log_t *log; /* NULL if not requested; also events */
  train_events_t *events;
  train_curve_t curve;
  uint64_t restored_steps[TRAIN_CURVE_KINDS]; /* last steps drawn from an earlier log */
  train_evaluation_t evaluation;              /* the latest; tokens == 0 before the first */
  coll_status_t failure;                      /* first error of a file */
  char message[512];
};

/* ---- file errors ---- */

static void report_failure(gpt_logger_t *logger, coll_status_t status) {
  if (status == COLL_OK || logger->failure != COLL_OK) return;
  logger->failure = status;
  snprintf(logger->message, sizeof logger->message, "%s", base_last_error());
  fprintf(stderr, "gpt train continues, but %s\n", logger->message);
}

/* Writes a record to the log. After a file error, logging stops. */
static void write_log(gpt_logger_t *logger, json_t *line) {
  if (logger->log == NULL || logger->failure != COLL_OK) {
    json_decref(line);
    return;
  }
  report_failure(logger, train_json_log_write(logger->log, line));
}

static void log_scalars(gpt_logger_t *logger, uint64_t step, const train_scalar_t *scalars,
                        size_t count) {
  if (logger->events == NULL || logger->failure != COLL_OK) return;
  report_failure(logger, train_events_write(logger->events, step, scalars, count));
}

/* A number of the log; null if it is not finite, which JSON cannot represent. */
static json_t *number_or_null(double value) {
  return isfinite(value) ? json_real(value) : json_null();
}

/* ---- setup ---- */

static json_t *dataset_object(const train_dataset_t *dataset) {
  return json_pack("{s:I, s:I, s:I}", "files", (json_int_t)dataset->files, "bytes",
                   (json_int_t)dataset->bytes, "tokens", (json_int_t)dataset->count);
}

static json_t *memory_object(const train_memory_t *memory) {
  return json_pack(
      "{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "parameters", (json_int_t)memory->parameters,
      "weights", (json_int_t)memory->weights, "gradients", (json_int_t)memory->gradients, "moments",
      (json_int_t)memory->moments, "workspaces", (json_int_t)memory->workspaces, "activations",
      (json_int_t)memory->activations, "total", (json_int_t)gpt_memory_total(memory));
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
                   "gemm_flops_per_s", setup->speed.measured_per_s);
}

/* "2 layers, 4 heads, width 128, context 64" and so on, into text. */
static void describe(const gpt_setup_t *setup, char *text, size_t bytes) {
  const train_model_config_t *config = &setup->layout->config;
  const gpt_settings_t *settings = setup->settings;
  char parts[32] = "", ranks[GPT_PARALLEL_TEXT_BYTES];
  if (settings->accumulate > 1) {
    snprintf(parts, sizeof parts, " in %d micro-batches", (int)settings->accumulate);
  }
  snprintf(text, bytes,
           "%d layers, %d heads, width %d, context %d; batch %d%s on %s of %d thread%s, "
           "ZeRO %d",
           config->layers, config->heads, config->width, config->context, (int)settings->batch,
           parts, gpt_parallel_text(settings, setup->parallel, ranks), setup->threads,
           setup->threads > 1 ? "s" : "", (int)settings->zero);
}

static void print_setup(const gpt_setup_t *setup) {
  char text[288], descriptions[2][96];
  describe(setup, text, sizeof text);
  printf("%s: %s to train on; %s held out\n", setup->settings->data,
         gpt_dataset_describe(&setup->corpus->training, descriptions[0]),
         gpt_dataset_describe(&setup->corpus->held_out, descriptions[1]));
  printf("%.2f M parameters: %s\n", (double)setup->layout->parameter_count * 1e-6, text);
  printf("%.1f MB per rank; GEMM on all ranks: %.0f GFLOP/s in %s (%s)\n",
         (double)gpt_memory_total(&setup->memory) * 1e-6, setup->speed.measured_per_s * 1e-9,
         train_dtype_name(setup->speed.dtype), setup->speed.backend);
  if (gpt_parallel_is_starved(setup->settings, setup->parallel)) {
    printf(
        "note: --accumulate %d gives fewer micro-batches than the %d stages: at no time do all "
        "stages work\n",
        (int)setup->settings->accumulate, setup->parallel->ranks.stages);
  }
  (void)base_tool_flush();
}

/* Adds a record of an earlier run's log to the curve. Steps after the checkpoint are skipped, since
 * they are trained again. Of steps logged by several runs the first record counts. */
static void restore_point(void *context, const json_t *line) {
  static const struct {
    const char *logger;
    train_curve_kind_t kind;
  } drawn[] = {{"step", TRAIN_CURVE_TRAINING}, {"evaluation", TRAIN_CURVE_HELD_OUT}};
  gpt_logger_t *logger = context;
  const char *what = json_string_value(json_object_get(line, "record"));
  uint64_t step = (uint64_t)json_integer_value(json_object_get(line, "step"));
  const json_t *loss = json_object_get(line, "loss");
  if (what == NULL || step > logger->setup->first_step || !json_is_number(loss)) return;
  for (size_t i = 0; i < sizeof drawn / sizeof drawn[0]; i++) {
    uint64_t *latest = &logger->restored_steps[drawn[i].kind];
    if (strcmp(what, drawn[i].logger) != 0 || step <= *latest) continue;
    train_curve_add(&logger->curve, drawn[i].kind, step, json_number_value(loss));
    *latest = step;
  }
}

static coll_status_t open_files(const gpt_settings_t *settings, gpt_logger_t *logger) {
  bool resuming = settings->resume != NULL;
  if (settings->log != NULL) {
    if (resuming) COLL_TRY(train_json_log_read(settings->log, restore_point, logger));
    COLL_TRY(train_json_log_open(settings->log, resuming, &logger->log));
    COLL_TRY(train_json_log_write(logger->log, setup_line(logger->setup)));
  }
  if (settings->tensorboard != NULL) {
    COLL_TRY(train_events_open(settings->tensorboard, &logger->events));
  }
  if (settings->curve == NULL) return COLL_OK;
  return train_curve_write(&logger->curve, "", "", UNIT, settings->curve);
}

coll_status_t gpt_logger_open(const gpt_setup_t *setup, gpt_logger_t **logger) {
  void *memory;
  COLL_TRY(base_alloc(1, sizeof(gpt_logger_t), "the logger", &memory));
  gpt_logger_t *opened = memory;
  *opened =
      (gpt_logger_t){.setup = setup, .is_rank_0 = setup->group->rank == 0, .speed = setup->speed};
  coll_status_t status = opened->is_rank_0 ? open_files(setup->settings, opened) : COLL_OK;
  if (status != COLL_OK) {
    gpt_logger_close(opened);
    return status;
  }
  if (opened->is_rank_0) {
    print_setup(setup);
    base_progress_begin(&opened->progress, "train", 1);
  }
  *logger = opened;
  return COLL_OK;
}

/* ---- the run ---- */

static void write_note(gpt_logger_t *logger, const train_step_t *step) {
  double fraction = gpt_speed_fraction(&logger->speed, step->tokens_per_s);
  int used = snprintf(
      logger->note, sizeof logger->note, "step %llu  loss %.3f  %.1fk tokens/s (%.0f%% of GEMM)",
      (unsigned long long)step->step, step->loss, step->tokens_per_s * 1e-3, fraction * 100);
  if (logger->evaluation.tokens > 0) {
    snprintf(logger->note + used, sizeof logger->note - (size_t)used, "  held-out %.3f",
             logger->evaluation.loss);
  }
}

/* Prints a line of its own about a skipped step. On a terminal it replaces the progress bar, which
 * is drawn again below it. */
static void report_skipped(const gpt_logger_t *logger, const train_step_t *step) {
  const char *clear = logger->progress.terminal ? "\r\x1b[K" : "";
  bool loss_is_bad = !isfinite(step->loss);
  fprintf(stderr, "%sstep %llu: skipped, %s is %g", clear, (unsigned long long)step->step,
          loss_is_bad ? "loss" : "gradient norm", loss_is_bad ? step->loss : step->gradient_norm);
  if (step->not_finite[0] != '\0') fprintf(stderr, "; %s", step->not_finite);
  if (step->loss_scale != step->next_loss_scale) {
    fprintf(stderr, "; loss scale %.0f -> %.0f", step->loss_scale, step->next_loss_scale);
  }
  fputc('\n', stderr);
}

static bool is_asynchronous(const gpt_logger_t *logger) {
  return train_schedule_is_asynchronous((train_schedule_kind_t)logger->setup->settings->schedule);
}

/* Of a pipeline whose bubble is measured. Asynchronous schedules have no passes of a step. */
static int stages_of(const gpt_logger_t *logger) {
  return is_asynchronous(logger) ? 1 : logger->setup->parallel->ranks.stages;
}

/* The rate of which shares are taken. Steps that overlap take a time together, not each its own. */
static double rate_of(const gpt_logger_t *logger, const train_step_t *step, double own) {
  return is_asynchronous(logger) ? step->tokens_per_s : own;
}

static void log_metrics(gpt_logger_t *logger, const train_step_t *step, double mfu) {
  train_scalar_t scalars[2];
  size_t count = gpt_metrics_scalars(mfu, step->bubble, stages_of(logger), scalars);
  log_scalars(logger, step->step, scalars, count);
}

static void log_traffic(gpt_logger_t *logger, const train_step_t *step) {
  train_scalar_t scalars[GPT_TRAFFIC_SCALARS_MAX];
  size_t count = gpt_traffic_scalars(step, scalars);
  if (count > 0) log_scalars(logger, step->step, scalars, count);
}

static void on_step(void *context, const train_step_t *step) {
  gpt_logger_t *logger = context;
  const gpt_setup_t *setup = logger->setup;
  if (!logger->is_rank_0) return;
  double tokens = (double)setup->settings->batch * setup->layout->config.context;
  double tokens_per_s = tokens / (step->ms * 1e-3);
  double compared = rate_of(logger, step, tokens_per_s);
  gpt_speed_note(&logger->speed, compared);
  gpt_speed_note(&logger->speed, step->tokens_per_s);
  double fraction = gpt_speed_fraction(&logger->speed, compared);
  bool experts = setup->layout->config.experts > 0;
  const train_scalar_t scalars[] = {{"loss/training", step->loss},
                                    {"optimizer/lr", step->rate},
                                    {"optimizer/grad_norm", step->gradient_norm},
                                    {"optimizer/loss_scale", step->loss_scale},
                                    {"optimizer/skipped", step->skipped ? 1 : 0},
                                    {"time/step_ms", step->ms},
                                    {"time/comm_ms", step->comm_ms},
                                    {"time/exposed_comm_ms", step->exposed_comm_ms},
                                    {"speed/tokens_per_s", tokens_per_s},
                                    {"speed/flops_fraction", fraction},
                                    {"experts/balance", step->expert_balance},
                                    {"experts/dropped", step->dropped}};
  json_t *line = json_pack("{s:s, s:I, s:o, s:f, s:o, s:f, s:b, s:f, s:f, s:f, s:f, s:f, s:I}",
                           "record", "step", "step", (json_int_t)step->step, "loss",
                           number_or_null(step->loss), "lr", step->rate, "grad_norm",
                           number_or_null(step->gradient_norm), "loss_scale", step->loss_scale,
                           "skipped", step->skipped, "ms", step->ms, "tokens_per_s", tokens_per_s,
                           "flops_fraction", fraction, "comm_ms", step->comm_ms, "exposed_comm_ms",
                           step->exposed_comm_ms, "bytes_sent", (json_int_t)step->bytes_sent);
  if (experts && line != NULL) {
    json_object_set_new(line, "expert_balance", number_or_null(step->expert_balance));
    json_object_set_new(line, "dropped", number_or_null(step->dropped));
  }
  double mfu = gpt_speed_mfu(&logger->speed, compared);
  gpt_traffic_log(step, line);
  gpt_metrics_log(mfu, step->bubble, stages_of(logger), line);
  write_log(logger, line);
  log_traffic(logger, step);
  log_metrics(logger, step, mfu);
  gpt_metrics_add(&logger->metrics, step);
  log_scalars(logger, step->step, scalars,
              sizeof scalars / sizeof scalars[0] - (experts ? 0 : 2)); /* the last two */
  train_curve_add(&logger->curve, TRAIN_CURVE_TRAINING, step->step, step->loss);
  logger->done = step->progress;
  logger->skipped_steps += step->skipped;
  if (step->skipped) report_skipped(logger, step);
  write_note(logger, step);
  base_progress_update(&logger->progress, logger->done, logger->note);
}

/* "off", or the number of --tp-overlap. */
static const char *overlap_text(int candidate, char text[16]) {
  int overlap = train_overlap_candidates[candidate];
  if (overlap == 0) return "off";
  snprintf(text, 16, "%d", overlap);
  return text;
}

static void on_overlap(void *context, const train_overlap_choice_t *choice) {
  gpt_logger_t *logger = context;
  char text[16];
  if (!logger->is_rank_0) return;
  json_t *times = json_object();
  fprintf(stderr, "%s--tp-overlap auto chose %s; ms of a step:",
          logger->progress.terminal ? "\r\x1b[K" : "", overlap_text(choice->chosen, text));
  for (int i = 0; i < TRAIN_OVERLAP_CANDIDATES; i++) {
    double ms = train_overlap_ms(choice, i);
    const char *name = overlap_text(i, text);
    fprintf(stderr, "%s %s %.1f", i > 0 ? "," : "", name, ms);
    json_object_set_new(times, name, json_real(ms));
  }
  fputc('\n', stderr);
  write_log(logger, json_pack("{s:s, s:s, s:o}", "record", "tp_overlap", "chosen",
                              overlap_text(choice->chosen, text), "step_ms", times));
}

static coll_status_t draw_curve(const gpt_logger_t *logger, const train_step_t *step) {
  const gpt_setup_t *setup = logger->setup;
  char title[64], text[192], note[256];
  if (setup->settings->curve == NULL) return COLL_OK;
  describe(setup, text, sizeof text);
  snprintf(title, sizeof title, "GPT-2, %.2f M parameters",
           (double)setup->layout->parameter_count * 1e-6);
  snprintf(note, sizeof note, "%s; %.0f tokens/s", text, step->tokens_per_s);
  return train_curve_write(&logger->curve, title, note, UNIT, setup->settings->curve);
}

static void on_evaluation(void *context, const train_step_t *step,
                          const train_evaluation_t *evaluation) {
  gpt_logger_t *logger = context;
  uint64_t peak_footprint = gpt_footprint_bytes();
  if (peak_footprint > logger->peak_footprint) logger->peak_footprint = peak_footprint;
  if (!logger->is_rank_0) return;
  const train_scalar_t scalar = {"loss/held_out", evaluation->loss};
  write_log(logger,
            json_pack("{s:s, s:I, s:f, s:f, s:I, s:I}", "record", "evaluation", "step",
                      (json_int_t)step->step, "loss", evaluation->loss, "nats_per_byte",
                      gpt_nats_per_byte(evaluation), "tokens", (json_int_t)evaluation->tokens,
                      "bytes", (json_int_t)evaluation->bytes));
  log_scalars(logger, step->step, &scalar, 1);
  train_curve_add(&logger->curve, TRAIN_CURVE_HELD_OUT, step->step, evaluation->loss);
  report_failure(logger, draw_curve(logger, step));
  logger->evaluation = *evaluation;
  write_note(logger, step);
}

static void on_end(void *context, const train_model_t *model) {
  gpt_logger_t *logger = context;
  const gpt_setup_t *setup = logger->setup;
  gpt_logger_stop(logger);
  if (setup->settings->explain && setup->group->rank == 0) gpt_explain_print(model);
}

train_observer_t gpt_logger_observer(gpt_logger_t *logger) {
  return (train_observer_t){.on_step = on_step,
                            .on_evaluation = on_evaluation,
                            .on_overlap = on_overlap,
                            .on_end = on_end,
                            .context = logger};
}

void gpt_logger_stop(gpt_logger_t *logger) {
  if (logger->progress.shown) base_progress_end(&logger->progress, logger->done, logger->note);
  logger->progress.shown = false;
}

/* The memory that the run added to the ranks' footprints, averaged over the ranks. */
static coll_status_t memory_used(const gpt_logger_t *logger, double *bytes) {
  double sum = (double)logger->peak_footprint - (double)logger->setup->footprint_before;
  COLL_TRY(train_group_sum_doubles(logger->setup->group, &sum, 1));
  *bytes = sum / logger->setup->group->size;
  return COLL_OK;
}

static void print_result(const gpt_logger_t *logger, const train_result_t *result,
                         double used_bytes) {
  const gpt_setup_t *setup = logger->setup;
  const train_step_t *last = &result->last;
  gpt_evaluation_print(&result->held_out);
  printf("%.0f tokens/s, %.1f%% of the GEMM rate; each rank used %.1f MB (%.1f predicted)",
         last->tokens_per_s, gpt_speed_fraction(&logger->speed, last->tokens_per_s) * 100,
         used_bytes * 1e-6, (double)gpt_memory_total(&setup->memory) * 1e-6);
  if (last->bytes_sent > 0) printf(" and sent %.1f MB per step", (double)last->bytes_sent * 1e-6);
  printf("\n");
  gpt_metrics_print(&logger->metrics, setup->settings, &logger->speed, stages_of(logger),
                    train_slices_count(&setup->parallel->slices), last->tokens_per_s);
  gpt_traffic_print(last);
  printf("checkpoint %s after step %llu\n", setup->settings->out, (unsigned long long)last->step);
}

coll_status_t gpt_logger_finish(gpt_logger_t *logger, const train_result_t *result) {
  const gpt_setup_t *setup = logger->setup;
  const train_step_t *last = &result->last;
  double used_bytes;
  COLL_TRY(memory_used(logger, &used_bytes));
  if (!logger->is_rank_0) return COLL_OK;
  json_t *line = json_pack(
      "{s:s, s:I, s:I, s:o, s:f, s:f, s:f, s:f, s:I, s:I, s:I}", "record", "summary", "step",
      (json_int_t)last->step, "skipped", (json_int_t)logger->skipped_steps, "loss",
      number_or_null(last->loss), "held_out_loss", result->held_out.loss, "tokens_per_s",
      last->tokens_per_s, "flops_fraction", gpt_speed_fraction(&logger->speed, last->tokens_per_s),
      "gemm_flops_per_s", logger->speed.gemm_per_s, "bytes_sent", (json_int_t)last->bytes_sent,
      "memory_bytes", (json_int_t)used_bytes, "memory_bytes_predicted",
      (json_int_t)gpt_memory_total(&setup->memory));
  gpt_metrics_log(gpt_speed_mfu(&logger->speed, last->tokens_per_s),
                  gpt_metrics_bubble(&logger->metrics), stages_of(logger), line);
  write_log(logger, line);
  print_result(logger, result, used_bytes);
  if (logger->failure == COLL_OK) return COLL_OK;
  return base_fail(logger->failure, "%s", logger->message);
}

void gpt_logger_close(gpt_logger_t *logger) {
  if (logger == NULL) return;
  train_json_log_close(logger->log);
  train_events_close(logger->events);
  free(logger);
}
