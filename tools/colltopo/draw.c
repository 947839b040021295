/* colltopo draw: a graph as an SVG picture. */
#include <math.h>
#include <stdio.h>

#include "base/svg.h"
#include "tools/colltopo/colltopo.h"
#include "tools/draw/fold.h"
#include "tools/draw/paint.h"

enum { MARGIN = 24, HEAD = 56, FOLDED_HEAD = 72, LEAST_WIDTH = 560 };

static void write_head(const topo_graph_t *graph, const char *file, bool is_folded, FILE *out) {
  fprintf(out, "<text x=\"%d\" y=\"34\" font-size=\"18\" font-weight=\"700\">", MARGIN);
  base_svg_escape(graph->name[0] != '\0' ? graph->name : file, out);
  fprintf(out, "</text>\n<text class=\"s\" x=\"%d\" y=\"54\">", MARGIN);
  static const struct {
    topo_kind_t kind;
    const char *one, *many;
  } counted[] = {{TOPO_HOST, "host", "hosts"},
                 {TOPO_GPU, "GPU", "GPUs"},
                 {TOPO_NIC, "NIC", "NICs"},
                 {TOPO_CORE, "core", "cores"},
                 {TOPO_SWITCH, "network switch", "network switches"}};
  const char *comma = "";
  for (size_t i = 0; i < sizeof counted / sizeof counted[0]; i++) {
    size_t count = topo_graph_count(graph, counted[i].kind);
    if (count == 0) continue;
    fprintf(out, "%s%zu %s", comma, count, count == 1 ? counted[i].one : counted[i].many);
    comma = ", ";
  }
  for (int32_t d = 0; d < graph->grid.dims; d++) {
    fprintf(out, "%s%d", d == 0 ? (graph->grid.wraps ? "; torus of " : "; mesh of ") : " x ",
            (int)graph->grid.extents[d]);
  }
  fputs("</text>\n", out);
  if (!is_folded) return;
  fprintf(out,
          "<text class=\"s\" x=\"%d\" y=\"70\">drawn: the first host, all switches of a tier as "
          "one, their links added up</text>\n",
          MARGIN);
}

static void write_scene(const topo_graph_t *graph, const scene_t *scene, const char *file) {
  double width = fmax(scene->width, LEAST_WIDTH), inner = width - 2 * MARGIN;
  int head = graph != scene->graph ? FOLDED_HEAD : HEAD;
  double legend = paint_legend(scene, MARGIN, 0, inner, NULL);
  paint_begin(width, head + scene->height + legend + MARGIN, stdout);
  write_head(graph, file, graph != scene->graph, stdout);
  printf("<g transform=\"translate(%.1f %d)\">\n", (width - scene->width) / 2, head);
  paint_hosts(scene, stdout);
  paint_links(scene, stdout);
  paint_boxes(scene, NULL, true, stdout);
  printf("</g>\n");
  paint_legend(scene, MARGIN, head + scene->height, inner, stdout);
  paint_end(stdout);
}

static coll_status_t draw(const topo_graph_t *graph, const char *file) {
  topo_graph_t *folded = NULL;
  scene_t scene;
  if (topo_graph_count(graph, TOPO_HOST) > SCENE_HOSTS_MAX) COLL_TRY(fold_graph(graph, &folded));
  coll_status_t status = scene_create(folded != NULL ? folded : graph, 0, &scene);
  if (status == COLL_OK) {
    write_scene(graph, &scene, file);
    scene_free(&scene);
  }
  topo_graph_free(folded);
  return status;
}

int colltopo_draw(int argc, char **argv) {
  const char *file;
  const base_command_t command = {
      .name = "colltopo draw",
      .usage = "FILE",
      .summary =
          "Prints an SVG picture: hosts as boxes, links as wide as they are fast. Of more than 16 "
          "hosts,\nthe first is drawn, and each tier of switches as one.",
      .examples =
          "  colltopo make dgx-h100 --hosts 4 --fabric rail | colltopo draw - > dgx4.svg\n"
          "      four machines and their rails\n"};
  topo_graph_t *graph;
  int code;
  if (!colltopo_open(&command, argc, argv, &file, 1, &graph, &code)) return code;
  return colltopo_close(graph, draw(graph, file));
}
