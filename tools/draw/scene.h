/*
 * Where the nodes and links of a graph of machines are in a picture. Hosts are boxes in one row or
 * two, or at their coordinates if the graph is a grid; network switches are in tiers below them, or
 * between the two rows. In a host, from the outside to the network: NVSwitches, GPUs, PCI switches,
 * NICs and processors. Cores are not shown. For at most SCENE_HOSTS_MAX hosts (fold.h: more).
 */
#ifndef DRAW_SCENE_H
#define DRAW_SCENE_H

#include "topo/graph.h"

#define SCENE_HOSTS_MAX 16

typedef struct scene_box {
  bool shown;
  bool flipped; /* of a host below the network: its inside is upside down */
  double x, y, width, height;
} scene_box_t;

/* A cubic Bezier curve from the box of link.a to that of link.b. */
typedef struct scene_curve {
  bool shown;
  double x[4], y[4];
} scene_curve_t;

typedef struct scene {
  const topo_graph_t *graph;
  double width, height;
  double column;         /* width of a GPU's column; sizes of labels follow from it */
  scene_box_t *boxes;    /* [node_count]; a package's is its processor */
  scene_box_t *frames;   /* [node_count]; of packages: around their devices */
  scene_curve_t *curves; /* [link_count] */
} scene_t;

#define SCENE_COLUMN_MIN 18

/* The graph must live as long as the scene. column 0: as wide as the number of hosts allows. Owned
 * by the caller until scene_free. COLL_ERROR_INVALID: more than SCENE_HOSTS_MAX hosts. */
coll_status_t scene_create(const topo_graph_t *graph, double column, scene_t *scene);
void scene_free(scene_t *scene);

/* ---- for scene_*.c --------------------------------------------------------------------------*/

/* Heights in a host, from its outer side; the same for all hosts. */
typedef struct scene_rows {
  double title, switches, gpus, pci, bottom, height; /* offsets; pci: of the outermost row */
  double step;                                       /* between two rows of PCI switches */
  int32_t pci_depth;
} scene_rows_t;

scene_rows_t scene_rows_of(const topo_graph_t *graph, double column);

/* Width of a host. */
double scene_host_width(const topo_graph_t *graph, int32_t host, double column);

/* Places what the host contains into its box. */
coll_status_t scene_place_inside(scene_t *scene, const scene_rows_t *rows, int32_t host);

/* Places hosts and network switches. */
coll_status_t scene_place_hosts(scene_t *scene);

/* Draws the curves of all links whose ends are shown. */
void scene_place_links(scene_t *scene);

/* PCI switches that contain the node, itself included. */
int32_t scene_pci_depth(const topo_graph_t *graph, int32_t node);

#endif
