/*
 * What a call is for libcoll, and whether it can be one. A wrong argument makes the call pass, so
 * that the MPI reports it.
 *
 * run->bytes is, where all ranks know it: of a reduction, the bytes of the largest result; else of
 * one block, and of MPI_Allgatherv all blocks. A barrier and irregular verbs have 0. A call of 0
 * bytes passes.
 */
#include "frontends/mpi/ops.h"
#include "frontends/mpi/verbs.h"

static bool are_counts_valid(const layer_side_t *side, int ranks) {
  if (side->counts == NULL) return side->count >= 0;
  for (int i = 0; i < ranks; i++) {
    if (side->counts[i] < 0) return false;
  }
  return true;
}

/* The count of a reduction; of MPI_Reduce_scatter that of the largest block, to which the others
 * are padded. 0, and the call passes, if that more than doubles the data. */
static size_t count_of(const layer_side_t *side, int ranks) {
  size_t largest = 0, all = 0;
  if (side->counts == NULL) return (size_t)side->count;
  for (int i = 0; i < ranks; i++) {
    size_t count = (size_t)side->counts[i];
    all += count;
    if (count > largest) largest = count;
  }
  return largest * (size_t)ranks > 2 * all ? 0 : largest;
}

static bool prepare_reduction(layer_run_t *run) {
  const layer_side_t *side = &run->call->recv;
  int ranks = run->comm->size;
  if (!layer_type_find(side->type, &run->recv_type) || !are_counts_valid(side, ranks)) return false;
  if (!layer_op_find(run->call->op, &run->recv_type, &run->op)) return false;
  run->bytes = count_of(side, ranks) * run->recv_type.size;
  return run->bytes > 0;
}

static bool is_from_root(layer_verb_t verb) {
  return verb == LAYER_SCATTER || verb == LAYER_SCATTERV;
}

static bool is_to_root(layer_verb_t verb) {
  return verb == LAYER_GATHER || verb == LAYER_GATHERV;
}

/* The bytes of the side that the rank uses in any case. */
static size_t bytes_of(const layer_run_t *run, bool uses_recv) {
  const layer_side_t *side = uses_recv ? &run->call->recv : &run->call->send;
  size_t elements = 0, size = uses_recv ? run->recv_type.size : run->send_type.size;
  if (side->counts == NULL) return (size_t)side->count * size;
  for (int i = 0; i < run->comm->size; i++) elements += (size_t)side->counts[i];
  return elements * size;
}

static bool prepare_movement(layer_run_t *run) {
  const layer_call_t *call = run->call;
  const layer_verb_row_t *verb = &layer_verbs[call->verb];
  bool is_root = run->comm->rank == call->root;
  bool has_send = call->verb != LAYER_BCAST && (!is_from_root(call->verb) || is_root);
  bool has_recv = !is_to_root(call->verb) || is_root;
  has_send = has_send && call->send.data != MPI_IN_PLACE;
  has_recv = has_recv && call->recv.data != MPI_IN_PLACE;
  if (!has_send && !has_recv) return false;
  if (has_send && (!layer_type_find(call->send.type, &run->send_type) ||
                   !are_counts_valid(&call->send, run->comm->size))) {
    return false;
  }
  if (has_recv && (!layer_type_find(call->recv.type, &run->recv_type) ||
                   !are_counts_valid(&call->recv, run->comm->size))) {
    return false;
  }
  if (verb->is_irregular) return true;
  run->bytes = bytes_of(run, has_recv);
  return run->bytes > 0;
}

bool layer_run_prepare(layer_run_t *run, const layer_call_t *call, layer_comm_t *comm) {
  const layer_verb_row_t *verb = &layer_verbs[call->verb];
  run->call = call;
  run->comm = comm;
  run->stream = NULL;
  run->send_type.size = run->recv_type.size = run->bytes = 0;
  run->scratch_count = 0;
  run->packed = NULL;
  run->packed_first = run->packed_blocks = 0;
  run->skipped = -1;
  if (verb->has_root && (call->root < 0 || call->root >= comm->size)) return false;
  if (call->verb == LAYER_BARRIER) return true;
  return verb->is_reduction ? prepare_reduction(run) : prepare_movement(run);
}
