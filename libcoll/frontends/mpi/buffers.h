/*
 * Buffers of MPI calls as bytes. Data of a contiguous type is used where it is; other data is
 * packed into memory of the run by the MPI, whose packed form of it is the same on all ranks and
 * has no gaps.
 */
#ifndef FRONTENDS_MPI_BUFFERS_H
#define FRONTENDS_MPI_BUFFERS_H

#include "frontends/mpi/verbs.h"

/* Blocks of several sizes, in bytes. */
typedef struct layer_blocks {
  char *data;
  size_t *counts, *displs;
} layer_blocks_t;

/* Memory that lives as long as the run. NULL: no memory. */
void *layer_scratch(layer_run_t *run, size_t bytes);

/* The first `blocks` blocks of a side that is sent. NULL: no memory, or it cannot be packed. */
char *layer_pack(layer_run_t *run, const layer_side_t *side, const layer_type_t *type, int blocks);

/* Where the first `blocks` blocks of recv are received; they are unpacked when the call is done. */
char *layer_room(layer_run_t *run, int blocks);

/* Where this rank's own block lies in what layer_room returned. In a call with MPI_IN_PLACE the
 * program has put it into recv, from where it is packed. NULL as above. */
char *layer_own_block(layer_run_t *run, char *room);

/* The same for sides with counts and displacements. */
bool layer_pack_blocks(layer_run_t *run, const layer_side_t *side, const layer_type_t *type,
                       layer_blocks_t *blocks);
bool layer_room_blocks(layer_run_t *run, layer_blocks_t *blocks);

#endif
