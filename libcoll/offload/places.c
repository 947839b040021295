/* A place in words: whether the buffer is in a window; and if the plan relies on it, in which, at
 * which offset, and whether ranks have it one block after the other. */
#include "offload/places.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/names.h"

#define IS_IN_WINDOW (UINT64_C(1) << 63)
#define IS_USED (UINT64_C(1) << 62)
#define IS_STRIDED (UINT64_C(1) << 61)
#define NUMBER_SHIFT 48
#define NUMBER_MASK UINT64_C(0x1fff) /* numbers of windows are stored modulo 2^13 */
#define OFFSET_MASK ((UINT64_C(1) << NUMBER_SHIFT) - 1)

/* ---- finding ---------------------------------------------------------------------------------*/

/* Whether all ranks have the buffer, and have it at one place if all call alike. */
static bool is_common(coll_collective_t collective, plan_buffer_t buffer) {
  switch (collective) {
    case COLL_ALLREDUCE:
    case COLL_REDUCE_SCATTER:
    case COLL_ALLGATHER:
    case COLL_ALLTOALL: return true;
    case COLL_BROADCAST: return buffer == PLAN_OUTPUT;
    default: return false;
  }
}

static bool is_of_all_gpus(const struct coll_window *window, int device) {
  bool all = window->device == device;
  for (int rank = 0; rank < window->comm->size; rank++) all = all && window->parts[rank] != NULL;
  return all;
}

static offload_place_t find(const run_call_t *call, const comm_traits_t *traits,
                            plan_buffer_t buffer, size_t block_bytes) {
  struct coll_comm *comm = call->comm;
  const plan_shape_t shape = {
      .collective = traits->collective, .size = comm->size, .root = traits->root};
  size_t bytes = block_bytes * (size_t)plan_blocks(&shape, comm->rank, buffer), offset;
  const void *at = buffer == PLAN_INPUT ? call->send : call->recv;
  if (!is_common(traits->collective, buffer)) return (offload_place_t){0};
  struct coll_window *window = offload_window_find(comm, at, bytes, &offset);
  if (window == NULL || !is_of_all_gpus(window, offload_of(comm)->device)) {
    return (offload_place_t){0};
  }
  return (offload_place_t){.window = window, .offset = offset};
}

/* In place, the smaller buffer is this rank's block of the larger one. */
static void place_blocks(const comm_traits_t *traits, size_t block_bytes,
                         offload_place_t places[2]) {
  if (!traits->in_place) return;
  if (traits->collective == COLL_ALLGATHER) {
    places[PLAN_INPUT] = places[PLAN_OUTPUT];
    places[PLAN_INPUT].stride = block_bytes;
  } else if (traits->collective == COLL_REDUCE_SCATTER) {
    places[PLAN_OUTPUT] = places[PLAN_INPUT];
    places[PLAN_OUTPUT].stride = block_bytes;
  }
}

void offload_places_find(const run_call_t *call, const comm_traits_t *traits,
                         offload_places_t *places) {
  bool scales = traits->op == COMM_PREMUL && base_collective_reduces(traits->collective);
  size_t block_bytes = call->shape.count * base_dtype_bytes(traits->dtype);
  *places = (offload_places_t){0};
  if (block_bytes == 0 || call->blocks != NULL || scales) return;
  for (int i = 0; i < 2; i++) {
    places->of[i] = find(call, traits, (plan_buffer_t)i, block_bytes);
  }
  place_blocks(traits, block_bytes, places->of);
}

/* ---- calls -----------------------------------------------------------------------------------*/

static uint64_t word_of(const offload_place_t *place, bool is_used) {
  if (place->window == NULL) return 0;
  if (!is_used) return IS_IN_WINDOW;
  return IS_IN_WINDOW | IS_USED | (place->stride > 0 ? IS_STRIDED : 0) |
         (place->window->number & NUMBER_MASK) << NUMBER_SHIFT | (place->offset & OFFSET_MASK);
}

static coll_status_t parts_of(offload_t *gpu, const offload_place_t *place, cuda_parts_t *parts) {
  struct coll_window *window = place->window;
  if (window->uploaded == 0) {
    COLL_TRY(cuda_end_upload_parts(gpu->end, window->parts, &window->uploaded));
  }
  *parts = (cuda_parts_t){window->uploaded, place->offset, place->stride};
  return COLL_OK;
}

coll_status_t offload_places_apply(offload_t *gpu, const offload_places_t *places,
                                   const bool reaches[2], gpu_words_t *words,
                                   cuda_request_t *request) {
  cuda_parts_t *parts[2] = {&request->input_parts, &request->output_parts};
  for (int i = 0; i < 2; i++) {
    words->places[i] = word_of(&places->of[i], reaches[i]);
    if (reaches[i]) COLL_TRY(parts_of(gpu, &places->of[i], parts[i]));
  }
  return COLL_OK;
}

/* ---- mismatches ------------------------------------------------------------------------------*/

static void describe(uint64_t word, char *text, size_t bytes) {
  if (word == 0) {
    snprintf(text, bytes, "in no window");
  } else if ((word & IS_USED) == 0) {
    snprintf(text, bytes, "in a window");
  } else {
    snprintf(text, bytes, "at offset %" PRIu64 " of window %" PRIu64 "%s", word & OFFSET_MASK,
             word >> NUMBER_SHIFT & NUMBER_MASK,
             (word & IS_STRIDED) != 0 ? ", in place behind those of lower ranks" : "");
  }
}

bool offload_places_differ(const struct coll_comm *comm, const gpu_mismatch_t *found) {
  const gpu_words_t *own = &found->own.words, *theirs = &found->theirs.words;
  char call[FLIGHT_TEXT_BYTES], here[96], there[96];
  if (own->what != theirs->what || own->count != theirs->count) return false;
  int i = own->places[0] == theirs->places[0] ? 1 : 0;
  if (own->places[i] == theirs->places[i]) return false;
  const flight_call_t id = {own->what, own->count};
  flight_call_describe(id, comm_forced_name(id), call, sizeof call);
  describe(own->places[i], here, sizeof here);
  describe(theirs->places[i], there, sizeof there);
  base_fail(COLL_ERROR_MISMATCH,
            "call %" PRIu64 ", %s: the %s buffer is %s on rank %d, but %s on rank %" PRIu32
            "; a buffer that is in a window must be in it, at the same offset, on all ranks",
            found->own.number, call, i == 0 ? "send" : "receive", here, comm->rank, there,
            found->peer);
  return true;
}
