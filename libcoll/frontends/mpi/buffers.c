/*
 * Packing and unpacking, in pieces whose sizes fit the int of MPI_Pack, or of one element.
 */
#include "frontends/mpi/buffers.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "frontends/mpi/large.h"

#define PIECE_BYTES ((size_t)1 << 30)

void *layer_scratch(layer_run_t *run, size_t bytes) {
  void *memory = malloc(bytes > 0 ? bytes : 1);
  if (memory != NULL) run->scratch[run->scratch_count++] = memory;
  return memory;
}

static int block_count(const layer_side_t *side, int block) {
  return side->counts != NULL ? side->counts[block] : side->count;
}

/* MPI_BOTTOM is NULL: addresses are computed as numbers. */
static char *block_address(const layer_side_t *side, const layer_type_t *type, int block) {
  ptrdiff_t elements =
      side->displs != NULL ? (ptrdiff_t)side->displs[block] : (ptrdiff_t)block * side->count;
  return (char *)((uintptr_t)side->data + (uintptr_t)(elements * type->extent));
}

static int piece_of(const layer_type_t *type, int count) {
  size_t fits = type->size < PIECE_BYTES ? PIECE_BYTES / (type->size > 0 ? type->size : 1) : 1;
  return (size_t)count < fits ? count : (int)fits;
}

static bool move_piece(char *data, int count, MPI_Datatype type, char *packed, int bytes,
                       MPI_Comm comm, bool to_packed) {
  int position = 0;
  int result = to_packed ? pmpi.Pack(data, count, type, packed, bytes, &position, comm)
                         : pmpi.Unpack(packed, bytes, &position, data, count, type, comm);
  return result == MPI_SUCCESS && position == bytes;
}

/* Packs one block; with to_packed false, unpacks it. */
static bool move_block(const layer_run_t *run, const layer_side_t *side, const layer_type_t *type,
                       int block, char *packed, bool to_packed) {
  char *data = block_address(side, type, block);
  int left = block_count(side, block);
  if (type->is_contiguous) {
    size_t bytes = (size_t)left * type->size;
    if (bytes > 0) memmove(to_packed ? packed : data, to_packed ? data : packed, bytes);
    return true;
  }
  while (left > 0) {
    int piece = piece_of(type, left);
    size_t bytes = (size_t)piece * type->size;
    bool is_moved = bytes > INT_MAX ? layer_large_move(data, side->type, packed, bytes, to_packed)
                                    : move_piece(data, piece, side->type, packed, (int)bytes,
                                                 run->call->comm, to_packed);
    if (!is_moved) return false;
    data = (char *)((uintptr_t)data + (uintptr_t)(piece * type->extent));
    packed += bytes;
    left -= piece;
  }
  return true;
}

char *layer_pack(layer_run_t *run, const layer_side_t *side, const layer_type_t *type, int blocks) {
  if (type->is_contiguous) return side->data;
  size_t bytes = (size_t)side->count * type->size;
  char *packed = layer_scratch(run, bytes * (size_t)blocks);
  for (int i = 0; i < blocks && packed != NULL; i++) {
    if (!move_block(run, side, type, i, packed + (size_t)i * bytes, true)) return NULL;
  }
  return packed;
}

char *layer_room(layer_run_t *run, int blocks) {
  const layer_side_t *side = &run->call->recv;
  if (run->recv_type.is_contiguous) return side->data;
  size_t bytes = (size_t)side->count * run->recv_type.size * (size_t)blocks;
  char *room = layer_scratch(run, bytes);
  run->packed = room;
  run->packed_blocks = blocks;
  return room;
}

char *layer_own_block(layer_run_t *run, char *room) {
  const layer_side_t *side = &run->call->recv;
  int rank = run->comm->rank;
  char *own = room + (size_t)rank * (size_t)side->count * run->recv_type.size;
  if (run->recv_type.is_contiguous) return own;
  run->skipped = rank;
  return move_block(run, side, &run->recv_type, rank, own, true) ? own : NULL;
}

/* Fills counts and displacements. Returns the bytes of all blocks. */
static bool measure_blocks(layer_run_t *run, const layer_side_t *side, const layer_type_t *type,
                           layer_blocks_t *blocks, size_t *total) {
  size_t ranks = (size_t)run->comm->size;
  blocks->counts = layer_scratch(run, 2 * ranks * sizeof(size_t));
  if (blocks->counts == NULL) return false;
  blocks->displs = blocks->counts + ranks;
  *total = 0;
  for (size_t i = 0; i < ranks; i++) {
    blocks->counts[i] = (size_t)side->counts[i] * type->size;
    blocks->displs[i] = *total;
    *total += blocks->counts[i];
    if (type->is_contiguous) {
      blocks->displs[i] = (size_t)((ptrdiff_t)side->displs[i] * type->extent);
    }
  }
  return true;
}

bool layer_pack_blocks(layer_run_t *run, const layer_side_t *side, const layer_type_t *type,
                       layer_blocks_t *blocks) {
  size_t total;
  if (!measure_blocks(run, side, type, blocks, &total)) return false;
  blocks->data = type->is_contiguous ? side->data : layer_scratch(run, total);
  if (blocks->data == NULL) return total == 0;
  for (int i = 0; i < run->comm->size && !type->is_contiguous; i++) {
    if (!move_block(run, side, type, i, blocks->data + blocks->displs[i], true)) return false;
  }
  return true;
}

bool layer_room_blocks(layer_run_t *run, layer_blocks_t *blocks) {
  size_t total;
  const layer_side_t *side = &run->call->recv;
  if (!measure_blocks(run, side, &run->recv_type, blocks, &total)) return false;
  blocks->data = side->data;
  if (run->recv_type.is_contiguous) return true;
  blocks->data = layer_scratch(run, total);
  run->packed = blocks->data;
  run->packed_blocks = run->comm->size;
  return blocks->data != NULL;
}

static bool unpack(layer_run_t *run) {
  const char *packed = run->packed;
  const layer_side_t *side = &run->call->recv;
  for (int i = run->packed_first; i < run->packed_first + run->packed_blocks; i++) {
    if (i != run->skipped && !move_block(run, side, &run->recv_type, i, (char *)packed, false)) {
      return false;
    }
    packed += (size_t)block_count(side, i) * run->recv_type.size;
  }
  return true;
}

bool layer_run_finish(layer_run_t *run, bool has_succeeded) {
  bool is_unpacked = !has_succeeded || run->packed == NULL || unpack(run);
  for (int i = 0; i < run->scratch_count; i++) free(run->scratch[i]);
  run->scratch_count = 0;
  return is_unpacked;
}
