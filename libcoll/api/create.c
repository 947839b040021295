/*
 * The functions of coll.h that make communicators. Those that block and are in no group make theirs
 * in the calling thread; all others prepare a job (lifetime/async.h).
 */
#include "api/create.h"

#include <stdlib.h>
#include <string.h>

#include "api/check.h"
#include "api/submit.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "bootstrap/launch/launch.h"
#include "calibrate/costs.h"
#include "calibrate/network.h"
#include "comm/algorithms.h"
#include "offload/gpu.h"
#include "run/combine.h"

#define ID_MAGIC 0x6c6962636f6c6c69u

static const comm_calibration_t calibration = {.machine = calibrate_costs_find,
                                               .network = calibrate_network_measure};

/* The content of a unique id. */
typedef struct unique_id {
  uint64_t magic;
  rendezvous_address_t address;
} unique_id_t;

_Static_assert(sizeof(unique_id_t) <= COLL_UNIQUE_ID_BYTES, "an id must fit its public bytes");

coll_status_t coll_unique_id_create(const coll_comm_config_t *config, coll_unique_id_t *id) {
  unique_id_t made = {.magic = ID_MAGIC};
  comm_settings_t settings;
  if (id == NULL) return base_fail(COLL_ERROR_INVALID, "coll_unique_id_create: id is NULL");
  COLL_TRY(comm_settings_read(config, &calibration, &settings));
  COLL_TRY(base_secret_create(&made.address.secret));
  uint64_t deadline_ns = base_clock_now_ns() + settings.timeout_ns;
  COLL_TRY(rendezvous_server_start_own("", settings.inherited.transport.interfaces, deadline_ns,
                                       &made.address));
  made.address.is_here = false; /* it will be used elsewhere */
  memset(id, 0, sizeof *id);
  memcpy(id->internal, &made, sizeof made);
  return COLL_OK;
}

/* ---- jobs -----------------------------------------------------------------------------------*/

/* If memory ran out, peers split the communicator and must not wait for this rank. */
static void end_parent(struct coll_comm *parent, coll_status_t status) {
  if (status != COLL_ERROR_MEMORY || parent == NULL) return;
  comm_abort(parent, parent->rank, "it had no memory to split the communicator");
}

static void discard(const api_creation_t *creation) {
  *creation->result = NULL;
  lifetime_async_discard(creation->handle);
  if (creation->owns_job) lifetime_async_release(creation->job);
}

/* Starts the job, or leaves it to the thread's group. Takes over the creation, also on failure. */
static coll_status_t submit(const api_creation_t *creation) {
  api_creations_t *group;
  *creation->result = creation->handle;
  if (!api_group_is_open()) {
    lifetime_async_start(creation->job, true);
    lifetime_async_release(creation->job);
    return COLL_IN_PROGRESS;
  }
  coll_status_t status = api_group_creations(&group);
  if (status == COLL_OK) {
    status = base_grow((void **)&group->items, &group->capacity, group->count + 1,
                       sizeof *group->items, "a group's communicators");
  }
  if (status == COLL_OK) {
    group->items[group->count++] = *creation;
  } else {
    discard(creation);
  }
  return status;
}

static bool is_one_here(const api_creations_t *creations) {
  size_t jobs = 0;
  for (size_t i = 0; i < creations->count; i++) jobs += creations->items[i].owns_job;
  return jobs == 1 && creations->items[0].blocking;
}

static void start_all(const api_creations_t *creations) {
  if (is_one_here(creations)) {
    lifetime_async_run(creations->items[0].job);
    return;
  }
  for (size_t i = 0; i < creations->count; i++) {
    const api_creation_t *each = &creations->items[i];
    if (each->owns_job) lifetime_async_start(each->job, !each->blocking);
  }
}

/* Returns the first failure in time: others may follow from it. */
static coll_status_t await_all(const api_creations_t *creations) {
  uint64_t order, first_order = UINT64_MAX;
  const api_creation_t *first = NULL;
  coll_status_t status = COLL_OK;
  for (size_t i = 0; i < creations->count; i++) {
    const api_creation_t *each = &creations->items[i];
    if (!each->blocking) status = COLL_IN_PROGRESS;
    if (!each->blocking || !each->owns_job) continue;
    if (lifetime_async_wait(each->job, &order) == COLL_OK || order > first_order) continue;
    first_order = order;
    first = each;
  }
  return first != NULL ? lifetime_async_wait(first->job, &order) : status;
}

coll_status_t api_creations_run(api_creations_t *creations) {
  start_all(creations);
  coll_status_t status = await_all(creations);
  for (size_t i = 0; i < creations->count; i++) {
    const api_creation_t *each = &creations->items[i];
    if (each->blocking) *each->result = lifetime_async_detach(each->handle);
  }
  for (size_t i = 0; i < creations->count; i++) {
    if (creations->items[i].owns_job) lifetime_async_release(creations->items[i].job);
  }
  free(creations->items);
  return status;
}

void api_creations_discard(api_creations_t *creations, coll_status_t status) {
  for (size_t i = 0; i < creations->count; i++) {
    end_parent(lifetime_async_parent(creations->items[i].job), status);
  }
  for (size_t i = 0; i < creations->count; i++) discard(&creations->items[i]);
  free(creations->items);
}

/* ---- creation -------------------------------------------------------------------------------*/

static coll_status_t check_create(const coll_unique_id_t *id, int rank, int size,
                                  const coll_comm_t *comm, unique_id_t *unique_id) {
  if (id == NULL || comm == NULL) {
    return base_fail(COLL_ERROR_INVALID, "coll_comm_create: %s is NULL",
                     id == NULL ? "the unique id" : "comm");
  }
  memcpy(unique_id, id->internal, sizeof *unique_id);
  if (unique_id->magic != ID_MAGIC) {
    return base_fail(COLL_ERROR_INVALID,
                     "coll_comm_create: the unique id was not made by coll_unique_id_create, or "
                     "not all of its %d bytes were sent on",
                     COLL_UNIQUE_ID_BYTES);
  }
  if (size < 1 || size > PLAN_RANKS_MAX || rank < 0 || rank >= size) {
    return base_fail(
        COLL_ERROR_INVALID,
        "coll_comm_create: rank %d of %d: give a size from 1 to %d and a rank below it", rank, size,
        PLAN_RANKS_MAX);
  }
  return COLL_OK;
}

static coll_status_t create(const unique_id_t *id, int rank, int size,
                            const comm_settings_t *settings, coll_comm_t *comm) {
  api_creation_t creation = {.owns_job = true, .result = comm, .blocking = settings->blocking};
  if (!api_group_is_open() && settings->blocking) {
    struct coll_comm *made = NULL;
    COLL_TRY(lifetime_create(&id->address, rank, size, settings, &made));
    run_combine_note_maker(made);
    *comm = made;
    return COLL_OK;
  }
  COLL_TRY(
      lifetime_async_create(&id->address, rank, size, settings, &creation.job, &creation.handle));
  return submit(&creation);
}

coll_status_t coll_comm_create(const coll_unique_id_t *id, int rank, int size,
                               const coll_comm_config_t *config, coll_comm_t *comm) {
  unique_id_t unique_id;
  comm_settings_t settings;
  coll_status_t status = check_create(id, rank, size, comm, &unique_id);
  if (status == COLL_OK) status = comm_settings_read(config, &calibration, &settings);
  if (status == COLL_OK) status = create(&unique_id, rank, size, &settings, comm);
  return api_group_fail(status);
}

coll_status_t coll_comm_create_env(const coll_comm_config_t *config, coll_comm_t *comm) {
  rendezvous_address_t server = {0};
  comm_settings_t settings;
  launch_t launch;
  struct coll_comm *made = NULL;
  if (comm == NULL) return base_fail(COLL_ERROR_INVALID, "coll_comm_create_env: comm is NULL");
  COLL_TRY(comm_settings_read(config, &calibration, &settings));
  uint64_t deadline_ns = base_clock_now_ns() + settings.timeout_ns;
  COLL_TRY(launch_find(deadline_ns, &launch));
  if (launch.size > 1) {
    COLL_TRY(launch_meet(&launch, settings.inherited.transport.interfaces, deadline_ns, &server));
  }
  if (launch.size > 1 && launch.rank == 0 && settings.access.reports) {
    launch_report(&launch, &server);
  }
  coll_status_t status =
      lifetime_create(launch.size > 1 ? &server : NULL, launch.rank, launch.size, &settings, &made);
  base_secret_wipe(&server.secret);
  COLL_TRY(status);
  run_combine_note_maker(made);
  *comm = made;
  return COLL_OK;
}

static coll_status_t create_local(const char *function, int size, const coll_comm_config_t *config,
                                  comm_settings_t *settings, coll_comm_t comms[]) {
  if (comms == NULL) return base_fail(COLL_ERROR_INVALID, "%s: comms is NULL", function);
  if (size < 1 || size > PLAN_RANKS_MAX) {
    return base_fail(COLL_ERROR_INVALID, "%s: %d ranks: give 1 to %d", function, size,
                     PLAN_RANKS_MAX);
  }
  const topo_cpus_t cpus = topo_cpus_own();
  int cores = topo_cpus_count(&cpus);
  tune_machine_t costs;
  COLL_TRY(comm_settings_read(config, &calibration, settings));
  COLL_TRY(comm_algorithms_check_all(settings->inherited.algorithms, size,
                                     settings->agreed.reproducible != 0));
  COLL_TRY(lifetime_costs_of(settings, 0, size, &costs));
  return lifetime_create_local(size, cores > 0 ? cores : 1, settings, &costs, comms);
}

coll_status_t coll_comm_create_local(int size, const coll_comm_config_t *config,
                                     coll_comm_t comms[]) {
  comm_settings_t settings;
  return create_local("coll_comm_create_local", size, config, &settings, comms);
}

/* Without a driver, calls on GPUs are refused, as with one that lacks something. */
static coll_status_t check_devices(int size, const int devices[]) {
  const cuda_driver_t *driver;
  if (devices == NULL) {
    return base_fail(COLL_ERROR_INVALID, "coll_comm_create_local_gpus: devices is NULL");
  }
  bool has_driver = cuda_driver_load(&driver) == COLL_OK;
  for (int i = 0; i < size && has_driver; i++) {
    COLL_TRY(cuda_driver_check_device(driver, devices[i]));
  }
  return COLL_OK;
}

coll_status_t coll_comm_create_local_gpus(int size, const int devices[],
                                          const coll_comm_config_t *config, coll_comm_t comms[]) {
  comm_settings_t settings;
  COLL_TRY(check_devices(size, devices));
  COLL_TRY(create_local("coll_comm_create_local_gpus", size, config, &settings, comms));
  coll_status_t status = offload_connect_created(comms, devices, (size_t)size, settings.timeout_ns);
  for (int i = 0; i < size && status != COLL_OK; i++) {
    lifetime_destroy(comms[i]);
    comms[i] = NULL;
  }
  return status;
}

/* ---- splitting ------------------------------------------------------------------------------*/

/* Finds the job by which the thread's group splits the communicator; NULL: none. */
static coll_status_t find_split(const struct coll_comm *comm, bool blocking,
                                lifetime_async_t **job) {
  api_creations_t *group;
  *job = NULL;
  if (!api_group_is_open()) return COLL_OK;
  COLL_TRY(api_group_creations(&group));
  for (size_t i = 0; i < group->count; i++) {
    const api_creation_t *each = &group->items[i];
    if (lifetime_async_parent(each->job) != comm) continue;
    if (each->blocking != blocking) {
      return base_fail(
          COLL_ERROR_INVALID,
          "coll_comm_split on rank %d of %d: the splits of one communicator in a group "
          "must all have the same `blocking` in their config",
          comm->rank, comm->size);
    }
    *job = each->job;
  }
  return COLL_OK;
}

static coll_status_t split_later(coll_comm_t comm, int color, int key,
                                 const comm_split_settings_t *settings, coll_comm_t *new_comm) {
  api_creation_t creation = {.result = new_comm, .blocking = settings->blocking};
  COLL_TRY(find_split(comm, settings->blocking, &creation.job));
  creation.owns_job = creation.job == NULL;
  if (creation.owns_job) COLL_TRY(lifetime_async_split(comm, &creation.job));
  coll_status_t status =
      lifetime_async_split_add(creation.job, color, key, settings, &creation.handle);
  if (status == COLL_OK) return submit(&creation);
  if (creation.owns_job) lifetime_async_release(creation.job);
  return status;
}

static coll_status_t split(coll_comm_t comm, int color, int key, const coll_comm_config_t *config,
                           coll_comm_t *new_comm) {
  comm_split_settings_t settings;
  struct coll_comm *made = NULL;
  if (new_comm == NULL) {
    return base_fail(COLL_ERROR_INVALID, "coll_comm_split: new_comm is NULL");
  }
  COLL_TRY(comm_settings_read_split(config, comm, offload_device(comm), &settings));
  if (api_group_is_open() || !settings.blocking) {
    return split_later(comm, color, key, &settings, new_comm);
  }
  COLL_TRY(lifetime_split(comm, color, key, &settings, &made));
  if (made != NULL) run_combine_note_maker(made);
  *new_comm = made;
  return COLL_OK;
}

coll_status_t coll_comm_split(coll_comm_t comm, int color, int key,
                              const coll_comm_config_t *config, coll_comm_t *new_comm) {
  coll_status_t status = api_check_outside(comm, "coll_comm_split");
  if (status != COLL_OK) return api_group_fail(status);
  status = split(comm, color, key, config, new_comm);
  if (status != COLL_OK && status != COLL_IN_PROGRESS) {
    comm_record_error(comm, status);
    end_parent(comm, status);
  }
  return api_group_fail(status);
}
