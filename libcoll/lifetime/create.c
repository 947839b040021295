/*
 * A communicator consists of a transport to the other ranks, a transport from the rank to itself,
 * and pointers to the scratch memory of the ranks that share memory. Processes find each other
 * through a rendezvous, exchange records, and connect (transport/connect.h).
 */
#include "lifetime/create.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "bootstrap/rendezvous/secret_source.h"
#include "comm/algorithms.h"
#include "comm/plan_cache.h"
#include "comm/process.h"
#include "comm/quiesce.h"
#include "device/cuda/driver.h"
#include "flight/process.h"
#include "lifetime/access.h"
#include "lifetime/cores.h"
#include "lifetime/duplicate.h"
#include "lifetime/network.h"
#include "lifetime/placement.h"
#include "offload/gpu.h"
#include "offload/window.h"
#include "run/progress.h"
#include "topo/host.h"
#include "topo/interfaces.h"
#include "transport/memory.h"
#include "transport/self/self.h"

#define DESCRIPTORS_EACH 4 /* per peer: socket, pidfd, and a memfd that is being passed */
#define POLLS_AT_ONCE 32   /* polls of a peer that is about to answer */
/* About 250 µs (and no longer: wait.c), several times the time to wake a peer. A rank that yields
 * earlier loses its core for a whole time slice to any other busy program. */
#define SPIN_POLLS 1000

/* Of the network each poll is a system call: so many would take longer than a rank that shares its
 * core spins before it yields. */
static int polls_at_once(const transport_t *local) {
  return local->own_cores && !local->delays ? POLLS_AT_ONCE : 1;
}

static void find_scratch(struct coll_comm *comm) {
  for (int rank = 0; rank < comm->size; rank++) {
    void *scratch;
    size_t bytes;
    comm->local->ops->scratch(comm->local, rank, &scratch, &bytes);
    comm->world.views[rank].buffers[PLAN_SCRATCH] = scratch;
    comm->world.room.scratch_bytes = bytes;
  }
}

static coll_status_t allocate(struct coll_comm *comm) {
  size_t size = (size_t)comm->size;
  engine_world_t *world = &comm->world;
  COLL_TRY(base_alloc(size, sizeof *comm->peers, "peers", (void **)&comm->peers));
  COLL_TRY(base_alloc(2 * size, sizeof *comm->pairs, "pairs of ranks", (void **)&comm->pairs));
  COLL_TRY(base_alloc(size, sizeof *world->routes, "routes", (void **)&world->routes));
  COLL_TRY(base_alloc(size, sizeof *world->views, "views", (void **)&world->views));
  comm_deadlock_t *deadlock = &comm->watched.deadlock;
  size_t words = base_ranks_words(comm->size);
  comm->watched.waits_for.size = deadlock->found.size = comm->size;
  COLL_TRY(base_alloc(words, 8, "a set of ranks", (void **)&comm->watched.waits_for.words));
  COLL_TRY(base_alloc(words, 8, "a set of ranks", (void **)&deadlock->found.words));
  COLL_TRY(base_alloc(size, sizeof *deadlock->now, "waits", (void **)&deadlock->now));
  COLL_TRY(base_alloc(size, sizeof *deadlock->before, "waits", (void **)&deadlock->before));
  COLL_TRY(base_alloc(size, sizeof *deadlock->order, "waits", (void **)&deadlock->order));
  const plan_room_t *room = &world->room;
  size_t most = room->slot_bytes > room->mcast_bytes ? room->slot_bytes : room->mcast_bytes;
  return base_alloc(1, most, "packing", (void **)&world->packing);
}

/* Makes the communicator, in the handle *comm if that is not NULL. Takes over its transport, also
 * on failure. */
static coll_status_t assemble(transport_t *local, int cores, bool own_cores,
                              const tune_machine_t *costs, struct coll_comm **comm) {
  struct coll_comm *made = *comm;
  coll_status_t status = COLL_OK;
  if (made == NULL) status = base_handles_new(&comm_handles, (void **)&made);
  if (status != COLL_OK) {
    local->ops->destroy(local);
    return status;
  }
  made->lifetime = &lifetime_table;
  made->rank = local->rank;
  made->size = local->size;
  made->local = local;
  made->cores = cores;
  made->plans.costs = *costs;
  local->own_cores = own_cores;
  made->spin_limit = local->own_cores ? SPIN_POLLS : 0;
  made->world =
      (engine_world_t){.rank = local->rank,
                       .size = local->size,
                       .room = {.slot_bytes = local->slot_bytes, .mcast_bytes = local->mcast_bytes},
                       .polls = polls_at_once(local)};
  if (!comm_is_handle(made)) pthread_mutex_init(&made->lock, NULL);
  status = device_host_open(&made->world.device);
  if (status == COLL_OK) status = allocate(made);
  if (status == COLL_OK) {
    status = transport_self_create(local->rank, local->size, local->slot_bytes, &made->self);
  }
  if (status != COLL_OK) {
    lifetime_destroy(made);
    return status;
  }
  for (int rank = 0; rank < made->size; rank++) {
    made->world.routes[rank] = rank == made->rank ? made->self : local;
  }
  find_scratch(made);
  if (!comm_is_handle(made)) {
    made->process = getpid();
    comm_set_state(made, COMM_LIVE);
  }
  made->near_gpu = cuda_driver_is_present();
  comm_process_add(made);
  *comm = made;
  return COLL_OK;
}

void lifetime_destroy(struct coll_comm *comm) {
  comm_process_remove(comm);
  run_progress_set(comm, NULL, NULL);
  offload_windows_free(comm);
  bool is_handle = comm_is_handle(comm);
  if (!is_handle) comm_set_state(comm, COMM_NONE);
  offload_free(comm);
  comm_plans_free(comm);
  comm_pairs_free(comm);
  topo_layout_free(comm->layout);
  if (comm->self != NULL) comm->self->ops->destroy(comm->self);
  comm->local->ops->destroy(comm->local);
  transport_memory_free(comm->retained_memory);
  free(comm->watched.waits_for.words);
  free(comm->watched.deadlock.found.words);
  free(comm->watched.deadlock.now);
  free(comm->watched.deadlock.before);
  free(comm->watched.deadlock.order);
  free(comm->premuls.list);
  free(comm->world.packing);
  free(comm->world.views);
  free(comm->world.routes);
  free(comm->peers);
  base_secret_wipe(&comm->secret);
  if (is_handle) return;
  pthread_mutex_destroy(&comm->lock);
  base_handles_free(&comm_handles, comm);
}

static bool share_process(const lifetime_record_t *a, const lifetime_record_t *b) {
  return a->pid == b->pid && a->process == b->process;
}

static int count_of_process(int size, const lifetime_record_t records[], int rank) {
  int count = 0;
  for (int peer = 0; peer < size; peer++) count += share_process(&records[peer], &records[rank]);
  return count;
}

static void note_peers(struct coll_comm *comm, const lifetime_record_t records[]) {
  comm->one_pid_space = true;
  for (int peer = 0; peer < comm->size; peer++) {
    uint64_t space = records[peer].pid_space;
    if (space == 0 || space != records[comm->rank].pid_space) comm->one_pid_space = false;
    bool first = count_of_process(peer, records, peer) == 0;
    comm->peers[peer] = (comm_peer_t){
        .pid = records[peer].pid, .is_first = first, .process = records[peer].started};
  }
}

coll_status_t lifetime_listen(const transport_settings_t *settings, transport_listener_t *listener,
                              lifetime_record_t *record) {
  memset(record, 0, sizeof *record);
  record->pid = (int32_t)getpid();
  record->started = bootstrap_process_own();
  record->process = bootstrap_process_number();
  record->pid_space = flight_pid_space();
  record->kernel = topo_host_kernel();
  record->cpus = topo_cpus_own();
  lifetime_access_permit();
  return transport_listen(settings, listener, &record->name);
}

lifetime_session_t lifetime_session_of(uint64_t number, const base_secret_t *secret) {
  return (lifetime_session_t){
      .number = number,
      .secret = base_secret_derive(secret, "communicator", &number, sizeof number)};
}

coll_status_t lifetime_connect(transport_listener_t *listener, int rank, int size,
                               const lifetime_record_t records[], const lifetime_session_t *session,
                               uint64_t deadline_ns, const transport_watch_t *watch,
                               struct coll_comm **comm) {
  transport_t *local;
  struct coll_comm *made = *comm;
  bool own_cores;
  transport_name_t *names = NULL;
  size_t here = (size_t)count_of_process(size, records, rank);
  base_descriptors_make_room(here * (size_t)size * DESCRIPTORS_EACH);
  coll_status_t status = base_alloc((size_t)size, sizeof *names, "names of ranks", (void **)&names);
  if (status != COLL_OK) {
    transport_listener_close(listener);
    return status;
  }
  for (int peer = 0; peer < size; peer++) names[peer] = records[peer].name;
  const transport_group_t group = {.rank = rank,
                                   .size = size,
                                   .names = names,
                                   .one_process = here == (size_t)size,
                                   .session = session->number,
                                   .secret = &session->secret,
                                   .deadline_ns = deadline_ns,
                                   .watch = watch};
  status = transport_connect(listener, &group, &local);
  free(names);
  if (status != COLL_OK) return status;
  int cores = lifetime_cores_of(size, records, &own_cores);
  COLL_TRY(assemble(local, cores, own_cores, &records[0].costs, &made));
  note_peers(made, records);
  made->secret = session->secret;
  made->reproducible = records[rank].agreed.reproducible != 0;
  made->bound = lifetime_cores_are_disjoint(&records[0].cpus, &records[size - 1].cpus);
  *comm = made;
  return COLL_OK;
}

/* All ranks compare all records, so all find the same two ranks. */
static coll_status_t check_agreed(int rank, int size, const lifetime_record_t records[]) {
  for (int peer = 1; peer < size; peer++) {
    COLL_TRY(comm_agreed_compare(rank, 0, &records[0].agreed, peer, &records[peer].agreed));
  }
  return COLL_OK;
}

static coll_status_t check_link(void *context) {
  rendezvous_link_t *link = context;
  if (!base_cancel_is_requested()) return rendezvous_check(link);
  return base_fail(COLL_ERROR_SYSTEM, "rank %d: %s", link->rank, base_cancel_why());
}

/* Connects, and waits until all other ranks have connected. */
static coll_status_t connect_joined(rendezvous_link_t *link, transport_listener_t *listener,
                                    int rank, int size, const lifetime_record_t records[],
                                    const lifetime_session_t *session, uint64_t timeout_ns,
                                    struct coll_comm **comm) {
  uint64_t deadline_ns = base_clock_now_ns() + timeout_ns;
  const transport_watch_t watch = {.fd = link->fd, .check = check_link, .context = link};
  struct coll_comm *made = *comm;
  coll_status_t own = check_agreed(rank, size, records);
  if (own == COLL_OK) {
    own = lifetime_connect(listener, rank, size, records, session, deadline_ns, &watch, &made);
  } else {
    transport_listener_close(listener);
  }
  int failed_rank;
  coll_status_t status = rendezvous_finish(link, own, deadline_ns, &failed_rank);
  if (status == COLL_OK) {
    *comm = made;
  } else if (own == COLL_OK) {
    /* if the server died, other ranks may have been told that the communicator is complete */
    bool cancelled = base_cancel_is_requested();
    comm_abort(made, failed_rank,
               cancelled ? base_cancel_why() : "it failed while the communicator was created");
    lifetime_destroy(made);
  }
  return own == COLL_ERROR_MISMATCH ? check_agreed(rank, size, records) : status;
}

static coll_status_t join(const rendezvous_address_t *address, int rank, int size,
                          uint64_t timeout_ns, transport_listener_t *listener,
                          lifetime_record_t *own, lifetime_record_t records[],
                          struct coll_comm **comm) {
  uint64_t number;
  rendezvous_link_t link;
  const rendezvous_rank_t caller = {
      .rank = rank, .size = size, .record = own, .record_bytes = sizeof *own};
  coll_status_t status =
      rendezvous_join(address, &caller, (int)(timeout_ns / 1000000u), records, &number, &link);
  if (status != COLL_OK) {
    transport_listener_close(listener);
    return status;
  }
  const lifetime_session_t session = lifetime_session_of(number, &address->secret);
  return connect_joined(&link, listener, rank, size, records, &session, timeout_ns, comm);
}

/* All ranks use the costs of rank 0. */
coll_status_t lifetime_costs_of(const comm_settings_t *settings, int rank, int size,
                                tune_machine_t *costs) {
  *costs = tune_machine_builtin;
  return rank == 0 && size > 1 && settings->measures ? settings->calibration->machine(costs)
                                                     : COLL_OK;
}

/* What a rank does before it joins the others. */
static coll_status_t prepare(int rank, int size, const comm_settings_t *settings,
                             tune_machine_t *costs, topo_layout_t **layout) {
  COLL_TRY(comm_algorithms_check_all(settings->inherited.algorithms, size,
                                     settings->agreed.reproducible != 0));
  COLL_TRY(lifetime_costs_of(settings, rank, size, costs));
  COLL_TRY(comm_quiesce(rank, settings->timeout_ns));
  return lifetime_placement_read(settings->topo_file, settings->topo_map, rank, size, layout);
}

/* The rank does not join. If that is because it was cancelled, the others must not wait for it. */
static void announce_failure(const rendezvous_address_t *address, int rank, int size,
                             uint64_t timeout_ns) {
  static const lifetime_record_t none;
  const rendezvous_rank_t caller = {
      .rank = rank, .size = size, .record = &none, .record_bytes = sizeof none};
  if (address == NULL || !base_cancel_is_requested()) return;
  rendezvous_announce_cancelled(address, &caller, (int)(timeout_ns / 1000000u));
}

/* What is left when all ranks have connected on the host. Takes over *layout. Destroys the
 * communicator if it fails: the other ranks have theirs. */
static coll_status_t complete(struct coll_comm *comm, const lifetime_record_t records[],
                              const comm_settings_t *settings, topo_layout_t **layout) {
  bool all_on_gpus = true;
  comm->watched.limits = settings->limits;
  comm->inherited = settings->inherited;
  comm_algorithms_apply(comm);
  coll_status_t status = lifetime_placement_of_records(comm->size, records, layout);
  if (status == COLL_OK) {
    status = lifetime_placement_set(comm, *layout, settings->topo_paced);
    *layout = NULL;
  }
  if (status == COLL_OK) status = lifetime_network_measure(comm, records, settings);
  if (status != COLL_OK) {
    comm_abort(comm, comm->rank, base_last_error());
    lifetime_destroy(comm);
    return status;
  }
  lifetime_access_find(comm, &settings->access);
  lifetime_placement_report(comm);
  for (int i = 0; i < comm->size; i++) all_on_gpus = all_on_gpus && records[i].has_gpu;
  if (!all_on_gpus) return COLL_OK;
  status = offload_connect_created(&comm, &settings->device, 1, settings->timeout_ns);
  if (status != COLL_OK) lifetime_destroy(comm);
  return status;
}

/* A rank that others reach needs an address, which its host may be about to get. */
static coll_status_t await_address(const rendezvous_address_t *address, int rank,
                                   const comm_settings_t *settings) {
  const char *interfaces = settings->inherited.transport.interfaces;
  char who[32];
  bool stays = false;
  topo_interface_t found;
  int count;
  if (address == NULL) return COLL_OK;
  if (topo_interfaces_find(interfaces, 1, &found, &count) == COLL_OK && count > 0) return COLL_OK;
  if (rendezvous_stays_on_host(address->host, &stays) == 0 && stays && !address->is_here) {
    return COLL_OK;
  }
  snprintf(who, sizeof who, "rank %d", rank);
  return rendezvous_await_addresses(who, interfaces, base_clock_now_ns() + settings->timeout_ns);
}

coll_status_t lifetime_create(const rendezvous_address_t *address, int rank, int size,
                              const comm_settings_t *settings, struct coll_comm **comm) {
  lifetime_record_t own, *records = NULL;
  topo_layout_t *layout;
  tune_machine_t costs;
  transport_listener_t listener;
  coll_status_t status = prepare(rank, size, settings, &costs, &layout);
  if (status != COLL_OK) {
    announce_failure(address, rank, size, settings->timeout_ns);
    return status;
  }
  status = base_alloc((size_t)size, sizeof *records, "records of ranks", (void **)&records);
  if (status == COLL_OK) status = await_address(address, rank, settings);
  if (status == COLL_OK) {
    status = lifetime_listen(&settings->inherited.transport, &listener, &own);
  }
  if (status != COLL_OK) goto free_records;
  own.agreed = settings->agreed;
  own.agreed.layout = lifetime_placement_digest(layout, settings->topo_paced);
  own.costs = costs;
  own.measures = settings->measures;
  own.has_time = settings->timeout_ns >= LIFETIME_NETWORK_TIMEOUT_NS;
  own.home = lifetime_placement_home(settings->topo_file);
  own.has_gpu = settings->device != CUDA_NO_DEVICE;
  if (address == NULL) {
    const lifetime_session_t alone = {0};
    records[0] = own;
    status = lifetime_connect(&listener, rank, size, records, &alone, UINT64_MAX, NULL, comm);
  } else {
    status = join(address, rank, size, settings->timeout_ns, &listener, &own, records, comm);
  }
  if (status == COLL_OK) status = complete(*comm, records, settings, &layout);
free_records:
  topo_layout_free(layout);
  free(records);
  return status;
}

/* Makes all communicators or none. Takes over their transports, also on failure. */
static coll_status_t assemble_all(transport_t *const ends[], int size, int cores,
                                  const tune_machine_t *costs, struct coll_comm *made[]) {
  for (int rank = 0; rank < size; rank++) {
    coll_status_t status = assemble(ends[rank], cores, size <= cores, costs, &made[rank]);
    if (status != COLL_OK) {
      for (int left = rank + 1; left < size; left++) ends[left]->ops->destroy(ends[left]);
      while (rank > 0) lifetime_destroy(made[--rank]);
      return status;
    }
    made[rank]->one_pid_space = true;
    for (int peer = 0; peer < size; peer++) {
      made[rank]->peers[peer] = (comm_peer_t){.pid = (int32_t)getpid(), .is_first = peer == 0};
    }
  }
  return COLL_OK;
}

/* Gives each communicator the layout of the file. On failure destroys all. */
static coll_status_t place_all(int size, const comm_settings_t *settings,
                               struct coll_comm *made[]) {
  coll_status_t status = COLL_OK;
  for (int rank = 0; rank < size && status == COLL_OK; rank++) {
    topo_layout_t *layout;
    status = lifetime_placement_read(settings->topo_file, settings->topo_map, rank, size, &layout);
    if (status == COLL_OK)
      status = lifetime_placement_set(made[rank], layout, settings->topo_paced);
  }
  for (int rank = 0; rank < size && status != COLL_OK; rank++) lifetime_destroy(made[rank]);
  return status;
}

coll_status_t lifetime_create_local(int size, int cores, const comm_settings_t *settings,
                                    const tune_machine_t *costs, struct coll_comm *comms[]) {
  size_t count = (size_t)size;
  transport_t **ends = NULL;
  struct coll_comm **made = NULL;
  COLL_TRY(base_alloc(count, sizeof *made, "communicators", (void **)&made));
  const transport_choice_t *choice = &settings->inherited.transport.choice;
  coll_status_t status = base_alloc(count, sizeof *ends, "transports", (void **)&ends);
  if (status == COLL_OK) status = transport_connect_local(choice, size, ends);
  if (status == COLL_OK) status = assemble_all(ends, size, cores, costs, made);
  if (status == COLL_OK) status = place_all(size, settings, made);
  for (int rank = 0; rank < size && status == COLL_OK; rank++) {
    made[rank]->watched.limits = settings->limits;
    made[rank]->reproducible = settings->agreed.reproducible != 0;
    made[rank]->inherited = settings->inherited;
    made[rank]->access = (comm_access_t){.reports = settings->access.reports, .is_local = true};
    comm_algorithms_apply(made[rank]);
    comms[rank] = made[rank];
  }
  free(ends);
  free(made);
  return status;
}
