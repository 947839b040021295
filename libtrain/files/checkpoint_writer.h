/*
 * One rank's part in writing a checkpoint. Rank 0 opens the file and finishes it; the others join
 * it. Each takes the pieces that it owns and adds their hashes to the digests, whose sums over the
 * ranks rank 0 stores. Without other ranks: open, take all pieces, finish.
 */
#ifndef LIBTRAIN_FILES_CHECKPOINT_WRITER_H
#define LIBTRAIN_FILES_CHECKPOINT_WRITER_H

#include "libtrain/files/checkpoint_file.h"
#include "libtrain/files/io.h"
#include "libtrain/files/metadata.h"
#include "libtrain/files/pieces.h"

typedef struct train_checkpoint_writer {
  train_checkpoint_header_t header;
  train_layout_t *layout; /* of the whole model */
  train_chunks_t chunks;
  train_output_t output;
  char *start;       /* everything before the arrays; NULL for those who joined */
  uint64_t *digests; /* [arrays][chunks]: sums over the elements that this rank took */
  uint64_t *taken;   /* [arrays][chunks]: their numbers; follows the digests in memory */
  float *buffer;     /* consecutive elements that are not written yet, or one widened piece */
  size_t buffered;   /* their number */
  uint64_t buffered_at;
} train_checkpoint_writer_t;

/* What the ranks that join need to know. */
typedef struct train_checkpoint_invitation {
  train_checkpoint_header_t header;
  train_output_invitation_t output;
} train_checkpoint_invitation_t;

/* Starts to replace the checkpoint at `path`. A path that cannot be written is reported by take and
 * finish. train_checkpoint_writer_free is valid also if this fails. */
coll_status_t train_checkpoint_writer_open(const char *path, const train_metadata_t *metadata,
                                           train_checkpoint_writer_t *writer);

/* Invites other ranks to the file that was opened. */
void train_checkpoint_writer_invite(train_checkpoint_writer_t *writer,
                                    train_checkpoint_invitation_t *invitation);

/* Joins a file of a model of these sizes. *sees_file: this process can write to it; otherwise it
 * must send its pieces to one that can. */
coll_status_t train_checkpoint_writer_join(const train_checkpoint_invitation_t *invitation,
                                           const train_model_config_t *config,
                                           train_checkpoint_writer_t *writer, bool *sees_file);

/* Writes a piece. COLL_ERROR_SYSTEM: the file cannot be written, for example because the disk is
 * full. */
coll_status_t train_checkpoint_writer_take(train_checkpoint_writer_t *writer,
                                           const train_piece_t *piece);

/* Writes all pieces on the list. */
coll_status_t train_checkpoint_writer_take_all(train_checkpoint_writer_t *writer,
                                               const train_pieces_t *pieces);

/* Writes what is buffered and, for those who joined, makes it durable. Before the opener
 * finishes. */
coll_status_t train_checkpoint_writer_flush(train_checkpoint_writer_t *writer);

/* The digests and, after them, the numbers of elements, to be summed over the ranks. */
uint64_t *train_checkpoint_writer_sums(train_checkpoint_writer_t *writer, size_t *count);

/* For the opener, when all pieces are written: completes the file and replaces the old one.
 * COLL_ERROR_INVALID names a tensor of which an element was not taken or taken twice. */
coll_status_t train_checkpoint_writer_finish(train_checkpoint_writer_t *writer);

/* Frees everything and, unless the file is finished, removes it. */
void train_checkpoint_writer_free(train_checkpoint_writer_t *writer);

#endif
