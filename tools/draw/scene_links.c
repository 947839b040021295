/* The curves of links: vertical where they leave boxes that are above each other, bows between
 * boxes of one row, and around the outside where a torus wraps. */
#include <math.h>
#include <stdlib.h>

#include "tools/draw/scene.h"

static double middle_x(const scene_box_t *box) {
  return box->x + box->width / 2;
}

static double middle_y(const scene_box_t *box) {
  return box->y + box->height / 2;
}

/* Where a link leaves a box for another: a bar below or above the other's middle; else the middle,
 * or at network switches beside it, so that the links of a switch are a narrow fan. */
static double port(const scene_t *scene, int32_t node, int32_t other) {
  const scene_box_t *box = &scene->boxes[node];
  double x = middle_x(&scene->boxes[other]);
  bool is_bar = box->width >= 2.5 * scene->column;
  if (is_bar && x > box->x + 4 && x < box->x + box->width - 4) return x;
  if (scene->graph->nodes[node].kind != TOPO_SWITCH) return middle_x(box);
  return middle_x(box) + (x - middle_x(box)) / scene->width * (box->width - 6);
}

static void set(scene_curve_t *curve, int i, double x, double y) {
  curve->x[i] = x;
  curve->y[i] = y;
}

static void straight(scene_curve_t *curve, double ax, double ay, double bx, double by) {
  curve->shown = true;
  for (int i = 0; i < 4; i++) set(curve, i, ax + (bx - ax) * i / 3, ay + (by - ay) * i / 3);
}

/* From one box to another below or above it. */
static void vertical(const scene_t *scene, scene_curve_t *curve, const topo_link_t *link) {
  const scene_box_t *a = &scene->boxes[link->a], *b = &scene->boxes[link->b];
  bool down = b->y >= a->y + a->height;
  double ax = port(scene, link->a, link->b), bx = port(scene, link->b, link->a);
  double ay = a->y + (down ? a->height : 0), by = b->y + (down ? 0 : b->height);
  straight(curve, ax, ay, bx, by);
  set(curve, 1, ax, ay + (by - ay) * 0.35);
  set(curve, 2, bx, by - (by - ay) * 0.35);
}

/* Between boxes of one row; bows to the network's side if `inwards`, by `depth` if they are `reach`
 * apart or farther. */
static void bow(scene_curve_t *curve, const scene_box_t *a, const scene_box_t *b, bool inwards,
                double depth, double reach) {
  bool down = inwards != a->flipped;
  double y = down ? a->y + a->height : a->y, ax = middle_x(a), bx = middle_x(b);
  double bend = (8 + (depth - 8) * fmin(1, fabs(bx - ax) / reach)) * (down ? 1 : -1);
  curve->shown = true;
  set(curve, 0, ax, y);
  set(curve, 1, ax + (bx - ax) * 0.1, y + bend);
  set(curve, 2, bx - (bx - ax) * 0.1, y + bend);
  set(curve, 3, bx, y);
}

static bool contains(const scene_t *scene, int32_t outer, int32_t inner) {
  for (; inner != TOPO_NONE; inner = scene->graph->nodes[inner].parent) {
    if (inner == outer) return true;
  }
  return false;
}

/* From a node to the border of its host. */
static void to_border(scene_curve_t *curve, const scene_box_t *inner, const scene_box_t *host,
                      bool is_from_host) {
  double x = middle_x(inner), y = inner->y + inner->height, border = host->y + host->height;
  straight(curve, x, is_from_host ? border : y, x, is_from_host ? y : border);
}

/* ---- grids ----------------------------------------------------------------------------------*/

/* Boxes beside each other, or above each other: a straight line. */
static bool are_adjacent(const scene_box_t *a, const scene_box_t *b) {
  double across = fabs(a->x - b->x), down = fabs(a->y - b->y);
  return (down < 1 && across < a->width * 1.1 + 50) || (across < 1 && down < a->height * 1.1 + 50);
}

static void between_hosts(scene_curve_t *curve, const scene_box_t *a, const scene_box_t *b,
                          bool is_second) {
  double dx = b->x - a->x, dy = b->y - a->y;
  curve->shown = true;
  if (are_adjacent(a, b) && !is_second) {
    if (fabs(dy) < 1) {
      straight(curve, dx > 0 ? a->x + a->width : a->x, middle_y(a), dx > 0 ? b->x : b->x + b->width,
               middle_y(b));
    } else {
      straight(curve, middle_x(a), dy > 0 ? a->y + a->height : a->y, middle_x(b),
               dy > 0 ? b->y : b->y + b->height);
    }
  } else if (fabs(dy) < 1) { /* around, above the row */
    double lift = 10 + fmin(22, fabs(dx) * 0.03);
    straight(curve, middle_x(a), a->y, middle_x(b), b->y);
    set(curve, 1, middle_x(a), a->y - lift);
    set(curve, 2, middle_x(b), b->y - lift);
  } else { /* around, left of the column */
    straight(curve, a->x, middle_y(a), b->x, middle_y(b));
    set(curve, 1, a->x - 28, middle_y(a));
    set(curve, 2, b->x - 28, middle_y(b));
  }
}

/* Whether an earlier link joins the same two nodes. */
static bool is_repeated(const topo_graph_t *graph, size_t link) {
  int32_t a = graph->links[link].a, b = graph->links[link].b;
  for (size_t i = 0; i < link; i++) {
    const topo_link_t *each = &graph->links[i];
    if ((each->a == a && each->b == b) || (each->a == b && each->b == a)) return true;
  }
  return false;
}

/* ---- all ------------------------------------------------------------------------------------*/

static void place_bow(const scene_t *scene, scene_curve_t *curve, const scene_box_t *a,
                      const scene_box_t *b, topo_kind_t kind) {
  if (kind == TOPO_GPU) {
    bow(curve, a, b, false, 24 + 0.8 * scene->column, 9 * scene->column);
  } else if (kind == TOPO_SWITCH) {
    bow(curve, a, b, true, 72, scene->width * 0.7);
  } else {
    bow(curve, a, b, true, 14, scene->column);
  }
}

static void place_link(scene_t *scene, size_t i) {
  const topo_link_t *link = &scene->graph->links[i];
  scene_curve_t *curve = &scene->curves[i];
  const scene_box_t *a = &scene->boxes[link->a], *b = &scene->boxes[link->b];
  topo_kind_t kind = scene->graph->nodes[link->a].kind;
  if (!a->shown || !b->shown) return;
  if (contains(scene, link->a, link->b) && kind == TOPO_HOST) {
    to_border(curve, b, a, true);
  } else if (contains(scene, link->b, link->a) && scene->graph->nodes[link->b].kind == TOPO_HOST) {
    to_border(curve, a, b, false);
  } else if (kind == TOPO_HOST && scene->graph->nodes[link->b].kind == TOPO_HOST) {
    between_hosts(curve, a, b, is_repeated(scene->graph, i));
  } else if (a->y + a->height <= b->y || b->y + b->height <= a->y) {
    vertical(scene, curve, link);
  } else {
    place_bow(scene, curve, a, b, kind);
  }
}

void scene_place_links(scene_t *scene) {
  for (size_t i = 0; i < scene->graph->link_count; i++) place_link(scene, i);
}
