/* Style, boxes and links. */
#include "tools/draw/paint.h"

#include <math.h>
#include <string.h>

#include "base/svg.h"

#define LETTER 0.6 /* width of a letter relative to the font size */

/* The last four: fill and stroke on light and on dark pages. */
static const struct {
  topo_kind_t kind;
  const char *fill, *stroke, *dark_fill, *dark_stroke;
} box_looks[] = {
    {TOPO_HOST, "#f3f5f8", "#bcc6d1", "#1a212b", "#3f4b5a"},
    {TOPO_PACKAGE, "#e1e5ea", "#7b8794", "#2b333e", "#8a97a6"},
    {TOPO_NUMA, "#e1e5ea", "#7b8794", "#2b333e", "#8a97a6"},
    {TOPO_GPU, "#d6f0dd", "#349a5b", "#17382a", "#4dbd7a"},
    {TOPO_PCI_SWITCH, "#e9e2f8", "#8a6fd1", "#2a2145", "#a48be6"},
    {TOPO_NIC, "#dae7fb", "#3b7dd8", "#16294a", "#5b97ea"},
    {TOPO_NVSWITCH, "#2f8f57", "#2f8f57", "#2f8f57", "#2f8f57"},
    {TOPO_SWITCH, "#3d6596", "#3d6596", "#3f6596", "#3f6596"},
};

static const struct {
  topo_class_t link_class;
  const char *colour;
} link_looks[] = {
    {TOPO_CLASS_CACHE, "#b07f4f"},    {TOPO_CLASS_MEMORY, "#8894a2"},
    {TOPO_CLASS_NVLINK, "#35a565"},   {TOPO_CLASS_PCIE, "#9479d6"},
    {TOPO_CLASS_TORUS, "#e08a2c"},    {TOPO_CLASS_INFINIBAND, "#3f87e0"},
    {TOPO_CLASS_ETHERNET, "#1a9aa6"},
};

enum {
  BOX_LOOKS = sizeof box_looks / sizeof box_looks[0],
  LINK_LOOKS = sizeof link_looks / sizeof link_looks[0]
};

static bool is_inverse(topo_kind_t kind) {
  return kind == TOPO_NVSWITCH || kind == TOPO_SWITCH;
}

/* ---- style ----------------------------------------------------------------------------------*/

void paint_begin(double width, double height, FILE *out) {
  fprintf(out,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
          "viewBox=\"0 0 %.0f %.0f\">\n<style>\n"
          "text{font-family:Inter,'Helvetica Neue',Helvetica,Arial,'DejaVu Sans',sans-serif;"
          "fill:#1f2933}\n"
          ".bg{fill:#fff}.s{font-size:11px;fill:#56616e}.m{text-anchor:middle}.v{fill:#fff}\n"
          ".t{font-size:10.5px;font-weight:600;paint-order:stroke;stroke:#f3f5f8;stroke-width:4}\n"
          ".f{fill:#fff;stroke:#d5dce4}path{fill:none;stroke-linecap:round}\n",
          width, height, width, height);
  for (int i = 0; i < BOX_LOOKS; i++) {
    fprintf(out, ".%s{fill:%s;stroke:%s}\n", topo_kind_name(box_looks[i].kind), box_looks[i].fill,
            box_looks[i].stroke);
  }
  for (int i = 0; i < LINK_LOOKS; i++) {
    fprintf(out, ".%s{stroke:%s}\n", topo_class_name(link_looks[i].link_class),
            link_looks[i].colour);
  }
  fputs(
      "@media (prefers-color-scheme:dark){\n"
      "text{fill:#e6ebf1}.bg{fill:#11161d}.s{fill:#9aa7b5}.v{fill:#fff}"
      ".f{fill:#141a22;stroke:#2c3643}.t{stroke:#1a212b}\n",
      out);
  for (int i = 0; i < BOX_LOOKS; i++) {
    fprintf(out, ".%s{fill:%s;stroke:%s}\n", topo_kind_name(box_looks[i].kind),
            box_looks[i].dark_fill, box_looks[i].dark_stroke);
  }
  fputs("}\n</style>\n<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n", out);
}

void paint_end(FILE *out) {
  fputs("</svg>\n", out);
}

/* ---- boxes ----------------------------------------------------------------------------------*/

static void rectangle(const scene_box_t *box, const char *class, double radius, FILE *out) {
  fprintf(out,
          "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%.0f\"",
          class, box->x, box->y, box->width, box->height, radius);
}

static const char *last_part(const char *name) {
  const char *slash = strrchr(name, '/');
  return slash != NULL ? slash + 1 : name;
}

static bool fits(const char *text, double size, double width) {
  return (double)strlen(text) * size * LETTER + 3 <= width;
}

/* "1/2" of "group1/router2". */
static void numbers_of(const char *name, char text[TOPO_NAME_BYTES]) {
  size_t length = 0;
  for (; *name != '\0'; name++) {
    if ((*name >= '0' && *name <= '9') || *name == '/') text[length++] = *name;
  }
  text[length] = '\0';
}

/* The longest that fits of the name (of network switches), its numbers, its last part, and the
 * number at its end; may be "". */
static void choose_label(const topo_node_t *node, double size, double width,
                         char text[TOPO_NAME_BYTES]) {
  const char *name = node->name, *number = name + strlen(name);
  while (number > name && number[-1] >= '0' && number[-1] <= '9') number--;
  bool is_outside = node->parent == TOPO_NONE;
  numbers_of(name, text);
  if (is_outside && strchr(name, '/') != NULL && node->kind == TOPO_SWITCH) {
    if (fits(name, size, width)) snprintf(text, TOPO_NAME_BYTES, "%s", name);
    if (fits(text, size, width)) return;
  }
  const char *best = fits(last_part(name), size, width) ? last_part(name) : number;
  snprintf(text, TOPO_NAME_BYTES, "%s", fits(best, size, width) ? best : "");
}

static void label(const scene_box_t *box, topo_kind_t kind, const char *text, double size,
                  FILE *out) {
  if (*text == '\0') return;
  fprintf(out, "<text class=\"m%s\" x=\"%.1f\" y=\"%.1f\" font-size=\"%.1f\">",
          is_inverse(kind) ? " v" : "", box->x + box->width / 2,
          box->y + box->height / 2 + size * 0.36, size);
  base_svg_escape(text, out);
  fputs("</text>\n", out);
}

void paint_hosts(const scene_t *scene, FILE *out) {
  const topo_graph_t *graph = scene->graph;
  for (size_t i = 0; i < graph->node_count; i++) {
    const topo_node_t *node = &graph->nodes[i];
    const scene_box_t *box = &scene->boxes[i];
    if (node->kind != TOPO_HOST || !box->shown) continue;
    rectangle(box, "host", 6, out);
    fputs("/>\n", out);
  }
  for (size_t i = 0; i < graph->node_count; i++) {
    if (!scene->frames[i].shown) continue;
    rectangle(&scene->frames[i], "f", 4, out);
    fputs("/>\n", out);
  }
}

static void write_titles(const scene_t *scene, FILE *out) {
  const topo_graph_t *graph = scene->graph;
  for (size_t i = 0; i < graph->node_count; i++) {
    const topo_node_t *node = &graph->nodes[i];
    const scene_box_t *box = &scene->boxes[i];
    if (node->kind != TOPO_HOST || !box->shown) continue;
    char title[2 * TOPO_NAME_BYTES + 8];
    snprintf(title, sizeof title, "%s%s%s", node->name, node->model[0] != '\0' ? ", " : "",
             node->model);
    double y = box->flipped ? box->y + box->height - 7 : box->y + 15;
    fprintf(out, "<text class=\"t\" x=\"%.1f\" y=\"%.1f\">", box->x + 9, y);
    base_svg_escape(fits(title, 10.5, box->width - 12) ? title : last_part(node->name), out);
    fputs("</text>\n", out);
  }
}

static int32_t cores_in(const topo_graph_t *graph, int32_t node) {
  int32_t count = 0;
  for (size_t i = 0; i < graph->node_count; i++) {
    if (graph->nodes[i].kind != TOPO_CORE) continue;
    for (int32_t up = (int32_t)i; up != TOPO_NONE; up = graph->nodes[up].parent) {
      if (up == node) count++;
    }
  }
  return count;
}

static void tooltip(const topo_graph_t *graph, int32_t node, FILE *out) {
  const topo_node_t *each = &graph->nodes[node];
  int32_t cores = each->kind == TOPO_PACKAGE ? cores_in(graph, node) : 0;
  fputs("<title>", out);
  base_svg_escape(each->name, out);
  fprintf(out, ": %s", topo_kind_name(each->kind));
  if (each->model[0] != '\0') fputs(", ", out);
  base_svg_escape(each->model, out);
  if (cores > 0) fprintf(out, ", %d cores", (int)cores);
  fputs("</title>", out);
}

void paint_boxes(const scene_t *scene, const char *const labels[], bool with_tooltips, FILE *out) {
  const topo_graph_t *graph = scene->graph;
  write_titles(scene, out);
  for (size_t i = 0; i < graph->node_count; i++) {
    const topo_node_t *node = &graph->nodes[i];
    const scene_box_t *box = &scene->boxes[i];
    if (node->kind == TOPO_HOST || !box->shown) continue;
    double size = fmin(10.5, fmin(box->height * 0.62, fmax(7, box->width * 0.5)));
    rectangle(box, topo_kind_name(node->kind), 3, out);
    if (with_tooltips) {
      fputs(">", out);
      tooltip(graph, (int32_t)i, out);
      fputs("</rect>\n", out);
    } else {
      fputs("/>\n", out);
    }
    char text[TOPO_NAME_BYTES];
    choose_label(node, size, box->width, text);
    bool is_given = labels != NULL && labels[i] != NULL;
    label(box, node->kind, is_given ? labels[i] : text, size, out);
  }
}

/* ---- links ----------------------------------------------------------------------------------*/

double paint_link_width(const topo_link_t *link) {
  double gbs = link->gigabytes_per_s * link->count;
  return fmin(fmax(0.22 * sqrt(gbs), 0.8), 9);
}

/* De Casteljau's division at the middle. */
void paint_curve(const scene_curve_t *curve, int part, FILE *out) {
  double x[4], y[4];
  memcpy(x, curve->x, sizeof x);
  memcpy(y, curve->y, sizeof y);
  for (int round = 1; part != 0 && round < 4; round++) {
    for (int i = 3; i >= round; i--) {
      x[i] = (x[i] + x[i - 1]) / 2;
      y[i] = (y[i] + y[i - 1]) / 2;
    }
  }
  if (part == 2) { /* the same from the other end */
    scene_curve_t back = *curve;
    for (int i = 0; i < 4; i++) {
      back.x[i] = curve->x[3 - i];
      back.y[i] = curve->y[3 - i];
    }
    paint_curve(&back, 1, out);
    return;
  }
  double bend = fabs(x[1] - x[0] - (x[3] - x[0]) / 3) + fabs(y[1] - y[0] - (y[3] - y[0]) / 3);
  double back = fabs(x[2] - x[3] - (x[0] - x[3]) / 3) + fabs(y[2] - y[3] - (y[0] - y[3]) / 3);
  if (bend + back < 0.1 ||
      (fabs(x[3] - x[0]) < 0.1 && fabs(x[1] - x[0]) < 0.1 && fabs(x[2] - x[0]) < 0.1)) {
    fprintf(out, "M%.1f %.1fL%.1f %.1f", x[0], y[0], x[3], y[3]);
  } else {
    fprintf(out, "M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f", x[0], y[0], x[1], y[1], x[2], y[2],
            x[3], y[3]);
  }
}

/* One path for all links of a class and width. */
void paint_links(const scene_t *scene, FILE *out) {
  const topo_graph_t *graph = scene->graph;
  for (size_t i = 0; i < graph->link_count; i++) {
    const topo_link_t *link = &graph->links[i];
    double width = paint_link_width(link);
    bool is_first = scene->curves[i].shown;
    for (size_t j = 0; j < i && is_first; j++) {
      is_first = !scene->curves[j].shown || graph->links[j].link_class != link->link_class ||
                 paint_link_width(&graph->links[j]) != width;
    }
    if (!is_first) continue;
    fprintf(out, "<path class=\"%s\" stroke-width=\"%.1f\" d=\"", topo_class_name(link->link_class),
            width);
    for (size_t j = i; j < graph->link_count; j++) {
      if (!scene->curves[j].shown || graph->links[j].link_class != link->link_class ||
          paint_link_width(&graph->links[j]) != width) {
        continue;
      }
      paint_curve(&scene->curves[j], 0, out);
    }
    fputs("\"/>\n", out);
  }
}
