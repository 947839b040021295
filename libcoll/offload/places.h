/*
 * Where the buffers of a call are in windows. Plans of reach read and user need it on the GPU, as
 * calls there exchange no addresses: a rank takes the buffers of its peers to be at the places of
 * its own. The words of the call contain the places that its plan relies on, and which buffers are
 * in windows at all, on which the choice of the plan depends. So ranks that differ in any of this
 * find a mismatch when they enter the call.
 *
 * Only buffers that all ranks have are looked for: not the input of a broadcast, and none of
 * reduce, gather and scatter, whose root has its buffer elsewhere than the others if it calls in
 * place.
 */
#ifndef OFFLOAD_PLACES_H
#define OFFLOAD_PLACES_H

#include "offload/state.h"
#include "offload/window.h"
#include "run/call.h"

/* Rank r's buffer begins offset + r * stride bytes behind the start of its part. */
typedef struct offload_place {
  struct coll_window *window; /* NULL: none */
  size_t offset, stride;
} offload_place_t;

/* Of INPUT and OUTPUT. */
typedef struct offload_places {
  offload_place_t of[2];
} offload_places_t;

/* Finds them. None of calls without elements, of uneven blocks, and of premul-sums, which read
 * scaled copies of their inputs. */
void offload_places_find(const run_call_t *call, const comm_traits_t *traits,
                         offload_places_t *places);

/* Adds the places to what ranks compare, and those that the plan relies on to the request. The
 * caller holds the communicator's lock. */
coll_status_t offload_places_apply(offload_t *gpu, const offload_places_t *places,
                                   const bool reaches[2], gpu_words_t *words,
                                   cuda_request_t *request);

/* Whether two calls differ by places alone. Then sets the last error, and returns
 * COLL_ERROR_MISMATCH in *status. */
bool offload_places_differ(const struct coll_comm *comm, const gpu_mismatch_t *found);

#endif
