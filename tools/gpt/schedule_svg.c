/* The timeline of a schedule as a picture: a row per stage, a box per action. Chunks of a stage
 * have shades of a color. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "libtrain/files/svg.h"
#include "tools/gpt/schedule_view.h"

#define MAX_BOXES 20000 /* a larger picture would be unreadable */
#define LEFT 76.0
#define RIGHT 28.0
#define TOP 96.0
#define ROW 26.0
#define GAP 4.0
#define BOTTOM 78.0
#define UNIT_MAX 26.0 /* pixels */
#define UNIT_MIN 4.0
#define DRAWING_WIDTH 1150.0
#define LETTER 6.2 /* width of a digit */
#define TICKS 12

static const struct {
  const char *class, *meaning;
} looks[TRAIN_ACTION_KIND_COUNT] = {{"forward", "forward"},
                                    {"backward", "backward"},
                                    {"input", "backward, gradient of the input"},
                                    {"weight", "backward, gradient of the weights"},
                                    {"update", "update"}};

static const char style[] =
    ".in { font-size: 10px; fill: #ffffff; font-weight: 600; }\n"
    ".row { fill: #f3f5f8; }\n"
    ".forward { fill: #2f6fd0; } .backward { fill: #2f9e6e; } .input { fill: #2f9e6e; }\n"
    ".weight { fill: #8a6fd1; } .update { fill: #e88a1a; }\n";

static const char dark_style[] =
    "  .row { fill: #1a212b; } .forward { fill: #3f80de; } .backward { fill: #2c8a62; }\n"
    "  .input { fill: #2c8a62; }\n";

typedef struct picture {
  const gpt_schedule_view_t *view;
  FILE *out;
  double unit, pixels; /* a unit of time is so many pixels wide */
  double right;        /* end of the rows */
} picture_t;

static double x_of(const picture_t *picture, double time) {
  return LEFT + time / picture->unit * picture->pixels;
}

static double y_of(int stage) {
  return TOP + stage * (ROW + GAP);
}

static void draw_row(const picture_t *picture, int stage) {
  char name[32];
  snprintf(name, sizeof name, "stage %d", stage);
  train_svg_text(picture->out, LEFT - 10, y_of(stage) + ROW / 2 + 4, "label", "end", name);
  fprintf(picture->out,
          "<rect class=\"row\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", LEFT,
          y_of(stage), picture->right - LEFT, ROW);
}

/* The number in a box is the micro-batch's; its kind is the color. */
static void draw_box(const picture_t *picture, int stage, size_t at) {
  const train_schedule_shape_t *shape = &picture->view->schedule->shape;
  const train_action_t *action = &picture->view->schedule->actions[at];
  const train_span_t *span = &picture->view->timing.spans[at];
  double x = x_of(picture, span->start), width = x_of(picture, span->end) - x;
  char label[GPT_ACTION_LABEL_BYTES], text[TRAIN_ACTION_TEXT_BYTES];
  if (width <= 0) return;
  gpt_schedule_label(picture->view, action, label);
  double shade = 1 - 0.5 * action->chunk / shape->chunks;
  fprintf(picture->out,
          "<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" rx=\"2\"",
          looks[action->kind].class, x + 0.5, y_of(stage) + 1, fmax(width - 1, 0.5), ROW - 2);
  if (shade < 1) fprintf(picture->out, " fill-opacity=\"%.2f\"", shade);
  fprintf(picture->out, "><title>%s, version %d, %g to %g</title></rect>\n",
          train_action_text(shape, action, text), (int)action->version, span->start, span->end);
  const char *number = label + 1;
  if (LETTER * (double)strlen(number) > width - 2) {
    snprintf(label, sizeof label, "%d", (int)action->micro_batch);
    number = label;
  }
  if (LETTER * (double)strlen(number) > width - 2) return;
  train_svg_text(picture->out, x + width / 2, y_of(stage) + ROW / 2 + 3.5, "in", "middle", number);
}

/* Marks of the time axis at 1, 2 or 5 times a power of ten. */
static void draw_axis(const picture_t *picture) {
  double end = picture->view->timing.end, y = y_of(picture->view->schedule->shape.stages) + 2;
  double power = pow(10, floor(log10(fmax(end, 1e-300) / TICKS))), tick = power;
  if (tick * TICKS < end) tick = 2 * power;
  if (tick * TICKS < end) tick = 5 * power;
  if (tick * TICKS < end) tick = 10 * power;
  train_svg_line(picture->out, LEFT, y, picture->right, y, "axis");
  for (double time = 0; time <= end * (1 + 1e-9); time += tick) {
    char number[32];
    snprintf(number, sizeof number, "%g", time);
    train_svg_line(picture->out, x_of(picture, time), y, x_of(picture, time), y + 4, "axis");
    train_svg_text(picture->out, x_of(picture, time), y + 17, "tick", "middle", number);
  }
  train_svg_text(picture->out, LEFT - 10, y + 17, "tick", "end", "time");
}

static void draw_legend(const picture_t *picture) {
  const train_schedule_t *schedule = picture->view->schedule;
  double x = LEFT, y = y_of(schedule->shape.stages) + 36;
  for (int kind = 0; kind < TRAIN_ACTION_KIND_COUNT; kind++) {
    bool is_used = false;
    for (size_t i = 0; i < schedule->first[schedule->shape.stages] && !is_used; i++) {
      const train_span_t *span = &picture->view->timing.spans[i];
      is_used = (int)schedule->actions[i].kind == kind && span->end > span->start;
    }
    if (!is_used) continue;
    fprintf(picture->out,
            "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"16\" height=\"14\" rx=\"2\"/>\n",
            looks[kind].class, x, y);
    train_svg_text(picture->out, x + 22, y + 11, "tick", "start", looks[kind].meaning);
    x += 50 + LETTER * (double)strlen(looks[kind].meaning);
  }
}

static void draw_title(const picture_t *picture) {
  const gpt_schedule_view_t *view = picture->view;
  char title[GPT_SCHEDULE_TITLE_BYTES], note[256];
  int live = 0;
  for (int stage = 0; stage < view->schedule->shape.stages; stage++) {
    if (view->report.stages[stage].live > live) live = view->report.stages[stage].live;
  }
  snprintf(
      note, sizeof note,
      "bubble %.1f %%; activations of up to %d micro-batches%s held; numbers are micro-batches",
      100 * view->timing.bubble, live, view->schedule->shape.chunks > 1 ? " of a chunk" : "");
  train_svg_text(picture->out, 24, 34, "title", "start",
                 gpt_schedule_title(&view->schedule->shape, title));
  train_svg_text(picture->out, 24, 54, "note", "start", note);
  if (view->report.staleness == 0) return;
  snprintf(note, sizeof note, "weights up to %d update%s old", view->report.staleness,
           view->report.staleness == 1 ? "" : "s");
  train_svg_text(picture->out, 24, 71, "note", "start", note);
}

coll_status_t gpt_schedule_draw(const gpt_schedule_view_t *view, const char *path) {
  const train_schedule_t *schedule = view->schedule;
  int stages = schedule->shape.stages;
  picture_t picture = {.view = view, .unit = gpt_schedule_unit(view)};
  if (schedule->first[stages] > MAX_BOXES) {
    return base_fail(
        COLL_ERROR_INVALID,
        "a picture of %zu actions cannot be read (at most %d); use fewer micro-batches "
        "or stages",
        schedule->first[stages], MAX_BOXES);
  }
  double units = view->timing.end / picture.unit;
  picture.pixels = fmin(fmax(DRAWING_WIDTH / fmax(units, 1), UNIT_MIN), UNIT_MAX);
  picture.right = x_of(&picture, view->timing.end);
  double width = fmax(picture.right + RIGHT, 560), height = y_of(stages) + BOTTOM;
  COLL_TRY(train_svg_open("--svg", path, ceil(width), height, style, dark_style, &picture.out));
  draw_title(&picture);
  for (int stage = 0; stage < stages; stage++) {
    draw_row(&picture, stage);
    for (size_t at = schedule->first[stage]; at < schedule->first[stage + 1]; at++) {
      draw_box(&picture, stage, at);
    }
  }
  draw_axis(&picture);
  draw_legend(&picture);
  return train_svg_close("--svg", path, picture.out);
}
