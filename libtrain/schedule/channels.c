/*
 * The stages advance in turn as far as they can. Which stage advances first makes no difference:
 * a stage waits for one channel at a time, and only its reader or writer can end that.
 */
#include "libtrain/schedule/channels.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

/* What was sent is not stored: the messages of a channel are the sends of its sender's program. */
typedef struct channel {
  size_t oldest; /* sender's action from which on the oldest message is looked for */
  int in_flight; /* sent and not received */
} channel_t;

typedef struct stage_state {
  size_t next;                             /* action */
  bool received;                           /* the message of `next` */
  channel_t channels[TRAIN_PAYLOAD_COUNT]; /* in which it sends */
} stage_state_t;

typedef struct network {
  const train_schedule_t *schedule;
  stage_state_t *stages;
  int window;
} network_t;

static const train_action_t *next_action(const network_t *network, int stage) {
  size_t count, next = network->stages[stage].next;
  const train_action_t *program = train_schedule_program(network->schedule, stage, &count);
  return next < count ? &program[next] : NULL;
}

/* Removes the oldest message of the channel; there is one. */
static void take_message(network_t *network, int from, train_payload_t payload,
                         train_message_t *message) {
  channel_t *channel = &network->stages[from].channels[payload];
  size_t count;
  const train_action_t *program = train_schedule_program(network->schedule, from, &count);
  while (!train_action_sends(&network->schedule->shape, from, &program[channel->oldest], message) ||
         message->payload != payload) {
    channel->oldest++;
  }
  channel->oldest++;
  channel->in_flight--;
}

static const char *payload_name(train_payload_t payload) {
  return payload == TRAIN_ACTIVATIONS ? "activations" : "gradients";
}

static coll_status_t fail_order(const network_t *network, int stage, const train_action_t *action,
                                const train_message_t *got) {
  char text[TRAIN_ACTION_TEXT_BYTES];
  return base_fail(COLL_ERROR_INVALID,
                   "stage %d: %s would receive the %s of micro-batch %d, chunk %d, slice %d from "
                   "stage %d: a channel delivers messages in the order in which they were sent",
                   stage, train_action_text(&network->schedule->shape, action, text),
                   payload_name(got->payload), got->micro_batch,
                   got->virtual_stage / network->schedule->shape.stages, got->slice, got->from);
}

/* *moved: the stage is one action further. Without, it waits. */
static coll_status_t advance(network_t *network, int stage, bool *moved) {
  const train_schedule_shape_t *shape = &network->schedule->shape;
  stage_state_t *state = &network->stages[stage];
  const train_action_t *action = next_action(network, stage);
  train_message_t needed, got, sent;
  *moved = false;
  if (action == NULL) return COLL_OK;
  if (!state->received && train_action_receives(shape, stage, action, &needed)) {
    if (network->stages[needed.from].channels[needed.payload].in_flight == 0) return COLL_OK;
    take_message(network, needed.from, needed.payload, &got);
    if (got.micro_batch != needed.micro_batch || got.virtual_stage != needed.virtual_stage ||
        got.slice != needed.slice) {
      return fail_order(network, stage, action, &got);
    }
    state->received = true;
  }
  if (train_action_sends(shape, stage, action, &sent)) {
    channel_t *channel = &state->channels[sent.payload];
    if (channel->in_flight >= network->window && sent.to != stage) return COLL_OK;
    channel->in_flight++;
  }
  state->received = false;
  state->next++;
  *moved = true;
  return COLL_OK;
}

/* *stuck: a stage that has not come to its end, or -1. */
static coll_status_t run(network_t *network, int *stuck) {
  int stages = network->schedule->shape.stages;
  for (int stage = 0; stage < stages; stage++) network->stages[stage] = (stage_state_t){0};
  bool any = true, moved = true;
  while (any) {
    any = false;
    for (int stage = 0; stage < stages; stage++) {
      do {
        COLL_TRY(advance(network, stage, &moved));
        any = any || moved;
      } while (moved);
    }
  }
  *stuck = -1;
  for (int stage = stages - 1; stage >= 0; stage--) {
    if (next_action(network, stage) != NULL) *stuck = stage;
  }
  return COLL_OK;
}

/* Says for whom each stage waits, from `stage` on until one comes twice or has ended. With an
 * unlimited window stages wait for receives only. */
static coll_status_t fail_deadlock(const network_t *network, int stage) {
  const train_schedule_shape_t *shape = &network->schedule->shape;
  char text[512], action_text[TRAIN_ACTION_TEXT_BYTES];
  int length = 0, room = (int)sizeof text;
  for (int hops = 0; hops <= shape->stages && hops < 4; hops++) {
    const train_action_t *action = next_action(network, stage);
    train_message_t needed;
    if (action == NULL || !train_action_receives(shape, stage, action, &needed)) break;
    length += snprintf(text + length, (size_t)(room - length),
                       "%sstage %d waits for the %s from stage %d before %s", hops > 0 ? "; " : "",
                       stage, payload_name(needed.payload), needed.from,
                       train_action_text(shape, action, action_text));
    if (length >= room) break;
    stage = needed.from;
  }
  return base_fail(COLL_ERROR_INVALID, "deadlock: %s%s", text,
                   next_action(network, stage) == NULL ? ", which has no actions left" : "");
}

static coll_status_t find_window(network_t *network, int *window) {
  int stuck;
  network->window = INT_MAX;
  COLL_TRY(run(network, &stuck));
  if (stuck >= 0) return fail_deadlock(network, stuck);
  for (*window = 1;; ++*window) {
    network->window = *window;
    COLL_TRY(run(network, &stuck));
    if (stuck < 0) return COLL_OK;
  }
}

coll_status_t train_channels_check(const train_schedule_t *schedule, int *window) {
  network_t network = {.schedule = schedule};
  COLL_TRY(base_alloc((size_t)schedule->shape.stages, sizeof *network.stages, "stages",
                      (void **)&network.stages));
  coll_status_t status = find_window(&network, window);
  free(network.stages);
  return status;
}
