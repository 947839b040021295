/*
 * A mesh as a table and as a picture: what the groups of each axis are, whether they stay inside a
 * host, and where each rank is.
 */
#ifndef LIBTRAIN_MESH_SHOW_H
#define LIBTRAIN_MESH_SHOW_H

#include <stdio.h>

#include "libtrain/mesh/placement.h"

#define TRAIN_MESH_DRAW_RANKS_MAX 4096 /* a larger picture would be unreadable */

/* Prints a line for each axis of several ranks, then one for each rank. COLL_ERROR_MEMORY. */
coll_status_t train_mesh_table(const train_mesh_shape_t *shape, const train_placement_t *placement,
                               FILE *out);

/* Writes an SVG picture: for each axis of several ranks a panel with all hosts and ranks, in which
 * the ranks of a group have one colour, and those of one group are joined. COLL_ERROR_INVALID: too
 * many ranks. */
coll_status_t train_mesh_draw(const train_mesh_shape_t *shape, const train_placement_t *placement,
                              FILE *out);

/* ---- for both ---- */

/* Whether the kind of group is shown: axes, and ep, of several ranks. */
bool train_mesh_is_shown(const train_mesh_shape_t *shape, train_mesh_group_t group);

#define TRAIN_MESH_TEXT_BYTES 96

/* "tensor", "context", "data", "pipeline", "experts". */
const char *train_mesh_group_word(train_mesh_group_t group);

/* "inside a host", "across 4 hosts", "across 1 to 2 hosts". COLL_ERROR_MEMORY. */
coll_status_t train_mesh_where(const train_mesh_shape_t *shape, const train_placement_t *placement,
                               train_mesh_group_t group, char text[TRAIN_MESH_TEXT_BYTES]);

/* "tp 8 x dp 2 x pp 4". */
void train_mesh_describe(const train_mesh_shape_t *shape, char text[TRAIN_MESH_TEXT_BYTES]);

/* "tp-cp-dp-pp" */
void train_mesh_write_order(const train_mesh_shape_t *shape, char text[TRAIN_MESH_TEXT_BYTES]);

#endif
