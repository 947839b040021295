/*
 * Pieces are gathered, and cut where a message is full. A message is sent as a head of fixed size,
 * its runs and their values. A head without runs is the last one.
 */
#include "libtrain/parallel/save_messages.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define VALUES_MAX ((size_t)1 << 18) /* of a message; 1 MiB */
#define RUNS_MAX ((size_t)1 << 12)

/* Elements of a message that follow each other. */
typedef struct train_run {
  uint64_t array, first, count;
} train_run_t;

typedef struct head {
  uint64_t runs, values;
} head_t;

coll_status_t train_piece_message_create(train_piece_message_t *message) {
  void *memory;
  COLL_TRY(base_alloc(RUNS_MAX * sizeof(train_run_t) + VALUES_MAX * sizeof(float), 1,
                      "the messages of a save", &memory));
  *message = (train_piece_message_t){.run = memory};
  message->value = (float *)(message->run + RUNS_MAX);
  return COLL_OK;
}

void train_piece_message_free(train_piece_message_t *message) {
  free(message->run);
}

/* ---- sending ---- */

typedef struct sender {
  const train_group_t *group;
  train_piece_message_t *message;
} sender_t;

/* Sends the message and empties it. */
static coll_status_t send_message(const sender_t *sender) {
  const train_group_t *group = sender->group;
  train_piece_message_t *message = sender->message;
  const head_t head = {.runs = message->runs, .values = message->values};
  message->runs = message->values = 0;
  COLL_TRY(train_group_send(group, &head, sizeof head, 0));
  if (head.runs == 0) return COLL_OK;
  COLL_TRY(train_group_send(group, message->run, head.runs * sizeof *message->run, 0));
  return train_group_send(group, message->value, head.values * sizeof *message->value, 0);
}

static coll_status_t add_piece(void *context, const train_piece_t *piece) {
  const sender_t *sender = context;
  train_piece_message_t *message = sender->message;
  for (size_t done = 0; done < piece->count;) {
    if (message->runs == RUNS_MAX || message->values == VALUES_MAX) {
      COLL_TRY(send_message(sender));
    }
    size_t room = VALUES_MAX - message->values, left = piece->count - done,
           count = left < room ? left : room;
    message->run[message->runs++] =
        (train_run_t){.array = piece->array, .first = piece->first + done, .count = count};
    train_dtype_widen(piece->dtype, train_dtype_const_at(piece->dtype, piece->values, done), count,
                      message->value + message->values);
    message->values += count;
    done += count;
  }
  return COLL_OK;
}

coll_status_t train_pieces_send(const train_group_t *group, uint32_t arrays,
                                const train_pieces_t *pieces, train_piece_message_t *message) {
  sender_t sender = {.group = group, .message = message};
  const train_piece_taker_t taker = {.context = &sender, .take = add_piece};
  for (uint32_t array = 0; array < arrays; array++) {
    COLL_TRY(pieces->list(pieces->context, (train_array_t)array, &taker));
  }
  if (message->runs > 0) COLL_TRY(send_message(&sender));
  return send_message(&sender);
}

/* ---- receiving ---- */

static coll_status_t receive_message(const train_group_t *group, int from,
                                     train_piece_message_t *message) {
  head_t head;
  COLL_TRY(train_group_receive(group, &head, sizeof head, from));
  message->runs = head.runs;
  message->values = head.values;
  if (head.runs == 0) return COLL_OK;
  COLL_TRY(train_group_receive(group, message->run, head.runs * sizeof *message->run, from));
  return train_group_receive(group, message->value, head.values * sizeof *message->value, from);
}

static coll_status_t take_message(const train_piece_message_t *message,
                                  const train_piece_taker_t *taker) {
  const float *values = message->value;
  for (size_t i = 0; i < message->runs; i++) {
    const train_run_t *run = &message->run[i];
    const train_piece_t piece = {.array = (train_array_t)run->array,
                                 .first = run->first,
                                 .count = run->count,
                                 .dtype = TRAIN_FLOAT32,
                                 .values = values};
    COLL_TRY(taker->take(taker->context, &piece));
    values += run->count;
  }
  return COLL_OK;
}

coll_status_t train_pieces_receive(const train_group_t *group, int from,
                                   const train_piece_taker_t *taker, train_piece_message_t *message,
                                   coll_status_t *taken) {
  do {
    COLL_TRY(receive_message(group, from, message));
    if (*taken == COLL_OK) *taken = take_message(message, taker);
  } while (message->runs > 0);
  return COLL_OK;
}
