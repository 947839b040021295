/*
 * An allgather on the parent gives every rank the color, key and record of all others. Then the
 * ranks of each color connect, or all of them find that their settings are not allowed. A second
 * allgather says which ranks have connected. A rank that fails to connect ends the parent, and a
 * rank that waits for its peers checks the parent, so that all ranks learn of a failure at once,
 * with the rank that caused it.
 */
#include "lifetime/split.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "comm/algorithms.h"
#include "comm/lock.h"
#include "lifetime/access.h"
#include "lifetime/create.h"
#include "lifetime/placement.h"
#include "offload/gpu.h"
#include "run/allgather.h"

#define CAUSE_NS 1000000000u /* how long to wait until the parent shows why a peer disconnected */
#define CHECK_NS 10000000u
#define EXIT_NS 20000000u /* time in which an exiting process closes all of its sockets */

typedef struct request {
  int32_t color, key;
  int32_t rank;   /* in the parent */
  int32_t failed; /* this rank cannot take part, so no rank gets a child */
  uint64_t session;
  lifetime_record_t record;
} request_t;

/* For qsort, within a color: by key, then by rank in the parent. */
static int compare_requests(const void *left, const void *right) {
  const request_t *a = left, *b = right;
  if (a->key != b->key) return a->key < b->key ? -1 : 1;
  return a->rank < b->rank ? -1 : a->rank > b->rank;
}

/* Moves the requests of `color` to the front and sorts them. Returns their number. */
static int select_color(request_t requests[], int count, int color) {
  int selected = 0;
  for (int i = 0; i < count; i++) {
    if (requests[i].color == color) requests[selected++] = requests[i];
  }
  qsort(requests, (size_t)selected, sizeof *requests, compare_requests);
  return selected;
}

static coll_status_t fail_of_other(const struct coll_comm *parent, int rank) {
  return base_fail(COLL_ERROR_SYSTEM,
                   "rank %d: rank %d could not take part in the split (its own error says why)",
                   parent->rank, rank);
}

static coll_status_t check_all_can(const struct coll_comm *parent, const request_t requests[]) {
  for (int rank = 0; rank < parent->size; rank++) {
    if (requests[rank].failed && rank != parent->rank) return fail_of_other(parent, rank);
  }
  return COLL_OK;
}

/* The first rank of the parent with the color of this one. */
static int first_of_color(const request_t requests[], int rank) {
  int first = 0;
  while (requests[first].color != requests[rank].color) first++;
  return first;
}

/* All ranks compare the settings within all colors, so all find the same two ranks. */
static coll_status_t check_agreed(const struct coll_comm *parent, const request_t requests[]) {
  for (int rank = 0; rank < parent->size; rank++) {
    if (requests[rank].color < 0) continue;
    int first = first_of_color(requests, rank);
    COLL_TRY(comm_agreed_compare(parent->rank, first, &requests[first].record.agreed, rank,
                                 &requests[rank].record.agreed));
  }
  return COLL_OK;
}

/* Fills in this rank's request. A rank that fails here must still take part in the allgather. */
static coll_status_t make_request(const struct coll_comm *parent,
                                  const comm_split_settings_t *settings,
                                  transport_listener_t *listener, request_t *own) {
  if (getrandom(&own->session, sizeof own->session, 0) != (ssize_t)sizeof own->session) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "no random number for a communicator");
  }
  COLL_TRY(lifetime_listen(&settings->inherited.transport, listener, &own->record));
  own->record.costs = parent->plans.costs;
  own->record.has_gpu = settings->device != CUDA_NO_DEVICE;
  own->record.agreed.reproducible = parent->reproducible;
  own->record.agreed.algorithms = comm_algorithms_digest(settings->inherited.algorithms);
  own->record.agreed.layout = lifetime_placement_digest(parent->layout, parent->paced);
  return COLL_OK;
}

/* ---- failures -------------------------------------------------------------------------------*/

/* Ends the parent: its ranks are no longer in the same call. */
static void fail_parent(struct coll_comm *parent, coll_status_t status, int failed_rank) {
  comm_lock_take(parent, comm_lock_ticket(parent));
  comm_fail(parent, status, failed_rank);
  comm_lock_release(parent);
}

typedef struct health {
  struct coll_comm *parent;
  const comm_split_settings_t *settings;
  int failed_rank; /* rank in the parent; this rank until a check finds another */
} health_t;

/* Another rank has ended the parent: returns the reason and sets health->failed_rank. */
static coll_status_t fail_again(struct coll_comm *parent, health_t *health) {
  transport_reason_t reason;
  base_clock_sleep_ns(EXIT_NS);
  if (parent->local->ops->aborted(parent->local, &reason)) health->failed_rank = reason.failed_rank;
  return comm_failure(parent);
}

/* The check of transport_watch_t. A failing rank ends the parent before it exits. So if the parent
 * has ended, the rank named in its reason is the cause, not a rank that has exited since. */
static coll_status_t check_parent(void *context) {
  health_t *health = context;
  struct coll_comm *parent = health->parent;
  transport_t *local = parent->local;
  if (!comm_is_usable(parent)) return fail_again(parent, health);
  for (int peer = 0; peer < parent->size; peer++) {
    if (peer == parent->rank) continue;
    if (local->ops->peer_state(local, peer) != TRANSPORT_PEER_LOST) continue;
    if (!comm_is_usable(parent)) return fail_again(parent, health);
    health->failed_rank = peer;
    char loss[COMM_LOSS_BYTES];
    comm_describe_loss(parent, peer, loss);
    return base_fail(COLL_ERROR_RANK_LOST, "rank %d: %s while the communicator was being split",
                     parent->rank, loss);
  }
  return COLL_OK;
}

/* A peer has disconnected: it died, or it failed because of another rank. Returns the cause, or the
 * original failure if the parent shows no cause in time. */
static coll_status_t find_cause(health_t *health, coll_status_t status) {
  char text[COMM_ERROR_BYTES];
  snprintf(text, sizeof text, "%s", base_last_error());
  uint64_t end_ns = base_clock_now_ns() + CAUSE_NS;
  while (base_clock_now_ns() < end_ns) {
    COLL_TRY(check_parent(health));
    base_clock_sleep_ns(CHECK_NS);
  }
  return base_fail(status, "%s", text);
}

/* ---- the child ------------------------------------------------------------------------------*/

/* The members' part of the parent's layout. */
static coll_status_t layout_of(const struct coll_comm *parent, const request_t members[], int count,
                               topo_layout_t **layout) {
  int32_t *ranks;
  COLL_TRY(base_alloc((size_t)count, sizeof *ranks, "members of a split", (void **)&ranks));
  for (int i = 0; i < count; i++) ranks[i] = members[i].rank;
  coll_status_t status = topo_layout_select(parent->layout, ranks, count, layout);
  free(ranks);
  return status;
}

static coll_status_t connect_members(transport_listener_t *listener, const request_t members[],
                                     int count, health_t *health, struct coll_comm **child) {
  const transport_watch_t watch = {.fd = -1, .check = check_parent, .context = health};
  lifetime_record_t *records = NULL;
  topo_layout_t *layout = NULL;
  int rank = 0;
  coll_status_t status = layout_of(health->parent, members, count, &layout);
  if (status == COLL_OK) {
    status = base_alloc((size_t)count, sizeof *records, "records of ranks", (void **)&records);
  }
  if (status != COLL_OK) {
    topo_layout_free(layout);
    transport_listener_close(listener);
    return status;
  }
  for (int i = 0; i < count; i++) {
    records[i] = members[i].record;
    if (members[i].rank == health->parent->rank) rank = i;
  }
  uint64_t deadline_ns = base_clock_now_ns() + health->settings->timeout_ns;
  const lifetime_session_t session =
      lifetime_session_of(members[0].session, &health->parent->secret);
  status = lifetime_connect(listener, rank, count, records, &session, deadline_ns, &watch, child);
  if (status == COLL_OK) {
    (*child)->watched.limits = health->settings->limits;
    (*child)->inherited = health->settings->inherited;
    (*child)->network = health->parent->network;
    comm_algorithms_apply(*child);
    status = lifetime_placement_set(*child, layout, health->parent->paced);
    if (status != COLL_OK) lifetime_destroy(*child);
  } else {
    topo_layout_free(layout);
  }
  free(records);
  bool disconnected = status == COLL_ERROR_RANK_LOST && health->failed_rank == health->parent->rank;
  return disconnected ? find_cause(health, status) : status;
}

/* What is left when all ranks of the parent have connected on the host. */
static coll_status_t complete(struct coll_comm *made, const struct coll_comm *parent,
                              const comm_split_settings_t *settings, bool all_on_gpus) {
  lifetime_access_find(made, &parent->access);
  if (!all_on_gpus) return COLL_OK;
  return offload_connect_created(&made, &settings->device, 1, settings->timeout_ns);
}

/* Whether this rank's color may have its settings: its ranks, whose settings agree, all find the
 * same. */
static coll_status_t check_members(const struct coll_comm *parent, int count,
                                   const comm_split_settings_t *settings) {
  return comm_algorithms_check_all(settings->inherited.algorithms, count, parent->reproducible);
}

/* Waits until all ranks of the parent have done their part. `refused`: this one has not, as
 * check_members said. all: room for a byte of each rank. */
static coll_status_t exchange_refusals(struct coll_comm *parent, bool refused, char all[]) {
  const char own = refused;
  COLL_TRY(run_allgather(parent, FLIGHT_SPLIT, &own, sizeof own, all));
  for (int rank = 0; rank < parent->size && !refused; rank++) {
    if (all[rank] != 0) return fail_of_other(parent, rank);
  }
  return COLL_OK;
}

/* Connects the ranks of this rank's color, if it has one, and waits until all ranks of the parent
 * have connected. If one of them fails, all fail. */
static coll_status_t make_child(struct coll_comm *parent, transport_listener_t *listener,
                                request_t requests[], int color,
                                const comm_split_settings_t *settings, struct coll_comm **child) {
  health_t health = {.parent = parent, .settings = settings, .failed_rank = parent->rank};
  struct coll_comm *made = NULL;
  bool all_on_gpus = true;
  int count = color < 0 ? 0 : select_color(requests, parent->size, color);
  bool refused = count > 0 && check_members(parent, count, settings) != COLL_OK;
  coll_status_t status = COLL_OK;
  if (count == 0 || refused) {
    transport_listener_close(listener);
  } else {
    made = *child;
    for (int i = 0; i < count; i++) all_on_gpus = all_on_gpus && requests[i].record.has_gpu;
    status = connect_members(listener, requests, count, &health, &made);
  }
  if (status != COLL_OK) {
    fail_parent(parent, status, health.failed_rank);
    return status;
  }
  status = exchange_refusals(parent, refused, (char *)requests); /* which are needed no more */
  if (status == COLL_OK && refused) status = check_members(parent, count, settings);
  if (status == COLL_OK && made != NULL) status = complete(made, parent, settings, all_on_gpus);
  if (status == COLL_OK) {
    *child = made;
  } else if (made != NULL) {
    lifetime_destroy(made);
  }
  return status;
}

coll_status_t lifetime_split(struct coll_comm *parent, int color, int key,
                             const comm_split_settings_t *settings, struct coll_comm **child) {
  transport_listener_t listener = transport_listener_none();
  request_t *requests = NULL, own = {.color = color, .key = key, .rank = parent->rank};
  coll_status_t status =
      base_alloc((size_t)parent->size, sizeof *requests, "split requests", (void **)&requests);
  if (status != COLL_OK) {
    fail_parent(parent, status, parent->rank);
    return status;
  }
  coll_status_t own_status = make_request(parent, settings, &listener, &own);
  own.failed = own_status != COLL_OK;
  status = run_allgather(parent, FLIGHT_SPLIT, &own, sizeof own, requests);
  if (status == COLL_OK) status = own_status;
  if (status == COLL_OK) status = check_all_can(parent, requests);
  if (status == COLL_OK) status = check_agreed(parent, requests);
  if (status == COLL_OK) {
    status = make_child(parent, &listener, requests, color, settings, child);
  } else {
    transport_listener_close(&listener);
  }
  free(requests);
  return status;
}
