/*
 * Pieces as messages: how ranks that do not see the file of a checkpoint bring their pieces to rank
 * 0 (parallel/save.h).
 */
#ifndef LIBTRAIN_PARALLEL_SAVE_MESSAGES_H
#define LIBTRAIN_PARALLEL_SAVE_MESSAGES_H

#include "libtrain/files/pieces.h"
#include "libtrain/parallel/group.h"

/* The buffer of messages. */
typedef struct train_piece_message {
  uint64_t runs, values; /* numbers of them */
  struct train_run *run; /* room for RUNS_MAX of save_messages.c */
  float *value;          /* room for VALUES_MAX */
} train_piece_message_t;

coll_status_t train_piece_message_create(train_piece_message_t *message);
void train_piece_message_free(train_piece_message_t *message);

/* Sends the pieces of the first `arrays` arrays to rank 0. */
coll_status_t train_pieces_send(const train_group_t *group, uint32_t arrays,
                                const train_pieces_t *pieces, train_piece_message_t *message);

/* Receives what a rank sends and passes it on. If the taker fails, the rest is received and
 * dropped, because the sender waits for it. The returned status is that of the communication;
 * *taken that of the taker, which is called only while it is COLL_OK. */
coll_status_t train_pieces_receive(const train_group_t *group, int from,
                                   const train_piece_taker_t *taker, train_piece_message_t *message,
                                   coll_status_t *taken);

#endif
