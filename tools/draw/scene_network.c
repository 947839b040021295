/*
 * Places hosts and network switches. Hosts that fit are in one row, with the tiers of switches
 * below; otherwise in two rows, the second one upside down, with the switches between. A switch
 * that only hosts of one row reach is near that row.
 */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "tools/draw/scene.h"

enum { MARGIN = 24, GAP = 14, SWITCH_HEIGHT = 16, ROW_WIDTH_MAX = 1500, UPPER = 1, LOWER = 2 };

typedef struct stage {
  scene_t *scene;
  scene_rows_t rows;
  int32_t hosts, nodes;
  double host_width; /* of the widest host */
  int32_t *host;     /* [hosts] */
  int32_t *tier;     /* [nodes]: of a network switch, from 1 on; 0 for others */
  int32_t *side;     /* [nodes]: the rows whose hosts reach it */
  double band, step; /* height of all tiers; of one */
} stage_t;

static bool is_switch(const stage_t *stage, int32_t node) {
  return stage->scene->graph->nodes[node].kind == TOPO_SWITCH;
}

static void put_host(stage_t *stage, int32_t i, double x, double y, bool flipped) {
  stage->scene->boxes[stage->host[i]] = (scene_box_t){.shown = true,
                                                      .flipped = flipped,
                                                      .x = x,
                                                      .y = y,
                                                      .width = stage->host_width,
                                                      .height = stage->rows.height};
}

static void grow(stage_t *stage, double width, double height) {
  scene_t *scene = stage->scene;
  scene->width = fmax(scene->width, width);
  scene->height = fmax(scene->height, height);
}

/* ---- grids ----------------------------------------------------------------------------------*/

/* Rows and columns of hosts; the planes of three dimensions side by side. */
static void place_grid(stage_t *stage) {
  const topo_grid_t *grid = &stage->scene->graph->grid;
  int32_t columns = grid->extents[grid->dims - 1];
  int32_t lines = grid->dims > 1 ? grid->extents[grid->dims - 2] : 1;
  double across = stage->host_width + 44, down = stage->rows.height + 44;
  for (int32_t i = 0; i < stage->hosts; i++) {
    int32_t plane = i / (columns * lines);
    double x = MARGIN + 26 + (i % columns) * across + plane * (columns * across + 30);
    double y = MARGIN + 26 + (i / columns % lines) * down;
    put_host(stage, i, x, y, false);
    grow(stage, x + stage->host_width + 26 + MARGIN, y + stage->rows.height + 30 + MARGIN);
  }
}

/* ---- tiers ----------------------------------------------------------------------------------*/

/* Numbers the tiers outwards from the hosts, and notes which rows of hosts reach a switch. */
static void find_tiers(stage_t *stage) {
  const topo_graph_t *graph = stage->scene->graph;
  for (int32_t tier = 1, moved = 1; moved > 0; tier++) {
    moved = 0;
    for (size_t i = 0; i < 2 * graph->link_count; i++) {
      const topo_link_t *link = &graph->links[i / 2];
      int32_t from = i % 2 == 0 ? link->a : link->b, to = i % 2 == 0 ? link->b : link->a;
      if (!is_switch(stage, to)) continue;
      bool is_next = tier == 1 ? !is_switch(stage, from)
                               : is_switch(stage, from) && stage->tier[from] == tier - 1;
      if (!is_next || (stage->tier[to] != 0 && stage->tier[to] != tier)) continue;
      int32_t host = topo_graph_host_of(graph, from);
      int32_t side = stage->side[from];
      if (host != TOPO_NONE) side = stage->scene->boxes[host].flipped ? LOWER : UPPER;
      stage->tier[to] = tier;
      stage->side[to] |= side;
      moved++;
    }
  }
  for (int32_t node = 0; node < stage->nodes; node++) {
    if (is_switch(stage, node) && stage->tier[node] == 0) stage->tier[node] = 1;
  }
}

static int32_t count_in(const stage_t *stage, int32_t tier, int32_t side) {
  int32_t count = 0;
  for (int32_t node = 0; node < stage->nodes; node++) {
    count += stage->tier[node] == tier && (side == 0 || stage->side[node] == side);
  }
  return count;
}

static int32_t tiers_of(const stage_t *stage, int32_t side) {
  int32_t most = 0;
  for (int32_t node = 0; node < stage->nodes; node++) {
    if (side != 0 && stage->side[node] != side) continue;
    most = stage->tier[node] > most ? stage->tier[node] : most;
  }
  return most;
}

/* Whether switches of one tier are linked: their curves need space. */
static bool links_within_tier(const stage_t *stage) {
  const topo_graph_t *graph = stage->scene->graph;
  for (size_t i = 0; i < graph->link_count; i++) {
    const topo_link_t *link = &graph->links[i];
    if (stage->tier[link->a] > 0 && stage->tier[link->a] == stage->tier[link->b]) return true;
  }
  return false;
}

static void place_tier(stage_t *stage, int32_t tier, int32_t side, double x, double width,
                       double y) {
  int32_t count = count_in(stage, tier, side), index = 0;
  for (int32_t node = 0; node < stage->nodes; node++) {
    if (stage->tier[node] != tier || (side != 0 && stage->side[node] != side)) continue;
    double box = fmin(count == 1 ? fmax(64, width * 0.5) : 64, width / count * 0.82),
           middle = x + (index++ + 0.5) / count * width;
    stage->scene->boxes[node] = (scene_box_t){
        .shown = true, .x = middle - box / 2, .y = y, .width = box, .height = SWITCH_HEIGHT};
  }
}

static void place_tiers(stage_t *stage, double top, double x, double width) {
  int32_t tiers = tiers_of(stage, 0), common = 0, seen = 0;
  for (int32_t tier = 1; tier <= tiers; tier++) common += count_in(stage, tier, UPPER | LOWER) > 0;
  double bottom = top + stage->band - SWITCH_HEIGHT;
  for (int32_t tier = 1; tier <= tiers; tier++) {
    place_tier(stage, tier, UPPER, x, width, top + tier * stage->step - SWITCH_HEIGHT);
    place_tier(stage, tier, LOWER, x, width, bottom - tier * stage->step + SWITCH_HEIGHT);
    if (count_in(stage, tier, UPPER | LOWER) == 0) continue;
    double middle = (top + bottom) / 2 + (seen++ - (common - 1) / 2.0) * stage->step;
    place_tier(stage, tier, UPPER | LOWER, x, width, middle);
  }
}

/* ---- rows -----------------------------------------------------------------------------------*/

/* A switch of GPUs of several hosts is a bar above them, so they are in one row. */
static int32_t rack_switches(const stage_t *stage) {
  const topo_graph_t *graph = stage->scene->graph;
  int32_t count = 0;
  for (int32_t node = 0; node < stage->nodes; node++) {
    const topo_node_t *each = &graph->nodes[node];
    count += each->kind == TOPO_NVSWITCH && each->parent == TOPO_NONE;
  }
  return count;
}

static void place_racks(stage_t *stage, int32_t racks, double width) {
  const topo_graph_t *graph = stage->scene->graph;
  int32_t index = 0;
  for (int32_t node = 0; node < stage->nodes; node++) {
    const topo_node_t *each = &graph->nodes[node];
    if (each->kind != TOPO_NVSWITCH || each->parent != TOPO_NONE) continue;
    stage->scene->boxes[node] = (scene_box_t){.shown = true,
                                              .x = MARGIN + index++ * width / racks,
                                              .y = MARGIN,
                                              .width = width / racks - (racks > 1 ? 6 : 0),
                                              .height = 18};
  }
}

static void measure_band(stage_t *stage, bool in_two_rows) {
  int32_t tiers = tiers_of(stage, 0);
  double arcs = links_within_tier(stage) ? 64 : 0;
  stage->step = tiers > 0 && count_in(stage, 1, 0) > 12 ? 64 : 54;
  if (in_two_rows) {
    int32_t common = 0, single = tiers_of(stage, UPPER);
    for (int32_t tier = 1; tier <= tiers; tier++) {
      common += count_in(stage, tier, UPPER | LOWER) > 0;
    }
    stage->band = (2 * single + common) * stage->step + (common == 0 ? arcs : 0) + 30;
  } else {
    stage->band = tiers * stage->step + arcs;
  }
}

static void place_rows(stage_t *stage) {
  scene_t *scene = stage->scene;
  int32_t racks = rack_switches(stage);
  int32_t fit = (int32_t)((ROW_WIDTH_MAX - 2 * MARGIN) / (stage->host_width + GAP));
  int32_t in_row = stage->hosts <= fit || racks > 0 ? stage->hosts : (stage->hosts + 1) / 2;
  bool in_two_rows = in_row < stage->hosts;
  double width = in_row * (stage->host_width + GAP) - GAP;
  double top = MARGIN + (racks > 0 ? 56 : 0), bottom = top + stage->rows.height;
  for (int32_t i = 0; i < stage->hosts; i++) {
    put_host(stage, i, MARGIN + i % in_row * (stage->host_width + GAP), top, i >= in_row);
  }
  find_tiers(stage);
  measure_band(stage, in_two_rows);
  for (int32_t i = in_row; i < stage->hosts; i++) {
    scene->boxes[stage->host[i]].y = bottom + stage->band;
  }
  double least = tiers_of(stage, 0) > 0 ? fmin(count_in(stage, 1, 0), 8) * 40 : 0;
  double spread = fmax(width, least), x = MARGIN - (spread - width) / 2;
  if (x < MARGIN) {
    for (int32_t i = 0; i < stage->hosts; i++) scene->boxes[stage->host[i]].x += MARGIN - x;
    x = MARGIN;
  }
  place_racks(stage, racks, spread);
  place_tiers(stage, bottom, x, spread);
  grow(stage, spread + 2 * MARGIN,
       bottom + stage->band + (in_two_rows ? stage->rows.height : 0) + MARGIN);
}

coll_status_t scene_place_hosts(scene_t *scene) {
  const topo_graph_t *graph = scene->graph;
  stage_t stage = {.scene = scene,
                   .rows = scene_rows_of(graph, scene->column),
                   .nodes = (int32_t)graph->node_count};
  int32_t **arrays[] = {&stage.host, &stage.tier, &stage.side};
  coll_status_t status = COLL_OK;
  for (size_t i = 0; status == COLL_OK && i < sizeof arrays / sizeof arrays[0]; i++) {
    status = base_alloc(graph->node_count, sizeof(int32_t), "a picture", (void **)arrays[i]);
  }
  for (int32_t node = 0; status == COLL_OK && node < stage.nodes; node++) {
    if (graph->nodes[node].kind != TOPO_HOST) continue;
    stage.host[stage.hosts++] = node;
    stage.host_width = fmax(stage.host_width, scene_host_width(graph, node, scene->column));
  }
  if (status == COLL_OK) {
    if (graph->grid.dims > 0) {
      place_grid(&stage);
    } else {
      place_rows(&stage);
    }
  }
  for (int32_t i = 0; status == COLL_OK && i < stage.hosts; i++) {
    status = scene_place_inside(scene, &stage.rows, stage.host[i]);
  }
  free(stage.host);
  free(stage.tier);
  free(stage.side);
  return status;
}
