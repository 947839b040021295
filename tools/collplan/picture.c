/*
 * Every step takes one unit of time and is drawn at the earliest time at which it can run. Arrows
 * are drawn below the boxes, so an arrow that crosses other rows passes behind their boxes.
 */
#include "tools/collplan/picture.h"

#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "plan/text.h"
#include "tools/collplan/timeline.h"

#define MARGIN 28
#define LABEL_WIDTH 72 /* "rank 12" left of the rows */
#define HEAD_HEIGHT 112
#define LEGEND_ITEM_WIDTH 118
#define MARK_LETTER_WIDTH 0.72 /* relative to the font size */
#define SPAN_HEIGHT 24         /* boxes of at least this height show their chunks too */
#define SPAN_LETTER_WIDTH 4.9  /* at 8.5 pixels */

/* The appearance of a step: the mark before the peer's number, the box and its text. */
typedef struct look {
  const char *mark, *fill, *ink, *meaning;
} look_t;

static const look_t looks[PLAN_STEP_KIND_COUNT] = {
    [PLAN_COPY] = {"=", "#a9b4c2", "#1f2933", "copy"},
    [PLAN_REDUCE] = {"\u03a3", "#2f9e6e", "#ffffff", "reduce"},
    [PLAN_SEND] = {"\u2192", "#2f6fd0", "#ffffff", "send to"},
    [PLAN_RECV] = {"\u2190", "#8fbcf0", "#12304f", "receive from"},
    [PLAN_SIGNAL] = {"!", "#e88a1a", "#ffffff", "signal"},
    [PLAN_WAIT] = {"?", "#f8d49a", "#5c3a05", "wait for"},
    [PLAN_AFTER] = {"\u2225", "#cdbdea", "#3a2466", "after"},
};

typedef enum arrow { ARROW_MESSAGE, ARROW_SIGNAL, ARROW_MEMORY, ARROW_COUNT } arrow_t;

static const struct {
  const char *name, *meaning, *colour, *dashes;
} arrows[ARROW_COUNT] = {
    [ARROW_MESSAGE] = {"message", "message", "#2f6fd0", "none"},
    [ARROW_SIGNAL] = {"signal", "signal", "#e88a1a", "4 3"},
    [ARROW_MEMORY] = {"memory", "peer's memory", "#7b8794", "1.5 2.5"},
};

typedef struct picture {
  const plan_t *plan;
  timeline_t timeline;
  FILE *out;
  double unit;           /* width of a step */
  double box, gap, band; /* heights: of a box, between rows, of a rank's rows with the gap */
  double width, height, bottom;
  double mark_size; /* font size of the marks */
  bool shows_spans;
} picture_t;

/* ---- layout --------------------------------------------------------------------------------- */

/* The span that a box shows: the data that is sent or written. */
static const plan_span_t *span_of(const plan_step_t *step) {
  switch (step->kind) {
    case PLAN_COPY: return &step->copy.dst;
    case PLAN_REDUCE: return &step->reduce.dst;
    case PLAN_SEND: return &step->send.src;
    case PLAN_RECV: return &step->recv.dst;
    default: return NULL;
  }
}

/* The label of a span, such as "out 3-5". Returns its length. */
static int span_label(const plan_span_t *span, char *text, size_t bytes) {
  static const char *const buffers[PLAN_BUFFER_COUNT] = {"in", "out", "tmp"};
  if (span->count == 1) return snprintf(text, bytes, "%s %d", buffers[span->buffer], span->first);
  return snprintf(text, bytes, "%s %d-%d", buffers[span->buffer], span->first,
                  span->first + span->count - 1);
}

static double clamp(double value, double least, double most) {
  return value < least ? least : value > most ? most : value;
}

static double box_width(const picture_t *picture) {
  return picture->unit - clamp(picture->unit * 0.1, 1, 5);
}

static void lay_out(picture_t *picture) {
  const plan_t *plan = picture->plan;
  double rows = plan->shape.size * plan->lanes;
  double units = picture->timeline.end > 0 ? (double)picture->timeline.end : 1;
  picture->unit = clamp(1480 / units, 14, 76);
  picture->box = clamp(720 / rows, 12, 30);
  picture->gap = picture->box * 0.75;
  picture->band = plan->lanes * (picture->box + 3) - 3 + picture->gap;
  picture->bottom = HEAD_HEIGHT + picture->band * plan->shape.size;
  picture->width = clamp(2 * MARGIN + LABEL_WIDTH + picture->unit * units, 860, 1e9);
  picture->height = picture->bottom + 84;
}

/* All boxes of a picture have the same kind of label: with spans if every one fits, and with marks
 * of one size. */
static void choose_labels(picture_t *picture) {
  int longest = 0;
  char text[48];
  for (size_t i = 0; i < picture->timeline.count; i++) {
    const plan_span_t *span = span_of(picture->timeline.steps[i].step);
    int length = span != NULL ? span_label(span, text, sizeof text) : 0;
    longest = length > longest ? length : longest;
  }
  double width = box_width(picture);
  picture->shows_spans = picture->box >= SPAN_HEIGHT && longest * SPAN_LETTER_WIDTH < width;
  int letters = 1 + snprintf(text, sizeof text, "%d", picture->plan->shape.size - 1);
  picture->mark_size = clamp(picture->box * 0.44, 4, 12);
  picture->mark_size = clamp(picture->mark_size, 4, width / (MARK_LETTER_WIDTH * letters));
}

static double time_x(const picture_t *picture, double time) {
  return MARGIN + LABEL_WIDTH + picture->unit * time;
}

static double rank_y(const picture_t *picture, int32_t rank) {
  return HEAD_HEIGHT + picture->band * rank + picture->gap / 2;
}

static double lane_y(const picture_t *picture, int32_t rank, int32_t lane) {
  return rank_y(picture, rank) + lane * (picture->box + 3);
}

static double middle_x(const picture_t *picture, const timeline_step_t *step) {
  return time_x(picture, (double)step->start) + box_width(picture) / 2;
}

/* ---- frame ---------------------------------------------------------------------------------- */

static void write_style(const picture_t *picture) {
  fputs(
      "<style>\n"
      "text { font-family: 'Inter', 'Helvetica Neue', Helvetica, Arial, 'DejaVu Sans', "
      "sans-serif; fill: #1f2933; }\n"
      ".small { font-size: 11px; fill: #616e7c; }\n"
      ".label { font-size: 12px; font-weight: 600; text-anchor: end; }\n"
      ".in { text-anchor: middle; }\n"
      ".arrow { fill: none; stroke-width: 1.3; stroke-opacity: 0.75; }\n",
      picture->out);
  for (int i = 0; i < ARROW_COUNT; i++) {
    fprintf(picture->out, ".%s { stroke: %s; stroke-dasharray: %s; marker-end: url(#%s-head); }\n",
            arrows[i].name, arrows[i].colour, arrows[i].dashes, arrows[i].name);
  }
  fputs("</style>\n<defs>\n", picture->out);
  for (int i = 0; i < ARROW_COUNT; i++) {
    fprintf(picture->out,
            "<marker id=\"%s-head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"6.5\" "
            "markerHeight=\"6.5\" orient=\"auto\"><path d=\"M0 0.8 L8 4 L0 7.2 z\" "
            "fill=\"%s\"/></marker>\n",
            arrows[i].name, arrows[i].colour);
  }
  fputs("</defs>\n", picture->out);
}

/* Names come from files: characters with a meaning in XML are replaced. */
static void write_plain(const char *text, FILE *out) {
  for (; *text != '\0'; text++) fputc(strchr("<>&\"'", *text) != NULL ? '?' : *text, out);
}

static void write_title(const picture_t *picture) {
  const plan_t *plan = picture->plan;
  FILE *out = picture->out;
  fprintf(out, "<text x=\"%d\" y=\"44\" font-size=\"22\" font-weight=\"700\">%s \u00b7 ", MARGIN,
          base_collective_name(plan->shape.collective));
  write_plain(plan->algorithm, out);
  fprintf(out, " \u00b7 %d rank%s</text>\n", plan->shape.size, plan->shape.size == 1 ? "" : "s");
  fprintf(out, "<text x=\"%d\" y=\"66\" class=\"small\" font-size=\"12\">", MARGIN);
  if (plan->shape.root > 0 || base_collective_is_rooted(plan->shape.collective)) {
    fprintf(out, "root %d \u00b7 ", plan->shape.root);
  }
  fprintf(out,
          "%d chunk%s per block \u00b7 %zu steps, each drawn as one unit of time, as early as it "
          "can start \u00b7 FIFO depth %d \u00b7 reach: %s%s</text>\n",
          plan->parts, plan->parts == 1 ? "" : "s", picture->timeline.count, plan->depth,
          plan_reach_name(plan->reach),
          plan->order == PLAN_ORDER_ANY ? " \u00b7 ranks may hold different bits" : "");
}

/* Ticks at a round interval that leaves room for their numbers. */
static void write_axis(const picture_t *picture) {
  static const int64_t distances[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000};
  size_t chosen = 0, last = sizeof distances / sizeof distances[0] - 1;
  while (chosen < last && (double)distances[chosen] * picture->unit < 34) chosen++;
  for (int64_t time = 0; time <= picture->timeline.end; time += distances[chosen]) {
    double x = time_x(picture, (double)time);
    fprintf(picture->out,
            "<path d=\"M%.1f %d V%.1f\" stroke=\"#d5dbe1\" stroke-width=\"0.8\"/>"
            "<text x=\"%.1f\" y=\"%d\" class=\"small in\">%lld</text>\n",
            x, HEAD_HEIGHT - 8, picture->bottom, x, HEAD_HEIGHT - 13, (long long)time);
  }
  fprintf(picture->out, "<text x=\"%d\" y=\"%d\" class=\"small\">time</text>\n", MARGIN,
          HEAD_HEIGHT - 13);
}

static void write_rows(const picture_t *picture) {
  const plan_t *plan = picture->plan;
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    double top = rank_y(picture, rank) - picture->gap / 2;
    double middle = top + picture->band / 2;
    if (rank % 2 == 0) {
      fprintf(picture->out,
              "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#f3f5f8\"/>\n",
              MARGIN - 8, top, picture->width - 2 * MARGIN + 16, picture->band);
    }
    fprintf(picture->out, "<text x=\"%d\" y=\"%.1f\" class=\"label\">rank %d</text>\n",
            MARGIN + LABEL_WIDTH - 14, middle + 4, rank);
  }
}

/* ---- boxes ---------------------------------------------------------------------------------- */

/* The peer in the mark, or -1; for `after`, the lane. */
static int32_t peer_of(const plan_step_t *step) {
  switch (step->kind) {
    case PLAN_SEND: return step->send.peer;
    case PLAN_RECV: return step->recv.peer;
    case PLAN_SIGNAL: return step->signal.peer;
    case PLAN_WAIT: return step->wait.peer;
    default: return -1;
  }
}

static void write_box_text(const picture_t *picture, const timeline_step_t *step, double x,
                           double y) {
  const look_t *look = &looks[step->step->kind];
  const plan_span_t *span = picture->shows_spans ? span_of(step->step) : NULL;
  double centre = x + box_width(picture) / 2;
  double base =
      span != NULL ? y + picture->box * 0.44 : y + picture->box / 2 + picture->mark_size * 0.36;
  char text[48] = "";
  if (peer_of(step->step) >= 0) snprintf(text, sizeof text, "%d", peer_of(step->step));
  fprintf(picture->out,
          "<text x=\"%.1f\" y=\"%.1f\" class=\"in\" style=\"fill:%s\" font-size=\"%.1f\" "
          "font-weight=\"600\">%s%s</text>\n",
          centre, base, look->ink, picture->mark_size, look->mark, text);
  if (span == NULL) return;
  span_label(span, text, sizeof text);
  fprintf(picture->out,
          "<text x=\"%.1f\" y=\"%.1f\" class=\"in\" style=\"fill:%s\" font-size=\"8.5\">"
          "%s</text>\n",
          centre, y + picture->box * 0.84, look->ink, text);
}

static void write_tooltip(const picture_t *picture, const timeline_step_t *step) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *stream = open_memstream(&text, &bytes);
  if (stream == NULL) return;
  plan_text_write_step(picture->plan, step->rank, step->lane, step->step, stream);
  fclose(stream);
  fprintf(picture->out, "<title>rank %d lane %d step %d: ", step->rank, step->lane, step->index);
  for (const char *at = text; at != NULL && *at != '\0'; at++) {
    if (*at == '<') {
      fputs("&lt;", picture->out);
    } else if (*at == '>') {
      fputs("&gt;", picture->out);
    } else {
      fputc(*at, picture->out);
    }
  }
  fputs("</title>", picture->out);
  free(text);
}

static void write_box(const picture_t *picture, const timeline_step_t *step) {
  double x = time_x(picture, (double)step->start);
  double y = lane_y(picture, step->rank, step->lane);
  fprintf(picture->out,
          "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%.1f\" fill=\"%s\">", x,
          y, box_width(picture), picture->box, clamp(picture->unit * 0.1, 1, 4),
          looks[step->step->kind].fill);
  write_tooltip(picture, step);
  fputs("</rect>\n", picture->out);
  write_box_text(picture, step, x, y);
}

/* ---- arrows --------------------------------------------------------------------------------- */

/* An arrow between the edges of two boxes, vertical at both ends. */
static void write_arrow(const picture_t *picture, arrow_t kind, double from_x, double from_y,
                        double to_x, double to_y) {
  double bend = (to_y - from_y) * 0.45;
  fprintf(picture->out,
          "<path class=\"arrow %s\" d=\"M%.1f %.1f C%.1f %.1f %.1f %.1f %.1f %.1f\"/>\n",
          arrows[kind].name, from_x, from_y, from_x, from_y + bend, to_x, to_y - bend, to_x, to_y);
}

static void write_partner_arrow(const picture_t *picture, const timeline_step_t *step) {
  if (step->partner == SIM_NONE) return;
  const timeline_step_t *to = &picture->timeline.steps[step->partner];
  double from_y = lane_y(picture, step->rank, step->lane),
         to_y = lane_y(picture, to->rank, to->lane);
  bool downwards = to_y > from_y;
  arrow_t kind = step->step->kind == PLAN_SEND ? ARROW_MESSAGE : ARROW_SIGNAL;
  write_arrow(picture, kind, middle_x(picture, step), from_y + (downwards ? picture->box : 0),
              middle_x(picture, to), to_y + (downwards ? 0 : picture->box));
}

/* An arrow between a step's box and the row of the peer whose memory it accesses. `place` 0..1:
 * horizontal position in the box, so that several arrows do not overlap. */
static void write_memory_arrow(const picture_t *picture, const timeline_step_t *step, int32_t peer,
                               bool is_store, double place) {
  double x = time_x(picture, (double)step->start) + box_width(picture) * place;
  double box_y = lane_y(picture, step->rank, step->lane);
  bool peer_below = peer > step->rank;
  double near = box_y + (peer_below ? picture->box : 0);
  double far = rank_y(picture, peer) + (peer_below ? 0 : picture->band - picture->gap);
  fprintf(picture->out, "<path class=\"arrow memory\" d=\"M%.1f %.1f V%.1f\"/>\n", x,
          is_store ? near : far, is_store ? far : near);
}

static void write_memory_arrows(const picture_t *picture, const timeline_step_t *step) {
  const plan_program_t *program = &picture->plan->programs[step->rank];
  const plan_step_t *what = step->step;
  const plan_span_t *dst = span_of(what), *sources = NULL;
  int32_t count = 0;
  if (what->kind == PLAN_COPY) {
    sources = &what->copy.src;
    count = 1;
  } else if (what->kind == PLAN_REDUCE) {
    sources = &program->sources[what->reduce.first_source];
    count = what->reduce.source_count;
  } else {
    return;
  }
  if (dst->rank != step->rank) write_memory_arrow(picture, step, dst->rank, true, 0.5);
  for (int32_t i = 0; i < count; i++) {
    if (sources[i].rank == step->rank) continue;
    write_memory_arrow(picture, step, sources[i].rank, false, (i + 1.0) / (count + 1.0));
  }
}

/* ---- legend --------------------------------------------------------------------------------- */

static bool uses(const picture_t *picture, plan_step_kind_t kind) {
  for (size_t i = 0; i < picture->timeline.count; i++) {
    if (picture->timeline.steps[i].step->kind == kind) return true;
  }
  return false;
}

static double legend_box(const picture_t *picture, plan_step_kind_t kind, double x, double y) {
  const look_t *look = &looks[kind];
  fprintf(picture->out,
          "<rect x=\"%.1f\" y=\"%.1f\" width=\"22\" height=\"18\" rx=\"3\" fill=\"%s\"/>"
          "<text x=\"%.1f\" y=\"%.1f\" class=\"in\" style=\"fill:%s\" font-size=\"11\" "
          "font-weight=\"600\">%s</text>"
          "<text x=\"%.1f\" y=\"%.1f\" class=\"small\">%s</text>\n",
          x, y, look->fill, x + 11, y + 13, look->ink, look->mark, x + 28, y + 13, look->meaning);
  return x + LEGEND_ITEM_WIDTH;
}

static double legend_arrow(const picture_t *picture, arrow_t kind, double x, double y) {
  fprintf(picture->out,
          "<path class=\"arrow %s\" d=\"M%.1f %.1f h26\"/>"
          "<text x=\"%.1f\" y=\"%.1f\" class=\"small\">%s</text>\n",
          arrows[kind].name, x, y + 9, x + 33, y + 13, arrows[kind].meaning);
  return x + 58 + 7.0 * (double)strlen(arrows[kind].meaning);
}

static void write_legend(const picture_t *picture) {
  double x = MARGIN, y = picture->bottom + 22;
  for (int kind = 0; kind < PLAN_STEP_KIND_COUNT; kind++) {
    if (uses(picture, (plan_step_kind_t)kind)) {
      x = legend_box(picture, (plan_step_kind_t)kind, x, y);
    }
  }
  x = MARGIN;
  y += 28;
  if (uses(picture, PLAN_SEND)) x = legend_arrow(picture, ARROW_MESSAGE, x, y);
  if (uses(picture, PLAN_SIGNAL)) x = legend_arrow(picture, ARROW_SIGNAL, x, y);
  if (picture->plan->reach != PLAN_REACH_OWN) x = legend_arrow(picture, ARROW_MEMORY, x, y);
  fprintf(picture->out,
          "<text x=\"%.1f\" y=\"%.1f\" class=\"small\">the number after a mark is the peer%s"
          "</text>\n",
          x, y + 13,
          picture->shows_spans ? "; in, out, tmp: chunks of input, output, scratch" : "");
}

/* ---- the whole ------------------------------------------------------------------------------ */

static void write_all(const picture_t *picture) {
  const timeline_t *timeline = &picture->timeline;
  fprintf(picture->out,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
          "viewBox=\"0 0 %.0f %.0f\">\n",
          picture->width, picture->height, picture->width, picture->height);
  write_style(picture);
  fputs("<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n", picture->out);
  write_title(picture);
  write_rows(picture);
  write_axis(picture);
  for (size_t i = 0; i < timeline->count; i++) {
    const timeline_step_t *step = &timeline->steps[i];
    bool is_source = step->step->kind == PLAN_SEND || step->step->kind == PLAN_SIGNAL;
    if (is_source) write_partner_arrow(picture, step);
    write_memory_arrows(picture, step);
  }
  for (size_t i = 0; i < timeline->count; i++) write_box(picture, &timeline->steps[i]);
  write_legend(picture);
  fputs("</svg>\n", picture->out);
}

coll_status_t picture_write(const plan_t *plan, FILE *out) {
  picture_t picture = {.plan = plan, .out = out};
  COLL_TRY(timeline_create(plan, (timeline_cost_t){.step = 1, .hop = 0}, &picture.timeline));
  size_t steps = picture.timeline.count;
  if (steps <= PICTURE_STEPS_MAX) {
    lay_out(&picture);
    choose_labels(&picture);
    write_all(&picture);
  }
  timeline_free(&picture.timeline);
  if (steps > PICTURE_STEPS_MAX) {
    return base_fail(COLL_ERROR_INVALID,
                     "a picture of %zu steps cannot be read (at most %d); use fewer ranks", steps,
                     PICTURE_STEPS_MAX);
  }
  if (fflush(out) == 0 && !ferror(out)) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write the picture");
}
