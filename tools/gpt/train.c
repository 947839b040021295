/* gpt train: options, a progress bar on rank 0, the loop of libtrain, and the result in words. */
#include <stdio.h>
#include <string.h>

#include "base/progress.h"
#include "tools/gpt/gpt.h"
#include "tools/gpt/report.h"

#define DEFAULT_SECONDS 60.0

/* The options as the parser fills them, with their defaults. */
typedef struct settings {
  const char *data, *out, *resume, *json;
  double seconds, lr, warmup, weight_decay, clip;
  int64_t steps, layers, heads, width, context, batch, seed, threads, evaluations;
  uint64_t evaluation_bytes;
} settings_t;

static const settings_t defaults = {.data = GPT_DEFAULT_DATA,
                                    .out = GPT_DEFAULT_CHECKPOINT,
                                    .lr = 4e-3,
                                    .warmup = 0.05,
                                    .weight_decay = 0.1,
                                    .clip = 1.0,
                                    .layers = 2,
                                    .heads = 4,
                                    .width = 128,
                                    .context = 64,
                                    .batch = 16,
                                    .seed = 1,
                                    .evaluations = 4,
                                    .evaluation_bytes = 128 << 10};

/* What the observer of the run needs. */
typedef struct display {
  bool shown; /* on rank 0 */
  base_progress_t progress;
  double done; /* of the run, 0 to 1 */
  char note[96];
  double held_out_loss; /* 0 before the first evaluation */
  gpt_report_t *report; /* NULL without --json */
} display_t;

static void write_note(display_t *display, const train_step_t *step) {
  int used = snprintf(display->note, sizeof display->note, "step %llu  loss %.3f  %.1fk tokens/s",
                      (unsigned long long)step->step, step->loss, step->tokens_per_s * 1e-3);
  if (display->held_out_loss > 0) {
    snprintf(display->note + used, sizeof display->note - (size_t)used, "  held-out %.3f",
             display->held_out_loss);
  }
}

static void on_step(void *context, const train_step_t *step) {
  display_t *display = context;
  if (display->report != NULL) gpt_report_step(display->report, step);
  if (!display->shown) return;
  display->done = step->progress;
  write_note(display, step);
  base_progress_update(&display->progress, display->done, display->note);
}

static void on_evaluation(void *context, const train_step_t *step,
                          const train_evaluation_t *evaluation) {
  display_t *display = context;
  if (display->report != NULL) gpt_report_evaluation(display->report, step, evaluation);
  display->held_out_loss = evaluation->loss;
  write_note(display, step);
}

static coll_status_t parse(int argc, char **argv, const base_command_t *command,
                           settings_t *settings, bool *helped) {
  COLL_TRY(gpt_options_parse(command, argc, argv, helped));
  const struct {
    const char *name;
    double value, least, most;
  } ranges[] = {{"--lr", settings->lr, 0, 1},
                {"--warmup", settings->warmup, 0, 1},
                {"--weight-decay", settings->weight_decay, 0, 1},
                {"--clip", settings->clip, 1e-6, 1e6},
                {"--seconds", settings->seconds, 0, 1e8}};
  for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
    if (ranges[i].value < ranges[i].least || ranges[i].value > ranges[i].most) {
      return base_fail(COLL_ERROR_INVALID, "%s %g: give %g to %g", ranges[i].name, ranges[i].value,
                       ranges[i].least, ranges[i].most);
    }
  }
  if (settings->steps == 0 && settings->seconds <= 0) settings->seconds = DEFAULT_SECONDS;
  return COLL_OK;
}

static train_options_t options_of(const settings_t *settings) {
  train_options_t options = {.steps = (uint64_t)settings->steps,
                             .seconds = settings->seconds,
                             .batch = (int)settings->batch,
                             .rate = settings->lr,
                             .warmup = settings->warmup,
                             .clip = settings->clip,
                             .adamw = TRAIN_ADAMW_INIT,
                             .seed = (uint64_t)settings->seed,
                             .evaluations = (int)settings->evaluations,
                             .evaluation_bytes = (size_t)settings->evaluation_bytes,
                             .checkpoint = settings->out};
  options.adamw.weight_decay = (float)settings->weight_decay;
  return options;
}

/* A new model, or the one in the checkpoint to resume. */
static coll_status_t open_state(const settings_t *settings, train_state_t *state) {
  if (settings->resume != NULL) return train_checkpoint_load(settings->resume, state);
  const train_model_config_t config = {.vocabulary = TRAIN_BYTE_VOCABULARY,
                                       .context = (int32_t)settings->context,
                                       .layers = (int32_t)settings->layers,
                                       .heads = (int32_t)settings->heads,
                                       .width = (int32_t)settings->width};
  COLL_TRY(train_state_create(&config, state));
  train_layout_initialize(state->layout, (uint64_t)settings->seed, 0,
                          state->layout->parameter_count, state->parameters);
  return COLL_OK;
}

static coll_status_t open_all(const settings_t *settings, train_state_t *state,
                              train_data_t *data) {
  COLL_TRY(open_state(settings, state));
  COLL_TRY(train_data_load(settings->data, data));
  return train_data_check(data, state->layout->config.context);
}

static void print_setup(const settings_t *settings, const train_team_t *team, int threads,
                        const train_layout_t *layout, const train_data_t *data) {
  const train_model_config_t *config = &layout->config;
  printf("%s: %zu files, %.1f MB to train on; %zu files, %.1f MB held out\n", settings->data,
         data->training.files, (double)data->training.count * 1e-6, data->held_out.files,
         (double)data->held_out.count * 1e-6);
  printf(
      "%.2f M parameters (%d layers, %d heads, width %d, context %d), batch %d on %d rank%s of "
      "%d thread%s\n",
      (double)layout->parameter_count * 1e-6, config->layers, config->heads, config->width,
      config->context, (int)settings->batch, team->size, team->size > 1 ? "s" : "", threads,
      threads > 1 ? "s" : "");
  fflush(stdout);
}

static coll_status_t train(const settings_t *settings, const train_team_t *team, int threads,
                           const train_data_t *data, train_state_t *state) {
  const train_options_t options = options_of(settings);
  display_t display = {.shown = team->rank == 0};
  const train_observer_t observer = {on_step, on_evaluation, &display};
  train_result_t result;
  coll_status_t status = COLL_OK;
  if (display.shown) {
    print_setup(settings, team, threads, state->layout, data);
    if (settings->json != NULL) status = gpt_report_create(settings->json, &display.report);
    base_progress_begin(&display.progress, "train", 1);
  }
  COLL_TRY(train_team_agree(team, status));
  if (display.report != NULL) {
    gpt_report_setup(display.report, state->layout, data, &options, team, threads);
  }
  status = train_run(&options, data, team, &observer, state, &result);
  if (display.shown && display.progress.shown) {
    base_progress_end(&display.progress, display.done, display.note);
  }
  if (status == COLL_OK) {
    status = display.report != NULL ? gpt_report_write(display.report, &result) : COLL_OK;
    status = train_team_agree(team, status);
  }
  gpt_report_destroy(display.report);
  if (status == COLL_OK && display.shown) {
    gpt_evaluation_print(&result.held_out);
    printf("checkpoint %s after step %llu\n", settings->out, (unsigned long long)state->step);
  }
  return status;
}

static coll_status_t run(const settings_t *settings, const train_team_t *team) {
  train_state_t state = {0};
  train_data_t data = {0};
  int threads = gpt_threads_apply(team, settings->threads);
  coll_status_t status = train_team_agree(team, open_all(settings, &state, &data));
  if (status == COLL_OK) status = train(settings, team, threads, &data, &state);
  train_data_free(&data);
  train_state_free(&state);
  return status;
}

int gpt_train(int argc, char **argv) {
  settings_t s = defaults;
  const base_option_t table[] = {
      {'d', "data", BASE_OPTION_TEXT, &s.data, "PATH", "a text file or a folder tree of them"},
      {'o', "out", BASE_OPTION_TEXT, &s.out, "FILE", "where the checkpoint goes"},
      {0, "resume", BASE_OPTION_TEXT, &s.resume, "FILE", "go on from this checkpoint"},
      {'t', "seconds", BASE_OPTION_NUMBER, &s.seconds, "S",
       "train this long; 60 when --steps is not given either"},
      {'s', "steps", BASE_OPTION_INTEGER, &s.steps, "N", "train up to this step; 0: no limit"},
      {'l', "layers", BASE_OPTION_INTEGER, &s.layers, "N", "transformer blocks", 1, 1024},
      {0, "heads", BASE_OPTION_INTEGER, &s.heads, "N", "attention heads; divides width", 1, 1024},
      {'w', "width", BASE_OPTION_INTEGER, &s.width, "N", "embedding width", 1, 32768},
      {'c', "context", BASE_OPTION_INTEGER, &s.context, "BYTES", "how far back it sees", 1, 65536},
      {'b', "batch", BASE_OPTION_INTEGER, &s.batch, "N",
       "sequences per step, over all ranks together", 1, 1 << 20},
      {0, "lr", BASE_OPTION_NUMBER, &s.lr, "X", "highest learning rate"},
      {0, "warmup", BASE_OPTION_NUMBER, &s.warmup, "X", "part of the run in which it rises"},
      {0, "weight-decay", BASE_OPTION_NUMBER, &s.weight_decay, "X", "AdamW's, on matrices"},
      {0, "clip", BASE_OPTION_NUMBER, &s.clip, "X", "largest gradient norm"},
      {0, "seed", BASE_OPTION_INTEGER, &s.seed, "N", "of the weights and the order of data"},
      {0, "evals", BASE_OPTION_INTEGER, &s.evaluations, "N",
       "held-out evaluations (and saves), evenly over the run", 1, 1000},
      {0, "eval-bytes", BASE_OPTION_BYTES, &s.evaluation_bytes, "SIZE",
       "held-out bytes to predict in each", 1, INT64_C(1) << 40},
      {'j', "threads", BASE_OPTION_INTEGER, &s.threads, "N",
       "threads per rank; 0: its share of the cores", 0, 1024},
      {0, "json", BASE_OPTION_TEXT, &s.json, "FILE", "write the run's record there"}};
  const base_command_t command = {
      .name = "gpt train",
      .usage = "[options]",
      .summary =
          "Trains a GPT-2 on the bytes of text files and saves it. One file in ten is held out "
          "and\n"
          "measured. Under a launcher the ranks split the batch; the result is the same.",
      .examples =
          "  gpt train --data ~/src --seconds 300 --out src.ckpt\n"
          "      five minutes on a folder of your own, on one rank with all cores\n"
          "  collrun -n 2 gpt train\n"
          "      a minute on the C headers in /usr/include, on two ranks\n"
          "  collrun -n 4 gpt train --steps 500 --batch 32 --json run.json\n"
          "      500 steps, whatever time they take, and a record of every loss\n",
      .options = table,
      .option_count = sizeof table / sizeof table[0]};
  bool helped = false;
  coll_status_t status = parse(argc, argv, &command, &s, &helped);
  if (helped) return 0;
  train_team_t team = {0};
  status = gpt_team_open(status, &team);
  if (status == COLL_OK) status = run(&s, &team);
  return gpt_finish(&command, status, &team);
}
