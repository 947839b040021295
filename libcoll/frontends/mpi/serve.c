/*
 * Collectives of libcoll with the buffers of MPI calls. Data is moved as bytes. MPI_Allgatherv of
 * blocks of several sizes is an all-to-all in which a rank sends the same block to all;
 * MPI_Gatherv and MPI_Scatterv are sends and receives, as the root alone knows all sizes.
 */
#include "frontends/mpi/serve.h"

#include <string.h>

#include "frontends/mpi/buffers.h"

static bool is_in_place(const layer_side_t *side) {
  return side->data == MPI_IN_PLACE;
}

static bool is_root(const layer_run_t *run) {
  return run->comm->rank == run->call->root;
}

/* ---- reductions ----------------------------------------------------------------------------*/

static size_t parts_of(const layer_run_t *run) {
  return run->bytes / run->recv_type.size * (size_t)run->recv_type.parts;
}

coll_status_t layer_serve_allreduce(layer_run_t *run) {
  const layer_call_t *call = run->call;
  const void *send = is_in_place(&call->send) ? call->recv.data : call->send.data;
  return coll_allreduce(send, call->recv.data, parts_of(run), run->recv_type.dtype, run->op,
                        run->comm->coll, run->stream);
}

coll_status_t layer_serve_reduce(layer_run_t *run) {
  const layer_call_t *call = run->call;
  const void *send = is_in_place(&call->send) ? call->recv.data : call->send.data;
  return coll_reduce(send, call->recv.data, parts_of(run), run->recv_type.dtype, run->op,
                     call->root, run->comm->coll, run->stream);
}

static bool is_uneven(const layer_run_t *run) {
  const int *counts = run->call->recv.counts;
  for (int i = 1; counts != NULL && i < run->comm->size; i++) {
    if (counts[i] != counts[0]) return true;
  }
  return false;
}

/* The blocks of MPI_Reduce_scatter, each followed by zeros up to the size of the largest one. */
static char *pad_blocks(layer_run_t *run, const char *data) {
  char *padded = layer_scratch(run, run->bytes * (size_t)run->comm->size), *at = padded;
  for (int i = 0; i < run->comm->size && padded != NULL; i++) {
    size_t bytes = (size_t)run->call->recv.counts[i] * run->recv_type.size;
    if (bytes > 0) memcpy(at, data, bytes);
    memset(at + bytes, 0, run->bytes - bytes);
    data += bytes;
    at += run->bytes;
  }
  return padded;
}

/* In place, MPI has the result at the beginning of the buffer, libcoll in the rank's own block. */
coll_status_t layer_serve_reduce_scatter(layer_run_t *run) {
  const layer_call_t *call = run->call;
  bool is_padded = is_uneven(run);
  const void *send = is_in_place(&call->send) ? call->recv.data : call->send.data;
  void *recv = call->recv.data;
  if (is_padded) send = pad_blocks(run, send);
  if (is_padded || is_in_place(&call->send)) {
    recv = layer_scratch(run, run->bytes);
    run->packed = recv;
    run->packed_first = call->recv.counts == NULL ? 0 : run->comm->rank;
    run->packed_blocks = 1;
  }
  if (send == NULL || recv == NULL) return LAYER_ERROR_PACK;
  return coll_reduce_scatter(send, recv, parts_of(run), run->recv_type.dtype, run->op,
                             run->comm->coll, run->stream);
}

/* ---- equal blocks --------------------------------------------------------------------------*/

coll_status_t layer_serve_barrier(layer_run_t *run) {
  return coll_barrier(run->comm->coll, run->stream);
}

coll_status_t layer_serve_bcast(layer_run_t *run) {
  const layer_call_t *call = run->call;
  char *data = is_root(run) ? layer_pack(run, &call->recv, &run->recv_type, 1) : layer_room(run, 1);
  if (data == NULL) return LAYER_ERROR_PACK;
  return coll_broadcast(data, data, run->bytes, COLL_UINT8, call->root, run->comm->coll,
                        run->stream);
}

coll_status_t layer_serve_allgather(layer_run_t *run) {
  const layer_call_t *call = run->call;
  char *recv = layer_room(run, run->comm->size);
  if (recv == NULL) return LAYER_ERROR_PACK;
  char *send = is_in_place(&call->send) ? layer_own_block(run, recv)
                                        : layer_pack(run, &call->send, &run->send_type, 1);
  if (send == NULL) return LAYER_ERROR_PACK;
  return coll_allgather(send, recv, run->bytes, COLL_UINT8, run->comm->coll, run->stream);
}

coll_status_t layer_serve_gather(layer_run_t *run) {
  const layer_call_t *call = run->call;
  char *send, *recv = NULL;
  if (is_root(run)) {
    recv = layer_room(run, run->comm->size);
    if (recv == NULL) return LAYER_ERROR_PACK;
  }
  send = is_root(run) && is_in_place(&call->send)
             ? layer_own_block(run, recv)
             : layer_pack(run, &call->send, &run->send_type, 1);
  if (send == NULL) return LAYER_ERROR_PACK;
  return coll_gather(send, recv, run->bytes, COLL_UINT8, call->root, run->comm->coll, run->stream);
}

coll_status_t layer_serve_scatter(layer_run_t *run) {
  const layer_call_t *call = run->call;
  char *recv, *send = NULL;
  if (is_root(run)) {
    send = layer_pack(run, &call->send, &run->send_type, run->comm->size);
    if (send == NULL) return LAYER_ERROR_PACK;
  }
  recv = is_root(run) && is_in_place(&call->recv) ? send + (size_t)call->root * run->bytes
                                                  : layer_room(run, 1);
  if (recv == NULL) return LAYER_ERROR_PACK;
  return coll_scatter(send, recv, run->bytes, COLL_UINT8, call->root, run->comm->coll, run->stream);
}

coll_status_t layer_serve_alltoall(layer_run_t *run) {
  const layer_call_t *call = run->call;
  int size = run->comm->size;
  char *send, *recv = layer_room(run, size);
  if (is_in_place(&call->send)) {
    send = layer_pack(run, &call->recv, &run->recv_type, size);
    if (!run->recv_type.is_contiguous) run->packed = recv = send;
  } else {
    send = layer_pack(run, &call->send, &run->send_type, size);
  }
  if (send == NULL || recv == NULL) return LAYER_ERROR_PACK;
  return coll_alltoall(send, recv, run->bytes, COLL_UINT8, run->comm->coll, run->stream);
}

/* ---- blocks of several sizes ---------------------------------------------------------------*/

/* In place, the blocks of recv are sent from a copy. */
static bool copy_blocks(layer_run_t *run, layer_blocks_t *send) {
  layer_type_t type = run->recv_type;
  type.is_contiguous = false; /* packed in any case */
  return layer_pack_blocks(run, &run->call->recv, &type, send);
}

coll_status_t layer_serve_alltoallv(layer_run_t *run) {
  const layer_call_t *call = run->call;
  layer_blocks_t send, recv;
  if (!layer_room_blocks(run, &recv)) return LAYER_ERROR_PACK;
  bool is_packed = is_in_place(&call->send)
                       ? copy_blocks(run, &send)
                       : layer_pack_blocks(run, &call->send, &run->send_type, &send);
  if (!is_packed) return LAYER_ERROR_PACK;
  return coll_alltoallv(send.data, send.counts, send.displs, recv.data, recv.counts, recv.displs,
                        COLL_UINT8, run->comm->coll, run->stream);
}

/* This rank's block, to be sent to all ranks. */
static char *own_block_of(layer_run_t *run) {
  const layer_call_t *call = run->call;
  int rank = run->comm->rank;
  if (!is_in_place(&call->send)) return layer_pack(run, &call->send, &run->send_type, 1);
  const layer_side_t *all = &call->recv;
  layer_side_t own = {.count = all->counts[rank], .type = all->type};
  own.data = (char *)((uintptr_t)all->data +
                      (uintptr_t)((ptrdiff_t)all->displs[rank] * run->recv_type.extent));
  layer_type_t type = run->recv_type;
  type.is_contiguous = false; /* a copy, as it is received too */
  return layer_pack(run, &own, &type, 1);
}

static bool are_side_by_side(const layer_run_t *run, size_t block_bytes) {
  const layer_side_t *recv = &run->call->recv;
  if (!run->recv_type.is_contiguous) return false;
  for (int i = 1; i < run->comm->size; i++) {
    ptrdiff_t distance = ((ptrdiff_t)recv->displs[i] - recv->displs[0]) * run->recv_type.extent;
    if (distance != (ptrdiff_t)((size_t)i * block_bytes)) return false;
  }
  return true;
}

/* Blocks of one size, which all ranks know. Where they are to lie is each rank's own affair. */
static coll_status_t allgather_blocks(layer_run_t *run) {
  const layer_side_t *all = &run->call->recv;
  size_t bytes = (size_t)all->counts[0] * run->recv_type.size;
  char *send, *recv;
  if (are_side_by_side(run, bytes)) {
    ptrdiff_t first = (ptrdiff_t)all->displs[0] * run->recv_type.extent;
    recv = (char *)((uintptr_t)all->data + (uintptr_t)first);
  } else {
    run->packed = recv = layer_scratch(run, bytes * (size_t)run->comm->size);
    run->packed_blocks = run->comm->size;
  }
  send = own_block_of(run);
  if (send == NULL || recv == NULL) return LAYER_ERROR_PACK;
  return coll_allgather(send, recv, bytes, COLL_UINT8, run->comm->coll, run->stream);
}

coll_status_t layer_serve_allgatherv(layer_run_t *run) {
  layer_blocks_t send, recv;
  size_t size = (size_t)run->comm->size;
  if (!is_uneven(run)) return allgather_blocks(run);
  if (!layer_room_blocks(run, &recv)) return LAYER_ERROR_PACK;
  send.data = own_block_of(run);
  send.counts = layer_scratch(run, 2 * size * sizeof(size_t));
  if (send.counts == NULL || (send.data == NULL && recv.counts[run->comm->rank] > 0)) {
    return LAYER_ERROR_PACK;
  }
  send.displs = send.counts + size;
  for (size_t i = 0; i < size; i++) {
    send.counts[i] = recv.counts[run->comm->rank];
    send.displs[i] = 0;
  }
  return coll_alltoallv(send.data, send.counts, send.displs, recv.data, recv.counts, recv.displs,
                        COLL_UINT8, run->comm->coll, run->stream);
}

typedef coll_status_t move_t(char *data, size_t bytes, int peer, layer_run_t *run);

static coll_status_t send_bytes(char *data, size_t bytes, int peer, layer_run_t *run) {
  if (bytes == 0) return COLL_OK;
  return coll_send(data, bytes, COLL_UINT8, peer, run->comm->coll, run->stream);
}

static coll_status_t recv_bytes(char *data, size_t bytes, int peer, layer_run_t *run) {
  if (bytes == 0) return COLL_OK;
  return coll_recv(data, bytes, COLL_UINT8, peer, run->comm->coll, run->stream);
}

/* The root's part: moves the blocks of the other ranks, and its own one to or from `own`, unless
 * that is in place. */
static coll_status_t move_blocks(layer_run_t *run, move_t *move, const layer_blocks_t *blocks,
                                 char *own, move_t *move_own) {
  int rank = run->comm->rank;
  coll_status_t status = coll_group_start();
  for (int i = 0; i < run->comm->size && status == COLL_OK; i++) {
    if (i == rank && move_own == NULL) continue;
    status = move(blocks->data + blocks->displs[i], blocks->counts[i], i, run);
  }
  if (status == COLL_OK && move_own != NULL) {
    status = move_own(own, blocks->counts[rank], rank, run);
  }
  coll_status_t end = coll_group_end();
  return status == COLL_OK ? end : status;
}

coll_status_t layer_serve_gatherv(layer_run_t *run) {
  const layer_call_t *call = run->call;
  layer_blocks_t recv;
  bool has_own = !is_in_place(&call->send);
  char *own = has_own ? layer_pack(run, &call->send, &run->send_type, 1) : NULL;
  size_t own_bytes = (size_t)call->send.count * run->send_type.size;
  if (has_own && own == NULL && own_bytes > 0) return LAYER_ERROR_PACK;
  if (!is_root(run)) return send_bytes(own, own_bytes, call->root, run);
  if (!layer_room_blocks(run, &recv)) return LAYER_ERROR_PACK;
  if (!has_own) run->skipped = call->root;
  return move_blocks(run, recv_bytes, &recv, own, has_own ? send_bytes : NULL);
}

coll_status_t layer_serve_scatterv(layer_run_t *run) {
  const layer_call_t *call = run->call;
  layer_blocks_t send;
  bool has_own = !is_in_place(&call->recv);
  char *own = has_own ? layer_room(run, 1) : NULL;
  size_t own_bytes = (size_t)call->recv.count * run->recv_type.size;
  if (has_own && own == NULL && own_bytes > 0) return LAYER_ERROR_PACK;
  if (!is_root(run)) return recv_bytes(own, own_bytes, call->root, run);
  if (!layer_pack_blocks(run, &call->send, &run->send_type, &send)) return LAYER_ERROR_PACK;
  return move_blocks(run, send_bytes, &send, own, has_own ? recv_bytes : NULL);
}
