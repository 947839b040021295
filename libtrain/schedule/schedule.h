/*
 * Pipeline schedules as plain data: for every stage (a rank of the pipeline) the list of actions
 * that it carries out in order. A builder makes the list from a shape, train_schedule_check proves
 * it (check.h), train_schedule_time computes when each action runs (timing.h), and one executor can
 * run any of them. Nothing here knows of ranks, tensors or time.
 *
 * The model is cut into stages * chunks virtual stages; virtual stage k is chunk k / stages of
 * stage k % stages (Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU
 * Clusters"). With one chunk a virtual stage is a stage.
 *
 * Messages are not actions, because they follow from the actions: a forward pass receives the
 * activations of the virtual stage before it and sends its own to the next one; a backward pass
 * (whole, or its input part) receives the gradient from the virtual stage after it and sends its
 * own to the one before. A separate list of sends and receives could only repeat or contradict it.
 * train_action_receives and train_action_sends give the message of an action.
 *
 * Rule of the transport: there is one channel for each sender, receiver and payload (activations or
 * gradients). A channel is first in, first out. A receive waits for the next message of its
 * channel. A send does not wait for its receive, unless `window` messages of its channel are sent
 * and not yet received: the sender has that many buffers. The checker computes the least window
 * with which a schedule cannot deadlock; under this rule the outcome does not depend on timing (the
 * stages and channels are a Kahn process network).
 */
#ifndef LIBTRAIN_SCHEDULE_SCHEDULE_H
#define LIBTRAIN_SCHEDULE_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define TRAIN_SCHEDULE_MAX_STAGES 1024
#define TRAIN_SCHEDULE_MAX_CHUNKS 256
#define TRAIN_SCHEDULE_MAX_SLICES 4096
#define TRAIN_SCHEDULE_MAX_ACTIONS (INT64_C(1) << 26) /* of all stages together */

typedef enum train_schedule_kind {
  TRAIN_SCHEDULE_NAIVE,         /* one micro-batch at a time */
  TRAIN_SCHEDULE_GPIPE,         /* all forward, then all backward (Huang et al. 2019) */
  TRAIN_SCHEDULE_1F1B,          /* PipeDream-Flush (Narayanan et al. 2021) */
  TRAIN_SCHEDULE_INTERLEAVED,   /* 1F1B with several chunks per stage (Narayanan et al. 2021) */
  TRAIN_SCHEDULE_ZB_H1,         /* zero bubble, backward split in two (Qi et al. 2023) */
  TRAIN_SCHEDULE_PIPEDREAM,     /* updates after every micro-batch (Narayanan et al. 2019) */
  TRAIN_SCHEDULE_PIPEDREAM_2BW, /* two versions of the weights (Narayanan et al. 2021) */
  TRAIN_SCHEDULE_TERAPIPE,      /* slices of tokens (Li et al. 2021) */
  TRAIN_SCHEDULE_KIND_COUNT
} train_schedule_kind_t;

/* "naive", "gpipe" ..., as words of an option; NULL-terminated. */
extern const char *const train_schedule_names[TRAIN_SCHEDULE_KIND_COUNT + 1];

typedef struct train_schedule_shape {
  train_schedule_kind_t kind;
  int stages;        /* ranks of the pipeline */
  int micro_batches; /* of one update */
  int steps;         /* updates */
  int chunks;        /* virtual stages of each stage */
  int slices;        /* token slices of each micro-batch */
} train_schedule_shape_t;

typedef enum train_action_kind {
  TRAIN_FORWARD,
  TRAIN_BACKWARD,        /* both of the next two */
  TRAIN_BACKWARD_INPUT,  /* gradient of the input: the virtual stage before it waits for it */
  TRAIN_BACKWARD_WEIGHT, /* gradient of the weights: nobody waits for it but the update */
  TRAIN_UPDATE,          /* the optimizer's step on all chunks of the stage */
  TRAIN_ACTION_KIND_COUNT
} train_action_kind_t;

/* Version v of the weights contains v updates. A pass uses the weights of its `version`; a stage
 * holds older versions as long as later actions use them. */
typedef struct train_action {
  train_action_kind_t kind;
  int32_t micro_batch; /* 0 .. micro_batches * steps - 1; of an update: the last one it applies */
  int32_t chunk;       /* 0 for an update */
  int32_t slice;       /* 0 for an update */
  int32_t version;     /* of an update: the version that it makes */
} train_action_t;

typedef struct train_schedule {
  train_schedule_shape_t shape;
  train_action_t *actions; /* of stage 0, then of stage 1 ... */
  size_t *first;           /* [stages + 1]: the first action of each stage */
} train_schedule_t;

typedef enum train_payload {
  TRAIN_ACTIVATIONS,
  TRAIN_GRADIENTS,
  TRAIN_PAYLOAD_COUNT
} train_payload_t;

/* `from` == `to`: both virtual stages are on one stage, and nothing is sent. */
typedef struct train_message {
  train_payload_t payload;
  int from, to;      /* stages */
  int virtual_stage; /* that receives it */
  int micro_batch, slice;
} train_message_t;

/* Whether stages update in the course of the schedule, at different times, so that passes use older
 * weights (PipeDream). The others update once the pipeline is empty. */
bool train_schedule_is_asynchronous(train_schedule_kind_t kind);

/* Builds the schedule of a shape. PipeDream updates after every micro-batch: its shape becomes one
 * of micro_batches * steps updates of one micro-batch each. COLL_ERROR_INVALID: the kind cannot
 * have this shape; the message says why and what fits. */
coll_status_t train_schedule_create(const train_schedule_shape_t *shape,
                                    train_schedule_t **schedule);
void train_schedule_destroy(train_schedule_t *schedule); /* NULL is allowed */

/* Copies a schedule, so that the copy can be changed. */
coll_status_t train_schedule_copy(const train_schedule_t *schedule, train_schedule_t **copy);

/* The actions of a stage and their number. */
static inline const train_action_t *train_schedule_program(const train_schedule_t *schedule,
                                                           int stage, size_t *count) {
  *count = schedule->first[stage + 1] - schedule->first[stage];
  return &schedule->actions[schedule->first[stage]];
}

/* The message that the action waits for before it runs, or sends after it. False: none. */
bool train_action_receives(const train_schedule_shape_t *shape, int stage,
                           const train_action_t *action, train_message_t *message);
bool train_action_sends(const train_schedule_shape_t *shape, int stage,
                        const train_action_t *action, train_message_t *message);

/* "forward of micro-batch 3, chunk 1, slice 0"; chunk and slice where the shape has several. */
#define TRAIN_ACTION_TEXT_BYTES 96
const char *train_action_text(const train_schedule_shape_t *shape, const train_action_t *action,
                              char text[TRAIN_ACTION_TEXT_BYTES]);

/* Micro-batches of all updates together. */
static inline int train_schedule_total(const train_schedule_shape_t *shape) {
  return shape->micro_batches * shape->steps;
}

#endif
