/* The legend of a scene: kinds of boxes, then rates of links, in lines that wrap. */
#include <math.h>
#include <string.h>

#include "base/svg.h"
#include "tools/draw/paint.h"

enum { LINE = 22, TEXT_BYTES = 96 };

typedef struct pen {
  double x, y, left, right;
  FILE *out; /* NULL: only measures */
} pen_t;

static void advance(pen_t *pen, double width) {
  if (pen->x > pen->left && pen->x + width > pen->right) {
    pen->x = pen->left;
    pen->y += LINE;
  }
}

static void entry(pen_t *pen, double sample, const char *text) {
  if (pen->out != NULL) {
    fprintf(pen->out, "<text class=\"s\" x=\"%.1f\" y=\"%.1f\">", pen->x + sample + 6, pen->y + 12);
    base_svg_escape(text, pen->out);
    fputs("</text>\n", pen->out);
  }
}

static double width_of(const char *text, double sample) {
  return sample + 6 + (double)strlen(text) * 6.2 + 16;
}

/* "GPU: A100 SXM", with the models of that kind. */
static void name_kind(const topo_graph_t *graph, topo_kind_t kind, char text[TEXT_BYTES]) {
  static const char *const names[TOPO_KIND_COUNT] = {[TOPO_PACKAGE] = "processor",
                                                     [TOPO_NUMA] = "NUMA node",
                                                     [TOPO_GPU] = "GPU",
                                                     [TOPO_NIC] = "NIC",
                                                     [TOPO_PCI_SWITCH] = "PCI switch",
                                                     [TOPO_NVSWITCH] = "NVSwitch",
                                                     [TOPO_SWITCH] = "network switch"};
  const char *model = "";
  for (size_t i = 0; i < graph->node_count; i++) {
    if (graph->nodes[i].kind == kind && *model == '\0') model = graph->nodes[i].model;
  }
  snprintf(text, TEXT_BYTES, "%s%s%s", names[kind], *model != '\0' ? ": " : "", model);
}

static void write_kinds(pen_t *pen, const scene_t *scene) {
  static const topo_kind_t kinds[] = {TOPO_GPU,     TOPO_NVSWITCH, TOPO_PCI_SWITCH, TOPO_NIC,
                                      TOPO_PACKAGE, TOPO_NUMA,     TOPO_SWITCH};
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    char text[TEXT_BYTES];
    if (topo_graph_count(scene->graph, kinds[i]) == 0) continue;
    name_kind(scene->graph, kinds[i], text);
    advance(pen, width_of(text, 16));
    if (pen->out != NULL) {
      fprintf(pen->out,
              "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"16\" height=\"12\" rx=\"3\"/>",
              topo_kind_name(kinds[i]), pen->x, pen->y + 2);
    }
    entry(pen, 16, text);
    pen->x += width_of(text, 16);
  }
}

static bool same_rate(const topo_link_t *a, const topo_link_t *b) {
  return a->link_class == b->link_class && a->count == b->count &&
         a->gigabytes_per_s == b->gigabytes_per_s;
}

static void write_rates(pen_t *pen, const scene_t *scene) {
  const topo_graph_t *graph = scene->graph;
  for (size_t i = 0; i < graph->link_count; i++) {
    const topo_link_t *link = &graph->links[i];
    bool is_first = scene->curves[i].shown;
    for (size_t j = 0; j < i && is_first; j++) {
      is_first = !scene->curves[j].shown || !same_rate(link, &graph->links[j]);
    }
    if (!is_first) continue;
    char text[TEXT_BYTES], count[16] = "";
    if (link->count > 1) snprintf(count, sizeof count, "%d x ", (int)link->count);
    snprintf(text, sizeof text, "%s %s%.4g GB/s, %.3g us", topo_class_name(link->link_class), count,
             link->gigabytes_per_s, link->latency_us);
    advance(pen, width_of(text, 22));
    if (pen->out != NULL) {
      fprintf(pen->out, "<path class=\"%s\" stroke-width=\"%.1f\" d=\"M%.1f %.1fh20\"/>",
              topo_class_name(link->link_class), paint_link_width(link), pen->x + 1, pen->y + 8);
    }
    entry(pen, 22, text);
    pen->x += width_of(text, 22);
  }
}

double paint_legend(const scene_t *scene, double x, double y, double width, FILE *out) {
  pen_t pen = {.x = x, .y = y, .left = x, .right = x + width, .out = out};
  write_kinds(&pen, scene);
  pen.x = pen.left;
  pen.y += LINE;
  write_rates(&pen, scene);
  return pen.y + LINE - y;
}
