/*
 * The figure: a panel for each class of link (columns) and for all links or the busiest one (rows).
 * A panel has a group of bars for each pattern and a bar for each map. Bars of one panel have the
 * same scale.
 */
#include "base/svg.h"
#include "tools/colltopo/traffic.h"
#include "tools/draw/paint.h"

enum {
  WIDTH = 700,
  MARGIN = 20,
  HEAD = 88,
  LABELS = 88, /* width of the patterns' names */
  VALUE = 62,  /* width of the number behind a bar */
  BAR = 13,
  GAP = 10, /* between two patterns */
  PANEL_HEAD = 22,
  PANEL_FOOT = 16
};

static const char *const colours[TOPO_MAP_COUNT] = {
    [TOPO_MAP_BY_HOST] = "#5b7fb5", [TOPO_MAP_BY_RAIL] = "#d9822b", [TOPO_MAP_GRID] = "#2a9d8f"};

typedef enum measure { MEASURE_TOTAL, MEASURE_MOST, MEASURE_COUNT } measure_t;

static int64_t value_of(const traffic_t *traffic, int pattern, int map, int link_class,
                        measure_t measure) {
  const traffic_bytes_t *bytes = &traffic->patterns[pattern].bytes[map][link_class];
  return measure == MEASURE_TOTAL ? bytes->total : bytes->most;
}

static int classes_used(const traffic_t *traffic) {
  int count = 0;
  for (int c = 0; c < TOPO_CLASS_COUNT; c++) count += traffic->is_used[c];
  return count;
}

static double group_height(void) {
  return TOPO_MAP_COUNT * BAR + GAP;
}

static double row_height(const traffic_t *traffic) {
  return PANEL_HEAD + traffic->count * group_height() + PANEL_FOOT;
}

/* "15.8 GiB"; at least three digits. */
static void write_bytes(int64_t bytes, FILE *out) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  int unit = 0, last = sizeof units / sizeof units[0] - 1;
  double value = (double)bytes;
  while (value >= 1023.5 && unit < last) {
    value /= 1024;
    unit++;
  }
  if (bytes == 0) {
    fputs("0", out);
  } else {
    fprintf(out, value >= 100 ? "%.0f %s" : "%.3g %s", value, units[unit]);
  }
}

/* ---- head -----------------------------------------------------------------------------------*/

static void write_head(const traffic_t *traffic, FILE *out) {
  fprintf(out,
          "<text x=\"%d\" y=\"30\" font-size=\"17\" font-weight=\"700\">Bytes of one call over "
          "each class of link, by map of ranks to hosts</text>\n<text class=\"s\" x=\"%d\" "
          "y=\"49\">",
          MARGIN, MARGIN);
  base_svg_escape(traffic->name, out);
  fprintf(out, "%s%d ranks on %d hosts. A rank's largest buffer (neighbours: each message) has ",
          traffic->name[0] != '\0' ? ": " : "", (int)traffic->ranks, (int)traffic->hosts);
  write_bytes(traffic->size, out);
  fputs(".</text>\n", out);
  double x = MARGIN;
  for (int map = 0; map < TOPO_MAP_COUNT; map++) {
    fprintf(out,
            "<rect x=\"%.0f\" y=\"60\" width=\"16\" height=\"11\" fill=\"%s\"/>"
            "<text class=\"s\" x=\"%.0f\" y=\"70\">%s</text>\n",
            x, colours[map], x + 22, topo_map_words[map]);
    x += 84;
  }
}

/* The names of the patterns, left of the panels of a row. */
static void write_labels(const traffic_t *traffic, measure_t measure, double y, FILE *out) {
  fprintf(out, "<text x=\"%d\" y=\"%.0f\" font-size=\"11\" font-weight=\"600\">%s</text>\n", MARGIN,
          y + 12, measure == MEASURE_TOTAL ? "All links" : "Busiest link");
  for (int i = 0; i < traffic->count; i++) {
    const traffic_pattern_t *pattern = &traffic->patterns[i];
    double top = y + PANEL_HEAD + i * group_height();
    bool has_algorithm = *pattern->algorithm != '\0';
    fprintf(out, "<text class=\"s\" x=\"%d\" y=\"%.0f\">%s</text>\n", MARGIN,
            top + (has_algorithm ? 16 : 23), pattern->collective);
    if (!has_algorithm) continue;
    fprintf(out, "<text class=\"s\" x=\"%d\" y=\"%.0f\">%s</text>\n", MARGIN, top + 31,
            pattern->algorithm);
  }
}

/* ---- panels ---------------------------------------------------------------------------------*/

static int64_t most_in(const traffic_t *traffic, int link_class, measure_t measure) {
  int64_t most = 1;
  for (int i = 0; i < traffic->count; i++) {
    for (int map = 0; map < TOPO_MAP_COUNT; map++) {
      int64_t value = value_of(traffic, i, map, link_class, measure);
      if (value > most) most = value;
    }
  }
  return most;
}

static void write_panel(const traffic_t *traffic, int link_class, measure_t measure, double x,
                        double y, double width, FILE *out) {
  double scale = (width - VALUE) / (double)most_in(traffic, link_class, measure);
  fprintf(out,
          "<path class=\"%s\" stroke-width=\"4\" d=\"M%.1f %.1fh12\"/>"
          "<text class=\"s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
          topo_class_name((topo_class_t)link_class), x + 2, y + 8, x + 20, y + 12,
          topo_class_name((topo_class_t)link_class));
  for (int i = 0; i < traffic->count; i++) {
    for (int map = 0; map < TOPO_MAP_COUNT; map++) {
      int64_t value = value_of(traffic, i, map, link_class, measure);
      double top = y + PANEL_HEAD + i * group_height() + map * BAR;
      double length = (double)value * scale;
      fprintf(out,
              "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>"
              "<text class=\"s\" x=\"%.1f\" y=\"%.1f\">",
              x, top, length, BAR - 2, colours[map], x + length + 5, top + 9.5);
      write_bytes(value, out);
      fputs("</text>\n", out);
    }
  }
}

void traffic_draw(const traffic_t *traffic, FILE *out) {
  int columns = classes_used(traffic);
  double width = (WIDTH - 2 * MARGIN - LABELS) / (double)(columns > 0 ? columns : 1);
  paint_begin(WIDTH, HEAD + MEASURE_COUNT * row_height(traffic), out);
  write_head(traffic, out);
  for (int measure = 0; measure < MEASURE_COUNT; measure++) {
    double x = MARGIN + LABELS, y = HEAD + measure * row_height(traffic);
    write_labels(traffic, (measure_t)measure, y, out);
    for (int c = 0; c < TOPO_CLASS_COUNT; c++) {
      if (!traffic->is_used[c]) continue;
      write_panel(traffic, c, (measure_t)measure, x, y, width, out);
      x += width;
    }
  }
  paint_end(out);
}
