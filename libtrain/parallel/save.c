/*
 * The order of a save: rank 0 opens the file and invites the others; all agree that they can write;
 * each writes what it owns, or sends it to rank 0, and makes it durable; all agree that they did;
 * the digests are summed; rank 0 completes the file and replaces the old one; all agree on that.
 * Up to rank 0's rename the old file is untouched.
 */
#include "libtrain/parallel/save.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "libtrain/files/checkpoint_writer.h"
#include "libtrain/parallel/save_messages.h"

typedef struct save {
  const train_group_t *group;
  train_checkpoint_writer_t writer;
  train_piece_message_t message;
  uint64_t *sends; /* [ranks]: 1 if the rank sends its pieces to rank 0 */
} save_t;

/* What rank 0 broadcasts. */
typedef struct offer {
  uint64_t opened; /* otherwise rank 0 failed, and the rest is zero */
  train_checkpoint_invitation_t invitation;
} offer_t;

/* Names the rank in the message of a failure of its own. */
static coll_status_t name_rank(const save_t *save, coll_status_t status) {
  if (status == COLL_OK || save->group->size == 1) return status;
  return base_fail(status, "rank %d: %s", save->group->rank, base_last_error());
}

/* ---- opening ---- */

static coll_status_t open_file(save_t *save, const char *path, const train_metadata_t *metadata,
                               offer_t *offer) {
  COLL_TRY(train_checkpoint_writer_open(path, metadata, &save->writer));
  train_checkpoint_writer_invite(&save->writer, &offer->invitation);
  offer->opened = 1;
  return COLL_OK;
}

/* Allocates what this rank needs besides its writer. */
static coll_status_t allocate(save_t *save) {
  void *memory;
  COLL_TRY(base_alloc((size_t)save->group->size, sizeof *save->sends, "a save", &memory));
  save->sends = memory;
  return train_piece_message_create(&save->message);
}

static coll_status_t join_file(save_t *save, const offer_t *offer,
                               const train_metadata_t *metadata) {
  bool sees_file;
  if (!offer->opened) return COLL_OK; /* rank 0 reports it */
  COLL_TRY(train_checkpoint_writer_join(&offer->invitation, &metadata->config, &save->writer,
                                        &sees_file));
  save->sends[save->group->rank] = !sees_file;
  return COLL_OK;
}

static coll_status_t open_all(save_t *save, const char *path, const train_metadata_t *metadata) {
  const train_group_t *group = save->group;
  void *memory;
  COLL_TRY(base_alloc(1, sizeof(offer_t), "a save", &memory));
  offer_t *offer = memory;
  coll_status_t status = allocate(save);
  if (status == COLL_OK && group->rank == 0) status = open_file(save, path, metadata, offer);
  coll_status_t sent = train_group_broadcast_bytes(group, offer, sizeof *offer, 0);
  if (sent == COLL_OK && status == COLL_OK && group->rank > 0) {
    status = join_file(save, offer, metadata);
  }
  free(offer);
  COLL_TRY(sent);
  COLL_TRY(train_group_agree(group, name_rank(save, status)));
  return train_group_sum_integers(group, save->sends, (size_t)group->size);
}

/* ---- writing ---- */

static coll_status_t take(void *context, const train_piece_t *piece) {
  return train_checkpoint_writer_take(context, piece);
}

/* Receives the pieces of all ranks that send them. *taken: whether this rank can write. */
static coll_status_t receive_all(save_t *save, coll_status_t *taken) {
  const train_piece_taker_t taker = {.context = &save->writer, .take = take};
  for (int rank = 1; rank < save->group->size; rank++) {
    if (!save->sends[rank]) continue;
    COLL_TRY(train_pieces_receive(save->group, rank, &taker, &save->message, taken));
  }
  return COLL_OK;
}

static coll_status_t write_all(save_t *save, const train_pieces_t *pieces) {
  const train_group_t *group = save->group;
  if (save->sends[group->rank]) {
    COLL_TRY(train_pieces_send(group, save->writer.header.arrays, pieces, &save->message));
    return train_group_agree(group, COLL_OK);
  }
  coll_status_t status = train_checkpoint_writer_take_all(&save->writer, pieces);
  if (group->rank == 0) COLL_TRY(receive_all(save, &status));
  if (status == COLL_OK) status = train_checkpoint_writer_flush(&save->writer);
  return train_group_agree(group, name_rank(save, status));
}

static coll_status_t finish(save_t *save) {
  size_t count;
  uint64_t *sums = train_checkpoint_writer_sums(&save->writer, &count);
  coll_status_t status = COLL_OK;
  COLL_TRY(train_group_sum_integers(save->group, sums, count));
  if (save->group->rank == 0) status = train_checkpoint_writer_finish(&save->writer);
  return train_group_agree(save->group, name_rank(save, status));
}

coll_status_t train_checkpoint_save(const train_group_t *group, const char *path,
                                    const train_metadata_t *metadata,
                                    const train_pieces_t *pieces) {
  save_t save = {.group = group, .writer.output.file = -1};
  coll_status_t status = open_all(&save, path, metadata);
  if (status == COLL_OK) status = write_all(&save, pieces);
  if (status == COLL_OK) status = finish(&save);
  train_checkpoint_writer_free(&save.writer);
  train_piece_message_free(&save.message);
  free(save.sends);
  return status;
}
