/*
 * A send or receive is a plan of one step. Sends to one peer run one after the other, and so do
 * receives from it, so each direction of a pair needs one plan and one run.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/inline.h"
#include "comm/comm.h"

BASE_COLD static coll_status_t make_pair(const struct coll_comm *comm, bool sends, int peer,
                                         comm_pair_t **pair) {
  comm_pair_t *made = NULL;
  transport_t *route = comm->world.routes[peer];
  const transport_port_t *port = route->ops->port(route, peer, TRANSPORT_CHANNEL_P2P);
  if (port == NULL) return base_fail(COLL_ERROR_MEMORY, "no memory for sends to rank %d", peer);
  COLL_TRY(base_alloc(1, sizeof *made, "a pair's plan and run", (void **)&made));
  plan_span_t span = {
      .rank = comm->rank, .buffer = sends ? PLAN_INPUT : PLAN_OUTPUT, .first = 0, .count = 1};
  if (sends) {
    made->step = (plan_step_t){.kind = PLAN_SEND, .send = {.peer = peer, .src = span}};
  } else {
    made->step = (plan_step_t){.kind = PLAN_RECV, .recv = {.peer = peer, .dst = span}};
  }
  made->lane = (plan_lane_t){.steps = &made->step, .count = 1};
  made->program.lanes = &made->lane;
  made->plan = (plan_t){.shape = {.collective = COLL_SENDRECV, .size = comm->size},
                        .algorithm = "pair",
                        .parts = 1,
                        .lanes = 1,
                        .message_chunks = 1};
  /* A network takes megabytes before it blocks, shared memory a few slots. */
  made->call = (engine_call_t){.channel = TRANSPORT_CHANNEL_P2P,
                               .count_per_pair = true,
                               .takes_turns = route->delays,
                               .slot_bytes = port->transport->slot_bytes};
  *pair = made;
  return COLL_OK;
}

coll_status_t comm_pair_of(struct coll_comm *comm, bool sends, int peer, comm_pair_t **pair) {
  comm_pair_t **slot = &comm->pairs[2 * peer + sends];
  if (*slot == NULL) COLL_TRY(make_pair(comm, sends, peer, slot));
  *pair = *slot;
  return COLL_OK;
}

void comm_pairs_free(struct coll_comm *comm) {
  for (int i = 0; comm->pairs != NULL && i < 2 * comm->size; i++) {
    if (comm->pairs[i] == NULL) continue;
    engine_run_free(&comm->pairs[i]->run);
    free(comm->pairs[i]);
  }
  free(comm->pairs);
}
