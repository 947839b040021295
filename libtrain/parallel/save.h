/*
 * Saving a checkpoint by all ranks together. Rank 0 creates the temporary file, every rank writes
 * the pieces that it owns where they belong, and rank 0 replaces the old file. A rank that does not
 * see that file, because it runs on a host without the folder, sends its pieces to rank 0. The file
 * is the same to the byte for any number of ranks and any division of the model among them.
 */
#ifndef LIBTRAIN_PARALLEL_SAVE_H
#define LIBTRAIN_PARALLEL_SAVE_H

#include "libtrain/files/metadata.h"
#include "libtrain/files/pieces.h"
#include "libtrain/parallel/group.h"

/* Replaces the checkpoint at `path`, which only rank 0's host must have; relative paths are those
 * of rank 0. Collective over all ranks that own a part of the model. All pass the model's sizes and
 * metadata->moments; the rest of the metadata is rank 0's. On failure the old file is unchanged,
 * all ranks return an error as from train_group_agree, whose message names the rank, the file and
 * the reason, and no temporary file is left unless all ranks that saw it were killed. */
coll_status_t train_checkpoint_save(const train_group_t *group, const char *path,
                                    const train_metadata_t *metadata, const train_pieces_t *pieces);

#endif
