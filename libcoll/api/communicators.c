/*
 * The functions of coll.h that query, configure, abort and destroy communicators.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/check.h"
#include "api/out.h"
#include "api/submit.h"
#include "base/alloc.h"
#include "base/names.h"
#include "comm/algorithms.h"
#include "comm/lock.h"
#include "comm/plan_cache.h"
#include "comm/states.h"
#include "device/cuda/pointer.h"
#include "lifetime/async.h"
#include "lifetime/leave.h"
#include "lifetime/load.h"
#include "offload/gpu.h"
#include "run/progress.h"
#include "topo/fabric.h"
#include "watch/dump.h"

coll_status_t api_record_result(coll_comm_t comm, coll_status_t status) {
  return status == COLL_OK ? status : comm_record_error(comm, status);
}

coll_status_t api_check_outside(coll_comm_t comm, const char *function) {
  COLL_TRY(comm_check(comm));
  if (!run_progress_is_inside(comm)) return COLL_OK;
  return api_record_result(comm, base_fail(COLL_ERROR_INVALID, "%s on rank %d of %d: %s", function,
                                           comm->rank, comm->size, COMM_PROGRESS_INSIDE));
}

coll_status_t coll_comm_rank(coll_comm_t comm, int *rank) {
  if (!comm_has_rank(comm)) return comm_fail_not_live(comm);
  if (rank == NULL) return base_fail(COLL_ERROR_INVALID, "coll_comm_rank: rank is NULL");
  *rank = comm->rank;
  return COLL_OK;
}

coll_status_t coll_comm_size(coll_comm_t comm, int *size) {
  if (!comm_has_rank(comm)) return comm_fail_not_live(comm);
  if (size == NULL) return base_fail(COLL_ERROR_INVALID, "coll_comm_size: size is NULL");
  *size = comm->size;
  return COLL_OK;
}

coll_status_t coll_comm_route(coll_comm_t comm, int peer, const char **route) {
  COLL_TRY(comm_check(comm));
  if (route == NULL) return base_fail(COLL_ERROR_INVALID, "coll_comm_route: route is NULL");
  if (peer < 0 || peer >= comm->size) {
    return base_fail(COLL_ERROR_INVALID, "coll_comm_route: rank %d: give 0 to %d", peer,
                     comm->size - 1);
  }
  const transport_t *t = peer == comm->rank ? comm->self : comm->local;
  *route = t->ops->route(t, peer);
  return COLL_OK;
}

coll_status_t coll_comm_error(coll_comm_t comm) {
  if (comm == NULL) return comm_check(comm);
  if (!comm_is_live(comm)) COLL_TRY(comm_handle_state(comm));
  return api_record_result(comm, comm_poll_failure(comm));
}

coll_status_t coll_comm_failed_rank(coll_comm_t comm, int *rank) {
  COLL_TRY(comm_check(comm));
  if (rank == NULL) return base_fail(COLL_ERROR_INVALID, "coll_comm_failed_rank: rank is NULL");
  *rank = comm_failed_rank(comm);
  return COLL_OK;
}

coll_status_t coll_comm_abort(coll_comm_t comm) {
  if (comm == NULL) return comm_check(comm);
  return lifetime_async_abort(comm, "it called coll_comm_abort");
}

coll_status_t coll_comm_dump(coll_comm_t comm, const char *path) {
  COLL_TRY(comm_check(comm));
  if (path == NULL) {
    return api_record_result(comm, base_fail(COLL_ERROR_INVALID, "coll_comm_dump: path is NULL"));
  }
  return api_record_result(comm, watch_dump(comm, path));
}

coll_status_t coll_comm_set_progress(coll_comm_t comm, void (*callback)(void *context),
                                     void *context) {
  COLL_TRY(comm_check(comm));
  run_progress_set(comm, callback, context);
  return COLL_OK;
}

coll_status_t coll_comm_gpu_query(coll_comm_t comm) {
  COLL_TRY(api_check_outside(comm, "coll_comm_gpu_query"));
  coll_status_t status = offload_query(comm);
  return status == COLL_IN_PROGRESS ? status : api_record_result(comm, status);
}

coll_status_t coll_comm_finalize(coll_comm_t comm) {
  COLL_TRY(api_check_outside(comm, "coll_comm_finalize"));
  if (api_group_is_open()) {
    return api_record_result(
        comm, base_fail(COLL_ERROR_INVALID,
                        "coll_comm_finalize inside a group, whose calls may still need the "
                        "communicator: end the group first"));
  }
  return lifetime_async_finalize(comm); /* another thread may have destroyed the communicator */
}

/* Frees a communicator that is finalized, or a handle that could not be made. */
static coll_status_t destroy_ended(coll_comm_t comm) {
  coll_status_t status = lifetime_async_unreturned(comm);
  comm = lifetime_async_detach(comm);
  if (comm != NULL) lifetime_destroy(comm);
  return status;
}

coll_status_t coll_comm_destroy(coll_comm_t comm) {
  if (comm == NULL || comm_is_inherited(comm)) return COLL_OK;
  if (api_group_is_open()) {
    return base_fail(COLL_ERROR_INVALID,
                     "coll_comm_destroy inside a group, whose calls may still need the "
                     "communicator: end the group first");
  }
  if (!comm_is_live(comm)) {
    COLL_TRY(lifetime_async_finish(comm, "it called coll_comm_destroy"));
    if (!comm_is_live(comm)) return destroy_ended(comm);
  }
  COLL_TRY(api_check_outside(comm, "coll_comm_destroy"));
  comm_lock_take(comm, comm_lock_ticket(comm));
  coll_status_t status = lifetime_leave(comm);
  lifetime_destroy(lifetime_async_detach(comm));
  return status;
}

coll_status_t coll_comm_algo_set(coll_comm_t comm, coll_collective_t collective, const char *name) {
  const algo_t *algo = NULL;
  COLL_TRY(api_check_outside(comm, "coll_comm_algo_set"));
  if (base_collective_name(collective) == NULL) {
    return api_record_result(
        comm, base_fail(COLL_ERROR_INVALID, "no such collective: %d", (int)collective));
  }
  if (name != NULL) COLL_TRY(api_record_result(comm, algo_find(collective, name, &algo)));
  if (algo != NULL) {
    COLL_TRY(api_record_result(
        comm, comm_algorithms_check(collective, algo->name, comm->size, comm->reproducible)));
  }
  comm_lock_take(comm, comm_lock_ticket(comm));
  comm_force(comm, collective, algo != NULL ? algo->name : NULL);
  comm_lock_release(comm);
  return COLL_OK;
}

coll_status_t coll_comm_plan_load(coll_comm_t comm, const char *path, coll_plan_info_t *info) {
  COLL_TRY(api_check_outside(comm, "coll_comm_plan_load"));
  if (path == NULL || api_group_is_open()) {
    return api_record_result(comm,
                             base_fail(COLL_ERROR_INVALID, "coll_comm_plan_load: %s",
                                       path == NULL ? "path is NULL" : "called inside a group"));
  }
  if (info == NULL) return api_record_result(comm, lifetime_load(comm, path, NULL));
  coll_plan_info_t made;
  COLL_TRY(
      api_record_result(comm, api_out_check(info, "coll_comm_plan_load", "COLL_PLAN_INFO_INIT")));
  COLL_TRY(api_record_result(comm, lifetime_load(comm, path, &made)));
  api_out_fill(info, &made, sizeof made);
  return COLL_OK;
}

const char *coll_comm_algo_used(coll_comm_t comm, coll_collective_t collective) {
  if (base_collective_name(collective) == NULL) return "";
  if (api_check_outside(comm, "coll_comm_algo_used") != COLL_OK) return "";
  comm_lock_take(comm, comm_lock_ticket(comm));
  const algo_t *used = offload_algo_used(comm, collective);
  comm_lock_release(comm);
  return used != NULL ? used->name : "";
}

coll_status_t coll_comm_bytes_sent(coll_comm_t comm, uint64_t *bytes) {
  COLL_TRY(comm_check(comm));
  if (bytes == NULL) {
    return api_record_result(comm,
                             base_fail(COLL_ERROR_INVALID, "coll_comm_bytes_sent: bytes is NULL"));
  }
  /* relaxed: a count that orders nothing */
  *bytes = atomic_load_explicit(&comm->world.traffic, memory_order_relaxed);
  return COLL_OK;
}

static const char *ruled_out(tune_verdict_t verdict) {
  switch (verdict) {
    case TUNE_TOO_FAR: return "reaches into users' memory that is not mapped";
    case TUNE_OTHER_ORDER: return "reduces in an order that is not reproducible";
    case TUNE_UNSUITED: return "gains only between several hosts";
    case TUNE_NOT_MAPPED: return "reaches into memory of other hosts";
    case TUNE_NO_ROOM: return "has no room in slots and scratch";
    default: return NULL;
  }
}

/* The link that is busy for longest. */
static void describe_link(const struct coll_comm *comm, const tune_bottleneck_t *bottleneck,
                          coll_estimate_t *estimate) {
  if (bottleneck->wire < 0) return;
  const topo_fabric_t *fabric = comm->layout->fabric;
  snprintf(estimate->link, sizeof estimate->link, "%s to %s",
           topo_fabric_wire_from(fabric, bottleneck->wire)->name,
           topo_fabric_wire_to(fabric, bottleneck->wire)->name);
  estimate->link_bytes = (double)bottleneck->bytes;
  estimate->link_busy_us = (double)bottleneck->busy_ps * 1e-6;
}

/* "12 minutes ago" */
static void describe_age(int64_t age_s, char *text, size_t bytes) {
  int64_t minutes = age_s / 60;
  if (age_s < 60) {
    snprintf(text, bytes, "now");
  } else {
    snprintf(text, bytes, "%d minute%s ago", (int)minutes, minutes == 1 ? "" : "s");
  }
}

/* Of a communicator whose ranks have measured it. */
static void describe_network(const struct coll_comm *comm, coll_estimate_t *estimate) {
  const comm_network_cost_t *network = &comm->network;
  int hosts = comm->layout != NULL && comm->layout->levels > 0 ? comm->layout->level[0].groups : 1;
  char age[32];
  if (network->hop_ps == 0 || hosts == 1) return;
  describe_age((int64_t)time(NULL) - network->measured_s, age, sizeof age);
  snprintf(estimate->network, sizeof estimate->network,
           "measured %.1f us a hop, %.2g GB/s between %d hosts, %s", (double)network->hop_ps * 1e-6,
           1024e3 / (double)network->both_ways_ps, hosts, age);
}

_Static_assert(COLL_ESTIMATE_TERMS == TUNE_TERM_COUNT, "coll.h has room for every term");

coll_status_t coll_comm_estimate(coll_comm_t comm, coll_collective_t collective, size_t count,
                                 coll_dtype_t dtype, int mapped, int index,
                                 coll_estimate_t *estimate) {
  size_t element_bytes = base_dtype_bytes(dtype), bytes = 0;
  tune_estimate_t found;
  bool chosen, fits = base_size_multiply(count, element_bytes, &bytes);
  COLL_TRY(api_check_outside(comm, "coll_comm_estimate"));
  if (base_collective_name(collective) == NULL || element_bytes == 0 || estimate == NULL ||
      algo_at(collective, index) == NULL || !fits) {
    return api_record_result(comm,
                             base_fail(COLL_ERROR_INVALID, "coll_comm_estimate: %s",
                                       estimate == NULL     ? "estimate is NULL"
                                       : element_bytes == 0 ? "no such dtype"
                                       : !fits ? "so many elements are more than memory can hold"
                                               : "no such collective or algorithm"));
  }
  COLL_TRY(
      api_record_result(comm, api_out_check(estimate, "coll_comm_estimate", "COLL_ESTIMATE_INIT")));
  comm_lock_take(comm, comm_lock_ticket(comm));
  plan_reach_t unmapped = comm->world.gets ? PLAN_REACH_READ : PLAN_REACH_SCRATCH;
  coll_status_t status = comm_estimate(comm, collective, bytes, dtype,
                                       mapped ? PLAN_REACH_USER : unmapped, index, &found, &chosen);
  comm_lock_release(comm);
  if (status != COLL_OK) return api_record_result(comm, status);
  coll_estimate_t made = {.algo = algo_at(collective, index)->name,
                          .ruled_out = ruled_out(found.verdict),
                          .chosen = chosen,
                          .time_us = (double)found.total_ps * 1e-6};
  for (int i = 0; i < TUNE_TERM_COUNT; i++) made.term_us[i] = (double)found.term_ps[i] * 1e-6;
  describe_link(comm, &found.bottleneck, &made);
  describe_network(comm, &made);
  api_out_fill(estimate, &made, sizeof made);
  return COLL_OK;
}

coll_status_t coll_op_create_premul_sum(const void *scalar, coll_dtype_t dtype,
                                        coll_scalar_residence_t residence, coll_comm_t comm,
                                        coll_op_t *op) {
  COLL_TRY(comm_check(comm));
  size_t bytes = base_dtype_bytes(dtype);
  bool is_late = residence == COLL_SCALAR_DEVICE, is_known = (unsigned)residence <= 1;
  if (scalar == NULL || op == NULL || bytes == 0 || !is_known) {
    return api_record_result(comm, base_fail(COLL_ERROR_INVALID, "coll_op_create_premul_sum: %s",
                                             bytes == 0       ? "no such dtype"
                                             : scalar == NULL ? "scalar is NULL"
                                             : !is_known      ? "no such residence of the scalar"
                                                              : "op is NULL"));
  }
  if (cuda_pointer_is_device(scalar)) {
    return api_record_result(
        comm, base_fail(COLL_ERROR_UNSUPPORTED,
                        "coll_op_create_premul_sum: the scalar is in memory of a GPU, which calls "
                        "cannot read yet: put it into host memory"));
  }
  pthread_mutex_lock(&comm->lock);
  coll_status_t status =
      base_grow((void **)&comm->premuls.list, &comm->premuls.capacity, comm->premuls.count + 1,
                sizeof *comm->premuls.list, "premul-sums");
  if (status == COLL_OK) {
    comm_premul_t *made = &comm->premuls.list[comm->premuls.count++];
    *made = (comm_premul_t){.op = (coll_op_t)(COLL_OP_CREATED_MIN + comm->premuls.made++),
                            .dtype = dtype};
    made->scalar.address = is_late ? scalar : NULL;
    if (!is_late) memcpy(&made->scalar.value, scalar, bytes);
    *op = made->op;
  }
  pthread_mutex_unlock(&comm->lock);
  return status;
}

coll_status_t coll_op_destroy(coll_op_t op, coll_comm_t comm) {
  bool found = false;
  COLL_TRY(comm_check(comm));
  pthread_mutex_lock(&comm->lock);
  for (size_t i = 0; i < comm->premuls.count && !found; i++) {
    found = comm->premuls.list[i].op == op;
    if (found) comm->premuls.list[i] = comm->premuls.list[--comm->premuls.count];
  }
  pthread_mutex_unlock(&comm->lock);
  if (found) return COLL_OK;
  return api_record_result(
      comm, base_fail(COLL_ERROR_INVALID,
                      "coll_op_destroy: op %d is no premul-sum of this communicator", (int)op));
}
