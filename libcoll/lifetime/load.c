/*
 * Each rank reads its file and keeps the plan twice, for calls in place and for others. An
 * allgather tells every rank whether all have read the same bytes, and for which calls rank 0 has
 * proved the plan.
 */
#include "lifetime/load.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/digest.h"
#include "base/names.h"
#include "comm/lock.h"
#include "comm/plan_cache.h"
#include "plan/input_copies.h"
#include "plan/text.h"
#include "run/allgather.h"
#include "tune/tune.h"
#include "verify/verify.h"

/* What a rank tells the others. */
typedef struct reading {
  uint64_t digest; /* of the file's bytes */
  uint8_t failed;
  uint8_t proved[COMM_VERSION_COUNT]; /* by rank 0 */
} reading_t;

/* ---- reading --------------------------------------------------------------------------------*/

static uint64_t digest_of(FILE *file) {
  uint64_t digest = BASE_DIGEST_START;
  for (int byte; (byte = getc(file)) != EOF;) digest = base_digest_fold(digest, (uint64_t)byte);
  rewind(file);
  return digest;
}

static coll_status_t check_plan(const struct coll_comm *comm, const char *path,
                                const plan_t *plan) {
  const char *verb = base_collective_name(plan->shape.collective);
  if (plan->shape.size != comm->size) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s: the plan is for %d ranks, but the communicator has %d: load one for as "
                     "many ranks",
                     path, plan->shape.size, comm->size);
  }
  if (base_collective_counts_by_pair(plan->shape.collective) ||
      base_collective_counts_by_rank(plan->shape.collective) ||
      plan->shape.collective == COLL_SENDRECV) {
    return base_fail(COLL_ERROR_INVALID, "%s: plans of %s cannot be loaded", path, verb);
  }
  if (comm->reproducible && base_collective_reduces(plan->shape.collective) &&
      plan->order < PLAN_ORDER_CANONICAL) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s: the plan reduces in %s, and the communicator is reproducible: make it "
                     "without COLL_REPRODUCIBLE",
                     path,
                     plan->order == PLAN_ORDER_ANY ? "orders that differ between ranks (order any)"
                                                   : "an order of its own");
  }
  return COLL_OK;
}

static coll_status_t read_plan(const struct coll_comm *comm, FILE *file, const char *path,
                               plan_t **plan) {
  plan_t *made;
  rewind(file);
  COLL_TRY(plan_text_read(file, path, &made));
  made->shape.layout = comm->layout;
  coll_status_t status = check_plan(comm, path, made);
  if (status == COLL_OK) status = plan_check_program(made, comm->rank);
  if (status != COLL_OK) {
    plan_free(made);
    return status;
  }
  *plan = made;
  return COLL_OK;
}

static void set_in_place(plan_t *plan, bool in_place) {
  for (int rank = 0; rank < plan->shape.size; rank++) plan->programs[rank].in_place = in_place;
}

static void find_fits(const struct coll_comm *comm, comm_plan_t *cached) {
  for (size_t bytes = 1; bytes <= 8; bytes *= 2) {
    cached->fits[bytes] = engine_run_fits(&comm->world, cached->plan, bytes);
  }
}

static bool is_in_place(const plan_t *plan) {
  bool found = false;
  for (int rank = 0; rank < plan->shape.size; rank++) found |= plan->programs[rank].in_place;
  return found;
}

/* Makes the version of a plan that was just read. *possible: there is one. */
static coll_status_t make_version(plan_t *plan, comm_version_t version, bool *possible) {
  *possible = true;
  if (version == COMM_COPYING) return plan_add_input_copies(plan, possible);
  if (version == COMM_IN_PLACE && is_in_place(plan)) plan_rename_input(plan);
  set_in_place(plan, version == COMM_IN_PLACE);
  return COLL_OK;
}

/* Peers that read each other's buffers must know them by the same names: as OUTPUT, if the plan is
 * one for calls in place. */
static bool is_superfluous(const plan_t *plan, comm_version_t version, bool from_in_place) {
  if (version == COMM_COPYING) return !from_in_place;
  return version == COMM_OUT_OF_PLACE && from_in_place && plan_reach_exchanges(plan->reach);
}

/* *from_in_place: whether the file's plan is one for calls in place. */
static coll_status_t read_plans(const struct coll_comm *comm, FILE *file, const char *path,
                                comm_loaded_t *loaded, bool *from_in_place) {
  for (comm_version_t version = 0; version < COMM_VERSION_COUNT; version++) {
    comm_plan_t *cached = &loaded->plans[version];
    bool possible;
    COLL_TRY(read_plan(comm, file, path, &cached->plan));
    *from_in_place = is_in_place(cached->plan);
    COLL_TRY(make_version(cached->plan, version, &possible));
    if (!possible || is_superfluous(cached->plan, version, *from_in_place)) {
      plan_free(cached->plan);
      cached->plan = NULL;
      continue;
    }
    cached->algo = &loaded->algo;
    cached->root = loaded->root = cached->plan->shape.root;
    cached->in_place = version == COMM_IN_PLACE;
    find_fits(comm, cached);
  }
  const comm_plan_t *any = &loaded->plans[COMM_IN_PLACE];
  const plan_t *plan = any->plan;
  snprintf(loaded->name, sizeof loaded->name, "%s", plan->algorithm);
  loaded->algo = (algo_t){.name = loaded->name, .collective = plan->shape.collective};
  loaded->any_order = plan->order == PLAN_ORDER_ANY;
  if (any->fits[1]) return COLL_OK;
  return base_fail(COLL_ERROR_UNSUPPORTED,
                   "%s: messages of %d chunks or %d chunks of scratch do not fit the transport's "
                   "slots of %zu bytes and scratch of %zu bytes",
                   path, plan->message_chunks, plan->scratch_chunks, comm->world.room.slot_bytes,
                   comm->world.room.scratch_bytes);
}

static coll_status_t read_file(const struct coll_comm *comm, const char *path,
                               comm_loaded_t *loaded, bool *from_in_place, uint64_t *digest) {
  FILE *file = fopen(path, "re");
  if (file == NULL) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot open the plan %s", path);
  *digest = digest_of(file);
  coll_status_t status = read_plans(comm, file, path, loaded, from_in_place);
  fclose(file);
  return status;
}

/* ---- proving --------------------------------------------------------------------------------*/

/* Fails if the plan is wrong for calls of the kind that the file is made for. */
static coll_status_t prove(const char *path, const comm_loaded_t *loaded, bool from_in_place,
                           uint8_t proved[COMM_VERSION_COUNT]) {
  comm_version_t made_for = from_in_place ? COMM_IN_PLACE : COMM_OUT_OF_PLACE;
  for (comm_version_t version = 0; version < COMM_VERSION_COUNT; version++) {
    verify_report_t report;
    if (loaded->plans[version].plan == NULL) continue;
    COLL_TRY(verify_plan(loaded->plans[version].plan, &report));
    proved[version] = report.verdict == VERIFY_PROVED;
    if (!proved[version] && version == made_for) {
      return base_fail(COLL_ERROR_INVALID, "%s: the plan is wrong (%s): %s", path,
                       verify_verdict_name(report.verdict), report.text);
    }
  }
  return COLL_OK;
}

/* ---- agreeing -------------------------------------------------------------------------------*/

static coll_status_t compare(const struct coll_comm *comm, const char *path,
                             const reading_t readings[]) {
  for (int rank = 0; rank < comm->size; rank++) {
    if (readings[rank].failed) {
      return base_fail(COLL_ERROR_INVALID,
                       "rank %d: rank %d could not load its plan (its own error says why), so no "
                       "rank uses %s",
                       comm->rank, rank, path);
    }
    if (readings[rank].digest != readings[0].digest) {
      return base_fail(COLL_ERROR_MISMATCH,
                       "rank %d: ranks 0 and %d have loaded different plans, so no rank uses %s: "
                       "all ranks must load the same file",
                       comm->rank, rank, path);
    }
  }
  return COLL_OK;
}

/* Tells all ranks what this one has read; *agreed: what rank 0 has. */
static coll_status_t agree(struct coll_comm *comm, const char *path, const reading_t *own,
                           reading_t readings[], reading_t *agreed) {
  COLL_TRY(run_allgather(comm, FLIGHT_PLAN_LOAD, own, sizeof *own, readings));
  if (!own->failed) COLL_TRY(compare(comm, path, readings));
  *agreed = readings[0];
  return COLL_OK;
}

_Static_assert(PLAN_NAME_BYTES <= COLL_PLAN_NAME_BYTES, "coll.h has room for every name");

static void describe(const comm_loaded_t *loaded, coll_plan_info_t *info) {
  *info = (coll_plan_info_t){.collective = loaded->algo.collective,
                             .root = loaded->root,
                             .out_of_place = comm_loaded_for(loaded, false)->plan != NULL,
                             .in_place = comm_loaded_for(loaded, true)->plan != NULL,
                             .any_order = loaded->any_order};
  snprintf(info->name, sizeof info->name, "%s", loaded->algo.name);
}

static void drop_unproved(comm_loaded_t *loaded, const uint8_t proved[COMM_VERSION_COUNT]) {
  for (int i = 0; i < COMM_VERSION_COUNT; i++) {
    if (proved[i]) continue;
    plan_free(loaded->plans[i].plan);
    loaded->plans[i].plan = NULL;
  }
}

static void use(struct coll_comm *comm, comm_loaded_t *loaded) {
  if (loaded->any_order && comm->access.reports && comm->rank == 0) {
    fprintf(stderr,
            "libcoll: the loaded plan %s of %s reduces in any order: ranks may hold different "
            "bits\n",
            loaded->name, base_collective_name(loaded->algo.collective));
  }
  comm_lock_take(comm, comm_lock_ticket(comm));
  loaded->next = comm->plans.all_loaded;
  comm->plans.all_loaded = loaded;
  comm_force(comm, loaded->algo.collective, NULL);
  comm->plans.loaded[loaded->algo.collective] = loaded;
  comm_lock_release(comm);
}

static coll_status_t read_and_agree(struct coll_comm *comm, const char *path, comm_loaded_t *loaded,
                                    reading_t readings[], reading_t *agreed) {
  char text[COMM_ERROR_BYTES];
  reading_t own = {0};
  bool from_in_place = false;
  coll_status_t own_status = read_file(comm, path, loaded, &from_in_place, &own.digest);
  if (own_status == COLL_OK && comm->rank == 0) {
    own_status = prove(path, loaded, from_in_place, own.proved);
  }
  own.failed = own_status != COLL_OK;
  snprintf(text, sizeof text, "%s", base_last_error());
  COLL_TRY(agree(comm, path, &own, readings, agreed));
  return own.failed ? base_fail(own_status, "%s", text) : COLL_OK;
}

coll_status_t lifetime_load(struct coll_comm *comm, const char *path, coll_plan_info_t *info) {
  comm_loaded_t *loaded = NULL;
  reading_t *readings = NULL, agreed;
  coll_status_t status = base_alloc(1, sizeof *loaded, "a loaded plan", (void **)&loaded);
  if (status == COLL_OK) {
    status = base_alloc((size_t)comm->size, sizeof *readings, "digests", (void **)&readings);
  }
  if (status == COLL_OK) {
    status = read_and_agree(comm, path, loaded, readings, &agreed);
  } else {
    comm_abort(comm, comm->rank, base_last_error()); /* the others wait for this rank */
  }
  free(readings);
  if (status == COLL_OK) {
    drop_unproved(loaded, agreed.proved);
    if (info != NULL) describe(loaded, info);
    use(comm, loaded);
  } else if (loaded != NULL) {
    comm_loaded_discard(loaded);
  }
  return status;
}
