/* The bytes that calls send over each class of link, for each map of ranks to hosts (topo/map.h).
 */
#ifndef COLLTOPO_TRAFFIC_H
#define COLLTOPO_TRAFFIC_H

#include <stdio.h>

#include "topo/graph.h"
#include "topo/map.h"

#define TRAFFIC_PATTERNS_MAX 3

/* Each direction of a link counts by itself, parallel links as one. */
typedef struct traffic_bytes {
  int64_t total; /* over all links of the class; data that cross two of them count twice */
  int64_t most;  /* over the most loaded one */
} traffic_bytes_t;

typedef struct traffic_pattern {
  const char *collective; /* or "neighbours" */
  const char *algorithm;  /* "" for neighbours */
  traffic_bytes_t bytes[TOPO_MAP_COUNT][TOPO_CLASS_COUNT];
} traffic_pattern_t;

typedef struct traffic {
  char name[TOPO_NAME_BYTES]; /* of the graph */
  int32_t ranks, hosts;
  int64_t size; /* bytes of a rank's largest buffer; of neighbours: of each message */
  int count;
  traffic_pattern_t patterns[TRAFFIC_PATTERNS_MAX];
  bool is_used[TOPO_CLASS_COUNT]; /* whether any pattern loads links of the class */
} traffic_t;

/* Whether the collective is the exchange of each rank with its neighbours on the process grid of
 * topo_map_extents, without wrap-around. */
bool traffic_is_neighbours(const char *collective);

/* Counts a pattern on the graph. ranks 0: one per GPU, or per host. algorithm NULL: the first of
 * the collective. The root is rank 0. Chunks of a block count as equally large. COLL_ERROR_INVALID:
 * no such collective or algorithm, or the ranks are on one host without GPUs or on hosts that are
 * not connected; COLL_ERROR_UNSUPPORTED: the algorithm maps memory of other hosts. */
coll_status_t traffic_add(traffic_t *traffic, const topo_graph_t *graph, int64_t ranks,
                          const char *collective, const char *algorithm);

/* Bars for each pattern and map, a column of panels for each class of link that is used. */
void traffic_draw(const traffic_t *traffic, FILE *out);

#endif
