/* Makes a scene: sizes, then boxes, then curves. */
#include "tools/draw/scene.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* More hosts leave less space for each. */
static double column_for(size_t hosts) {
  if (hosts <= 1) return 64;
  if (hosts <= 2) return 40;
  return hosts <= 4 ? 26 : SCENE_COLUMN_MIN;
}

coll_status_t scene_create(const topo_graph_t *graph, double column, scene_t *scene) {
  size_t hosts = topo_graph_count(graph, TOPO_HOST), nodes = graph->node_count;
  scene_t made = {.graph = graph, .column = column > 0 ? column : column_for(hosts)};
  memset(scene, 0, sizeof *scene);
  if (hosts > SCENE_HOSTS_MAX) {
    return base_fail(COLL_ERROR_INVALID, "a picture of %zu hosts cannot be read (at most %d)",
                     hosts, SCENE_HOSTS_MAX);
  }
  coll_status_t status = base_alloc(nodes, sizeof *made.boxes, "a picture", (void **)&made.boxes);
  if (status == COLL_OK) {
    status = base_alloc(nodes, sizeof *made.frames, "a picture", (void **)&made.frames);
  }
  if (status == COLL_OK) {
    status =
        base_alloc(graph->link_count + 1, sizeof *made.curves, "a picture", (void **)&made.curves);
  }
  if (status == COLL_OK) status = scene_place_hosts(&made);
  if (status != COLL_OK) {
    scene_free(&made);
    return status;
  }
  scene_place_links(&made);
  *scene = made;
  return COLL_OK;
}

void scene_free(scene_t *scene) {
  free(scene->boxes);
  free(scene->frames);
  free(scene->curves);
}
