/*
 * The picture: the scene in grey once, which every frame uses, and in each frame the links that
 * carry data. A link is wide at the end that sends; each half has the colour of what leaves the
 * node at its end.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/names.h"
#include "base/svg.h"
#include "tools/collplan/frames.h"
#include "tools/draw/paint.h"

enum {
  MARGIN = 24,
  HEAD = 80,
  CAPTION = 14,
  SHEET_WIDTH = 1500,
  LEAST_WIDTH = 720,
  ROUNDS_MAX = 60,
  COLOURS = 5
};

/* From little load to much; visible on white and on black. */
static const char *const colours[COLOURS] = {"#f2c94c", "#f2994a", "#eb5757", "#c2255c", "#862e9c"};

typedef struct sheet {
  const frames_t *frames;
  const plan_t *plan;
  const char *const *labels;
  scene_t scene;
  bool animated;
  int32_t panels;  /* runs of rounds with equal loads; animated: rounds */
  int32_t *first;  /* [panels + 1]: round */
  int32_t columns; /* panels of a row */
  double width, height, panel_width, panel_height, left;
  bool *is_written; /* [wires] */
  FILE *out;
} sheet_t;

static bool same_load(const frames_t *frames, int32_t a, int32_t b) {
  for (int32_t wire = 0; wire < frames->wires; wire++) {
    double difference =
        frames->load[a * frames->wires + wire] - frames->load[b * frames->wires + wire];
    if (fabs(difference) > 1e-9) return false;
  }
  return true;
}

static void find_panels(sheet_t *sheet) {
  for (int32_t round = 0; round < sheet->frames->count; round++) {
    bool is_new = round == 0 || sheet->animated || !same_load(sheet->frames, round - 1, round);
    if (is_new) sheet->first[sheet->panels++] = round;
  }
  sheet->first[sheet->panels] = sheet->frames->count;
}

static void lay_out(sheet_t *sheet) {
  const scene_t *scene = &sheet->scene;
  sheet->panel_width = fmax(scene->width, 180);
  sheet->panel_height = scene->height + CAPTION;
  int32_t fit = (int32_t)(SHEET_WIDTH / sheet->panel_width);
  int32_t count = sheet->panels;
  sheet->columns = sheet->animated || fit < 1 ? 1 : fit < count ? fit : count;
  if (sheet->columns < 1) sheet->columns = 1;
  int32_t rows = sheet->animated || count < 1 ? 1 : (count + sheet->columns - 1) / sheet->columns;
  double inner = sheet->columns * sheet->panel_width;
  sheet->width = fmax(inner, LEAST_WIDTH);
  sheet->left = (sheet->width - inner) / 2;
  sheet->height = HEAD + rows * sheet->panel_height + 64;
}

/* ---- text -----------------------------------------------------------------------------------*/

static void write_totals(const sheet_t *sheet, int32_t round) {
  const char *comma = "";
  for (int c = 0; c < TOPO_CLASS_COUNT; c++) {
    double total = frames_total(sheet->frames, round, (topo_class_t)c);
    if (total == 0) continue;
    fprintf(sheet->out, "%s%s %.4g S", comma, topo_class_name((topo_class_t)c), total);
    comma = ", ";
  }
}

static void write_head(const sheet_t *sheet) {
  const plan_t *plan = sheet->plan;
  FILE *out = sheet->out;
  fprintf(out, "<text x=\"%d\" y=\"34\" font-size=\"18\" font-weight=\"700\">%s, ", MARGIN,
          base_collective_name(plan->shape.collective));
  base_svg_escape(plan->algorithm, out);
  fprintf(out, ", %d ranks</text>\n<text class=\"s\" x=\"%d\" y=\"54\">", (int)plan->shape.size,
          MARGIN);
  base_svg_escape(sheet->scene.graph->name, out);
  fprintf(out, "%s%d steps. In all: ", sheet->scene.graph->name[0] != '\0' ? ": " : "",
          (int)sheet->frames->count);
  write_totals(sheet, -1);
  fprintf(out,
          "</text>\n<text class=\"s\" x=\"%d\" y=\"70\">S: the largest buffer of a rank. A link is "
          "wide at the end that sends.%s</text>\n",
          MARGIN, plan->order == PLAN_ORDER_ANY ? " Ranks may hold different bits." : "");
}

/* What the colours mean: how long the link needs for a buffer of 1 GB. */
static void write_legend(const sheet_t *sheet) {
  double x = MARGIN, y = sheet->height - 46, step = sheet->frames->busiest / COLOURS;
  bool slow = sheet->frames->busiest >= 1;
  const char *unit = slow ? "s" : "ms";
  double scale = slow ? 1 : 1000;
  for (int i = 0; i < COLOURS; i++) {
    fprintf(sheet->out,
            "<path stroke=\"%s\" stroke-width=\"5\" d=\"M%.0f %.0fh22\"/>"
            "<text class=\"s\" x=\"%.0f\" y=\"%.0f\">up to %.3g</text>\n",
            colours[i], x + 3, y, x + 32, y + 4, scale * step * (i + 1));
    x += 104;
  }
  fprintf(
      sheet->out,
      "<text class=\"s\" x=\"%.0f\" y=\"%.0f\">%s per GB of S</text>\n"
      "<text class=\"s\" x=\"%d\" y=\"%.0f\">The busiest link of each step takes %.4g %s per GB "
      "of S in all.</text>\n",
      x, y + 4, unit, MARGIN, y + 26, scale * sheet->frames->total, unit);
}

/* ---- frames ---------------------------------------------------------------------------------*/

static const char *colour_of(const sheet_t *sheet, int32_t round, int32_t wire) {
  const frames_t *frames = sheet->frames;
  double load = frames->load[round * frames->wires + wire];
  if (load == 0) return NULL;
  double time = load * (double)topo_fabric_wire(frames->fabric, wire).kib_ps / 1024e3;
  int index = (int)ceil(time / frames->busiest * COLOURS - 1e-9) - 1;
  return colours[index < 0 ? 0 : index >= COLOURS ? COLOURS - 1 : index];
}

/* Paths of one colour and width: the halves of links at the ends that send, or (`thin`) the whole
 * of those that carry data in one direction only. */
static void write_paths(const sheet_t *sheet, int32_t round, bool thin) {
  const topo_graph_t *graph = sheet->scene.graph;
  int32_t wires = sheet->frames->wires;
  bool *is_written = sheet->is_written;
  memset(is_written, 0, (size_t)wires * sizeof *is_written);
  for (int32_t i = 0; i < wires; i++) {
    const char *colour = colour_of(sheet, round, i);
    double width = thin ? 0 : paint_link_width(&graph->links[i / 2]);
    bool is_open = false;
    for (int32_t j = i; colour != NULL && j < wires; j++) {
      bool other = thin && colour_of(sheet, round, j ^ 1) != NULL;
      if (is_written[j] || other || !sheet->scene.curves[j / 2].shown ||
          colour_of(sheet, round, j) != colour ||
          (!thin && paint_link_width(&graph->links[j / 2]) != width)) {
        continue;
      }
      if (!is_open) {
        fprintf(sheet->out, "<path stroke=\"%s\" stroke-width=\"%.1f\" d=\"", colour,
                thin ? 1.2 : fmax(width + 1, 2.8));
      }
      is_open = is_written[j] = true;
      paint_curve(&sheet->scene.curves[j / 2], thin ? 0 : j % 2 + 1, sheet->out);
    }
    if (is_open) fputs("\"/>\n", sheet->out);
  }
}

static void write_frame(const sheet_t *sheet, int32_t panel) {
  int32_t place = sheet->animated ? 0 : panel, round = sheet->first[panel];
  int32_t last = sheet->first[panel + 1] - 1;
  double x = sheet->left + place % sheet->columns * sheet->panel_width;
  double y = HEAD + place / sheet->columns * sheet->panel_height;
  x += (sheet->panel_width - sheet->scene.width) / 2;
  fprintf(sheet->out, "<g transform=\"translate(%.1f %.1f)\"", x, y);
  if (sheet->animated) {
    fprintf(sheet->out, " class=\"n%s\" style=\"animation-delay:%ds\"", round == 0 ? " one" : "",
            (int)round);
  }
  fprintf(sheet->out, ">\n<text class=\"s\" x=\"%d\" y=\"18\"><tspan font-weight=\"700\">step",
          MARGIN);
  if (last > round) {
    fprintf(sheet->out, "s %d to %d,</tspan> each ", (int)round + 1, (int)last + 1);
  } else {
    fprintf(sheet->out, " %d:</tspan> ", (int)round + 1);
  }
  write_totals(sheet, round);
  fprintf(sheet->out, "</text>\n<use href=\"#under\"/>\n");
  write_paths(sheet, round, true);
  write_paths(sheet, round, false);
  fputs("<use href=\"#over\"/>\n</g>\n", sheet->out);
}

static void write_scene(const sheet_t *sheet) {
  FILE *out = sheet->out;
  fputs("<defs>\n<g id=\"under\">\n", out);
  paint_hosts(&sheet->scene, out);
  fputs("<g class=\"q\">\n", out);
  paint_links(&sheet->scene, out);
  fputs("</g>\n</g>\n<g id=\"over\">\n", out);
  paint_boxes(&sheet->scene, sheet->labels, false, out);
  fputs("</g>\n</defs>\n", out);
}

static void write_sheet(const sheet_t *sheet) {
  FILE *out = sheet->out;
  int32_t count = sheet->frames->count;
  paint_begin(sheet->width, sheet->height, out);
  fputs(
      "<style>.q path{stroke:#cdd5de;stroke-width:1}\n"
      "@media (prefers-color-scheme:dark){.q path{stroke:#3a4552}}\n",
      out);
  if (sheet->animated) {
    fprintf(out,
            "@keyframes k{0%%{visibility:visible}%.3f%%{visibility:hidden}}\n"
            ".n{visibility:hidden;animation:k %ds step-end infinite}.one{visibility:visible}\n",
            100.0 / count, (int)count);
  }
  fputs("</style>\n", out);
  write_head(sheet);
  write_scene(sheet);
  for (int32_t panel = 0; panel < sheet->panels; panel++) write_frame(sheet, panel);
  write_legend(sheet);
  paint_end(out);
}

coll_status_t frames_write(const frames_t *frames, const plan_t *plan, const char *const labels[],
                           bool animated, FILE *out) {
  sheet_t sheet = {.frames = frames, .plan = plan, .labels = labels, .animated = animated};
  if (frames->count > ROUNDS_MAX) {
    return base_fail(COLL_ERROR_INVALID,
                     "a picture of %d steps cannot be read (at most %d); use fewer ranks",
                     (int)frames->count, ROUNDS_MAX);
  }
  sheet.out = out;
  COLL_TRY(scene_create(topo_fabric_graph(frames->fabric), SCENE_COLUMN_MIN, &sheet.scene));
  coll_status_t status = base_alloc((size_t)frames->count + 1, sizeof *sheet.first, "a picture",
                                    (void **)&sheet.first);
  if (status == COLL_OK) {
    status = base_alloc((size_t)frames->wires + 1, sizeof *sheet.is_written, "a picture",
                        (void **)&sheet.is_written);
  }
  if (status == COLL_OK) {
    find_panels(&sheet);
    lay_out(&sheet);
    write_sheet(&sheet);
  }
  free(sheet.first);
  free(sheet.is_written);
  scene_free(&sheet.scene);
  return status;
}
