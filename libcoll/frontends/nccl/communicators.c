/*
 * Functions that make communicators.
 */
#include <stdlib.h>
#include <string.h>

#include "frontends/nccl/config.h"
#include "frontends/nccl/create.h"
#include "frontends/nccl/driver.h"
#include "frontends/nccl/environment.h"
#include "frontends/nccl/group.h"

_Static_assert(sizeof(ncclUniqueId) == sizeof(coll_unique_id_t), "an id is passed on as it is");

ncclResult_t ncclGetVersion(int *version) {
  if (version == NULL) {
    return nccl_fail(ncclInvalidArgument, "ncclGetVersion: version is NULL");
  }
  if (!nccl_version_is_right()) {
    return nccl_fail(ncclInvalidUsage,
                     "ncclGetVersion: COLL_NCCL_VERSION=%s: give a number from 2000 to 999999, as "
                     "23007 for 2.30.7, or unset it",
                     nccl_variable("COLL_NCCL_VERSION"));
  }
  *version = nccl_version();
  return ncclSuccess;
}
NCCL_ALIAS(ncclGetVersion);

static ncclResult_t create_id(ncclUniqueId *id, const char *function) {
  coll_unique_id_t made;
  nccl_environment_read();
  if (id == NULL) return nccl_fail(ncclInvalidArgument, "%s: uniqueId is NULL", function);
  const char *fixed = nccl_variable("NCCL_COMM_ID");
  if (fixed != NULL && fixed[0] != '\0') {
    return nccl_fail(ncclInvalidUsage,
                     "%s: NCCL_COMM_ID=%s is not supported: unset it, and let rank 0 send its id "
                     "to the others",
                     function, fixed);
  }
  ncclResult_t result = nccl_result(coll_unique_id_create(NULL, &made), function);
  if (result == ncclSuccess) memcpy(id, &made, sizeof *id);
  return result;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  return create_id(id, "ncclGetUniqueId");
}
NCCL_ALIAS(ncclGetUniqueId);

/* ---- by a unique id ---------------------------------------------------------------------------*/

static coll_status_t make_by_id(nccl_creation_t *creation, const coll_comm_config_t *config,
                                coll_comm_t *comm) {
  return coll_comm_create(&creation->id, creation->rank, creation->size, config, comm);
}

static ncclResult_t init_rank(const char *function, ncclComm_t *comm, int size,
                              const ncclUniqueId *id, int rank, const ncclConfig_t *config) {
  nccl_creation_t creation = {
      .function = function, .make = make_by_id, .rank = rank, .size = size, .out = comm};
  nccl_environment_read();
  if (comm == NULL || id == NULL || size < 1 || rank < 0 || rank >= size) {
    return nccl_group_note(
        comm == NULL || id == NULL
            ? nccl_fail(ncclInvalidArgument, "%s: %s is NULL", function,
                        comm == NULL ? "comm" : "the array of ids")
            : nccl_fail(ncclInvalidArgument, "%s: rank %d of %d ranks", function, rank, size));
  }
  ncclResult_t result = nccl_config_read(config, true, function, &creation.blocking);
  if (result == ncclSuccess) {
    memcpy(&creation.id, id, sizeof creation.id);
    result = nccl_create(&creation);
  }
  return nccl_group_note(result);
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int size, ncclUniqueId id, int rank) {
  return init_rank("ncclCommInitRank", comm, size, &id, rank, NULL);
}
NCCL_ALIAS(ncclCommInitRank);

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t *config) {
  return init_rank("ncclCommInitRankConfig", comm, size, &id, rank, config);
}
NCCL_ALIAS(ncclCommInitRankConfig);

/* All ranks use the first id. */
ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int size, int rank, int id_count,
                                      ncclUniqueId *ids, ncclConfig_t *config) {
  if (id_count < 1 || id_count > size) {
    return nccl_group_note(nccl_fail(
        ncclInvalidArgument, "ncclCommInitRankScalable: %d ids for %d ranks", id_count, size));
  }
  return init_rank("ncclCommInitRankScalable", comm, size, ids, rank, config);
}
NCCL_ALIAS(ncclCommInitRankScalable);

/* ---- all ranks of this process ----------------------------------------------------------------*/

/* Devices are numbers here where the process has no GPUs. There may be fewer GPUs, too. */
static coll_status_t make_local(int count, ncclComm_t comms[], coll_comm_t made[]) {
  int available = nccl_driver_find() ? nccl_driver_devices() : 0;
  bool has_all = available > 0;
  for (int i = 0; i < count; i++) has_all = has_all && comms[i]->device < available;
  if (!has_all) return coll_comm_create_local(count, NULL, made);
  int *devices = malloc((size_t)count * sizeof *devices);
  if (devices == NULL) return COLL_ERROR_MEMORY;
  for (int i = 0; i < count; i++) devices[i] = comms[i]->device;
  coll_status_t status = coll_comm_create_local_gpus(count, devices, NULL, made);
  free(devices);
  return status;
}

static ncclResult_t init_all(ncclComm_t *comms, coll_comm_t *made, int count, const int *devices) {
  ncclResult_t result = ncclSuccess;
  for (int i = 0; i < count && result == ncclSuccess; i++) {
    comms[i] = nccl_handle_new(true, devices != NULL ? devices[i] : i);
    if (comms[i] == NULL) result = ncclSystemError;
  }
  if (result == ncclSuccess) {
    result = nccl_result(make_local(count, comms, made), "ncclCommInitAll");
  }
  for (int i = 0; i < count && result == ncclSuccess; i++) {
    comms[i]->comm = made[i];
  }
  for (int i = 0; i < count && result != ncclSuccess; i++) {
    if (comms[i] != NULL) nccl_handle_release(comms[i]);
    comms[i] = NULL;
  }
  return result;
}

/* A number of a device may stand there twice. */
ncclResult_t ncclCommInitAll(ncclComm_t *comms, int count, const int *devices) {
  nccl_environment_read();
  if (comms == NULL || count < 1) {
    return nccl_group_note(nccl_fail(ncclInvalidArgument, "ncclCommInitAll: %s",
                                     comms == NULL ? "comms is NULL" : "ndev is less than 1"));
  }
  coll_comm_t *made = calloc((size_t)count, sizeof(coll_comm_t));
  if (made == NULL) return nccl_fail(ncclSystemError, "ncclCommInitAll: out of memory");
  memset(comms, 0, (size_t)count * sizeof comms[0]);
  ncclResult_t result = init_all(comms, made, count, devices);
  free(made);
  return nccl_group_note(result);
}
NCCL_ALIAS(ncclCommInitAll);

/* ---- from another communicator ----------------------------------------------------------------*/

static coll_status_t make_split(nccl_creation_t *creation, const coll_comm_config_t *config,
                                coll_comm_t *comm) {
  return coll_comm_split(creation->parent->comm, creation->color, creation->key, config, comm);
}

/* Checks the parent and fills in what all creations from one have in common. */
static ncclResult_t from_parent(nccl_creation_t *creation, const ncclConfig_t *config) {
  nccl_environment_read();
  ncclResult_t result = nccl_handle_check_ready(creation->parent, creation->function);
  if (result != ncclSuccess) return result;
  if (creation->out == NULL) {
    return nccl_fail(ncclInvalidArgument, "%s: newcomm is NULL", creation->function);
  }
  return nccl_config_read(config, creation->parent->blocking, creation->function,
                          &creation->blocking);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *new_comm,
                           ncclConfig_t *config) {
  nccl_creation_t creation = {.function = "ncclCommSplit",
                              .make = make_split,
                              .color = color,
                              .key = key,
                              .parent = comm,
                              .out = new_comm};
  ncclResult_t result = from_parent(&creation, config);
  if (result == ncclSuccess && color < NCCL_NO_COLOR) {
    result = nccl_fail(ncclInvalidArgument,
                       "ncclCommSplit: color %d: give 0 or more, or NCCL_SPLIT_NOCOLOR", color);
  }
  return nccl_group_note(result == ncclSuccess ? nccl_create(&creation) : result);
}
NCCL_ALIAS(ncclCommSplit);

static bool is_excluded(const nccl_creation_t *creation, int rank) {
  for (int i = 0; i < creation->excluded_count; i++) {
    if (creation->excluded[i] == rank) return true;
  }
  return false;
}

/* The excluded ranks make no call, so it is no split: the first of the others makes an id and sends
 * it to them. */
static coll_status_t exchange_shrunk(nccl_creation_t *creation) {
  coll_unique_id_t *id = &creation->id;
  ncclComm_t parent = creation->parent;
  int root = 0;
  while (is_excluded(creation, root)) root++;
  for (int i = 0; i < parent->size; i++) {
    if (is_excluded(creation, i)) continue;
    creation->rank += i < parent->rank;
    creation->size++;
  }
  if (parent->rank != root) {
    return coll_recv(id, sizeof *id, COLL_UINT8, root, parent->comm, NULL);
  }
  coll_status_t status = coll_unique_id_create(NULL, id), sent = COLL_OK;
  if (status != COLL_OK) memset(id, 0, sizeof *id); /* no id: the others fail, too */
  for (int i = root + 1; i < parent->size && sent == COLL_OK; i++) {
    if (is_excluded(creation, i)) continue;
    sent = coll_send(id, sizeof *id, COLL_UINT8, i, parent->comm, NULL);
  }
  return status != COLL_OK ? status : sent;
}

static ncclResult_t check_shrink(const nccl_creation_t *creation, int flags) {
  int rank = creation->parent->rank;
  if (creation->excluded_count < 1 || creation->excluded_count >= creation->parent->size ||
      is_excluded(creation, rank)) {
    return nccl_fail(ncclInvalidArgument,
                     "ncclCommShrink: rank %d of %d: exclude one rank or more, but not all, and do "
                     "not call it on those",
                     rank, creation->parent->size);
  }
  if (flags == NCCL_SHRINK_ABORT && coll_comm_error(creation->parent->comm) != COLL_OK) {
    return nccl_fail(ncclInvalidUsage,
                     "ncclCommShrink: the communicator has failed (%s), and this library cannot "
                     "shrink one that has: make a new one with ncclCommInitRank",
                     coll_last_error(creation->parent->comm));
  }
  if (flags == 0 || flags == NCCL_SHRINK_ABORT) return ncclSuccess;
  return nccl_fail(ncclInvalidArgument, "ncclCommShrink: shrinkFlags %d: give 0 or 1", flags);
}

ncclResult_t ncclCommShrink(ncclComm_t comm, int *excluded, int excluded_count,
                            ncclComm_t *new_comm, ncclConfig_t *config, int flags) {
  nccl_creation_t creation = {.function = "ncclCommShrink",
                              .exchange = exchange_shrunk,
                              .make = make_by_id,
                              .excluded = excluded,
                              .excluded_count = excluded != NULL ? excluded_count : 0,
                              .parent = comm,
                              .out = new_comm};
  ncclResult_t result = from_parent(&creation, config);
  if (result == ncclSuccess) result = check_shrink(&creation, flags);
  if (result != ncclSuccess) return nccl_group_note(result);
  size_t bytes = (size_t)excluded_count * sizeof excluded[0];
  creation.excluded = malloc(bytes);
  if (creation.excluded == NULL) {
    return nccl_group_note(nccl_fail(ncclSystemError, "ncclCommShrink: out of memory"));
  }
  memcpy(creation.excluded, excluded, bytes);
  return nccl_group_note(nccl_create(&creation));
}
NCCL_ALIAS(ncclCommShrink);

/* ---- with more ranks --------------------------------------------------------------------------*/

ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *id) {
  ncclResult_t result = nccl_handle_check_ready(comm, "ncclCommGetUniqueId");
  return result == ncclSuccess ? create_id(id, "ncclCommGetUniqueId") : result;
}
NCCL_ALIAS(ncclCommGetUniqueId);

/* One of the ranks that exist has the id, and the others do not know which: a sum over what all of
 * them have, zeros but for that one, gives it to all. */
static coll_status_t exchange_grown(nccl_creation_t *creation) {
  creation->rank = creation->parent->rank;
  return coll_allreduce(&creation->id, &creation->id, sizeof creation->id, COLL_UINT8, COLL_SUM,
                        creation->parent->comm, NULL);
}

/* Ids of none or several ranks are no id, which the creation finds. */
ncclResult_t ncclCommGrow(ncclComm_t comm, int size, const ncclUniqueId *id, int rank,
                          ncclComm_t *new_comm, ncclConfig_t *config) {
  static const char function[] = "ncclCommGrow";
  nccl_creation_t creation = {.function = function,
                              .exchange = exchange_grown,
                              .make = make_by_id,
                              .rank = rank,
                              .size = size,
                              .parent = comm,
                              .out = new_comm};
  if (comm == NULL) return init_rank(function, new_comm, size, id, rank, config);
  if (id != NULL) memcpy(&creation.id, id, sizeof creation.id);
  ncclResult_t result = from_parent(&creation, config);
  if (result == ncclSuccess && (rank != -1 || size <= comm->size)) {
    result = nccl_fail(ncclInvalidArgument,
                       "ncclCommGrow: give more ranks than the %d of the communicator, and rank -1 "
                       "on these",
                       comm->size);
  }
  return nccl_group_note(result == ncclSuccess ? nccl_create(&creation) : result);
}
NCCL_ALIAS(ncclCommGrow);
