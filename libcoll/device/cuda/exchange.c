/* Sorts the transfers by lane and makes an action of each, or of each pair within this rank. */
#include "device/cuda/exchange.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "device/cuda/bind.h"

typedef struct group {
  int rank, size, count;
  const gpu_transfer_t *transfers;
  int32_t *sorted; /* [count]: transfers by lane, those of a lane in their own order */
  int32_t *starts; /* [2 * size + 1]: of lanes in `sorted`; some are empty */
} group_t;

/* Receives from a peer, then sends to it. */
static size_t lane_of(const gpu_transfer_t *transfer) {
  return 2 * (size_t)transfer->peer + (transfer->sends ? 1 : 0);
}

static int32_t lane_length(const group_t *g, size_t lane) {
  return g->starts[lane + 1] - g->starts[lane];
}

/* ---- order and checks -----------------------------------------------------------------------*/

static coll_status_t check_peers(const group_t *g) {
  for (int i = 0; i < g->count; i++) {
    int peer = g->transfers[i].peer;
    if (peer >= 0 && peer < g->size) continue;
    return base_fail(COLL_ERROR_INVALID,
                     "%s %d of a group names rank %d; the communicator has ranks 0 to %d",
                     g->transfers[i].sends ? "send" : "receive", i, peer, g->size - 1);
  }
  return COLL_OK;
}

/* A counting sort. Starts are counted one lane further on, where filling moves them back from. */
static void sort(group_t *g) {
  size_t lanes = 2 * (size_t)g->size;
  for (int i = 0; i < g->count; i++) g->starts[lane_of(&g->transfers[i]) + 1]++;
  for (size_t lane = 0; lane < lanes; lane++) g->starts[lane + 1] += g->starts[lane];
  for (int i = g->count; i-- > 0;) {
    g->sorted[--g->starts[lane_of(&g->transfers[i]) + 1]] = i;
  }
  for (size_t lane = 0; lane < lanes; lane++) g->starts[lane] = g->starts[lane + 1];
  g->starts[lanes] = g->count;
}

static const gpu_transfer_t *transfer_at(const group_t *g, size_t lane, int32_t index) {
  return &g->transfers[g->sorted[g->starts[lane] + index]];
}

static coll_status_t check_self(const group_t *g) {
  size_t receives = 2 * (size_t)g->rank, sends = receives + 1;
  int32_t received = lane_length(g, receives), sent = lane_length(g, sends);
  if (sent != received) {
    return base_fail(COLL_ERROR_INVALID,
                     "a group of rank %d has %d sends to itself and %d receives from itself",
                     g->rank, sent, received);
  }
  for (int32_t i = 0; i < sent; i++) {
    size_t send_bytes = transfer_at(g, sends, i)->bytes;
    size_t recv_bytes = transfer_at(g, receives, i)->bytes;
    if (send_bytes == recv_bytes) continue;
    return base_fail(COLL_ERROR_INVALID,
                     "send %d of rank %d to itself is of %zu bytes, its receive of %zu", i, g->rank,
                     send_bytes, recv_bytes);
  }
  return COLL_OK;
}

static coll_status_t prepare(group_t *g) {
  size_t lanes = 2 * (size_t)g->size;
  COLL_TRY(check_peers(g));
  COLL_TRY(base_alloc((size_t)g->count, sizeof *g->sorted, "a group's order", (void **)&g->sorted));
  COLL_TRY(base_alloc(lanes + 1, sizeof *g->starts, "a group's lanes", (void **)&g->starts));
  sort(g);
  return check_self(g);
}

/* ---- the program ----------------------------------------------------------------------------*/

typedef struct writer {
  const group_t *group;
  uint32_t *ends;
  gpu_action_t *actions;
  gpu_piece_t *pieces;
  uint32_t lanes, action_count, piece_count;
} writer_t;

static void add_piece(writer_t *w, size_t lane, int32_t index) {
  int32_t block = w->group->sorted[w->group->starts[lane] + index];
  int32_t base = lane % 2 == 1 ? GPU_BASE_INPUT : GPU_BASE_OUTPUT;
  w->pieces[w->piece_count++] = (gpu_piece_t){.base = base, .block = block, .end = 1};
}

static void add_action(writer_t *w, gpu_action_kind_t kind, uint16_t operands, size_t lane) {
  w->actions[w->action_count++] = (gpu_action_t){.kind = (uint8_t)kind,
                                                 .operands = operands,
                                                 .peer = (int32_t)(lane / 2),
                                                 .piece_count = 1,
                                                 .pieces = w->piece_count};
}

static void write_messages(writer_t *w, size_t lane) {
  for (int32_t i = 0; i < lane_length(w->group, lane); i++) {
    add_action(w, lane % 2 == 1 ? GPU_SEND : GPU_RECV, 1, lane);
    add_piece(w, lane, i);
  }
}

static void write_copies(writer_t *w, size_t receives) {
  for (int32_t i = 0; i < lane_length(w->group, receives); i++) {
    add_action(w, GPU_COPY, 2, receives);
    add_piece(w, receives, i);
    add_piece(w, receives + 1, i);
  }
}

static bool is_lane_of_copies(const group_t *g, size_t lane) {
  return lane / 2 == (size_t)g->rank;
}

/* Whether the lane becomes one of the program. */
static bool is_used(const group_t *g, size_t lane) {
  bool joins_receives = is_lane_of_copies(g, lane) && lane % 2 == 1;
  return lane_length(g, lane) > 0 && !joins_receives;
}

static void write_lanes(writer_t *w) {
  const group_t *g = w->group;
  for (size_t lane = 0; lane < 2 * (size_t)g->size; lane++) {
    if (!is_used(g, lane)) continue;
    if (is_lane_of_copies(g, lane)) {
      write_copies(w, lane);
    } else {
      write_messages(w, lane);
    }
    w->ends[w->lanes++] = w->action_count;
  }
}

static coll_status_t write_program(const group_t *g, gpu_program_t **program) {
  gpu_program_t head = {.rank = g->rank,
                        .size = g->size,
                        .parts = 1,
                        .depth = 1,
                        .message_chunks = 1,
                        .input_blocks = g->count,
                        .output_blocks = g->count,
                        .independent = 1};
  for (size_t lane = 0; lane < 2 * (size_t)g->size; lane++) head.lanes += is_used(g, lane) ? 1 : 0;
  size_t copies = (size_t)lane_length(g, 2 * (size_t)g->rank);
  COLL_TRY(
      gpu_program_alloc(&head, (size_t)g->count - copies, (size_t)g->count, "a group", program));
  char *start = (char *)*program;
  writer_t w = {.group = g,
                .ends = (uint32_t *)(void *)(*program + 1),
                .actions = (gpu_action_t *)(void *)(start + (*program)->actions_at),
                .pieces = (gpu_piece_t *)(void *)(start + (*program)->pieces_at)};
  write_lanes(&w);
  return COLL_OK;
}

/* Blocks that are not of a buffer are empty. */
static coll_status_t make_blocks(const group_t *g, size_t **counts, size_t **offsets) {
  size_t count = (size_t)g->count;
  COLL_TRY(base_alloc(4 * count, sizeof **counts, "a group's blocks", (void **)counts));
  *offsets = *counts + 2 * count;
  for (size_t i = 0; i < count; i++) {
    size_t block = g->transfers[i].sends ? i : count + i;
    (*counts)[block] = g->transfers[i].bytes;
    (*offsets)[block] = (size_t)(uintptr_t)g->transfers[i].address;
  }
  return COLL_OK;
}

coll_status_t gpu_bind_exchange(int rank, int size, const gpu_transfer_t transfers[], int count,
                                gpu_program_t **program, size_t **counts, size_t **offsets) {
  group_t group = {.rank = rank, .size = size, .count = count, .transfers = transfers};
  gpu_program_t *made = NULL;
  assert(count > 0);
  coll_status_t status = prepare(&group);
  if (status == COLL_OK) status = write_program(&group, &made);
  if (status == COLL_OK) status = make_blocks(&group, counts, offsets);
  free(group.sorted);
  free(group.starts);
  if (status == COLL_OK) {
    *program = made;
  } else {
    free(made);
  }
  return status;
}

coll_status_t gpu_exchange_slices(const gpu_room_t *room, uint32_t resident, int wanted,
                                  int *slices) {
  const gpu_program_t widest = {.lanes = 2 * room->size - 1, .independent = true};
  return gpu_bind_slices(room, &widest, resident, wanted, slices);
}
