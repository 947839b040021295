/*
 * The ranks exchange records by an allgather, pass each other descriptors of their arenas, map
 * them, and tell each other whether they could by a second allgather, so that all succeed or none.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "bootstrap/process.h"
#include "comm/lock.h"
#include "comm/settings.h"
#include "offload/descriptors.h"
#include "offload/state.h"
#include "run/batch.h"

#define POLL_NS 50000u
#define DESCRIPTOR_TAG 0 /* of the arenas; other steps have others (gpu/descriptors.h) */

/* What a rank tells the others of its part; the text only if it failed. */
typedef struct report {
  int32_t status; /* a coll_status_t */
  cuda_offer_t offer;
  char text[COMM_ERROR_BYTES - 64];
} report_t;

typedef struct announcement {
  cuda_record_t record;
  report_t report;
} announcement_t;

/* A member while it is being connected. */
typedef struct attempt {
  offload_member_t *member;
  announcement_t own;
  announcement_t *all; /* [size] */
  report_t *reports;   /* [size] */
  bool *remote;        /* [size]: of another process */
  int descriptor;      /* of this rank's arena; -1: none */
  bool has_remote;
  report_t verdict;
} attempt_t;

static void note(report_t *report, coll_status_t status) {
  if (status == COLL_OK || report->status != COLL_OK) return;
  report->status = (int32_t)status;
  snprintf(report->text, sizeof report->text, "%s", base_last_error());
}

/* ---- the steps of one rank ------------------------------------------------------------------*/

/* A launch of the copy engines that blocks finds out itself if it waits in vain. */
static void check_while_launching(void *context) {
  offload_take_lock_back(context);
  offload_check(context);
  offload_lend_lock(context);
}

static coll_status_t create_end(offload_t *gpu, const struct coll_comm *comm) {
  cuda_end_config_t config = {.rank = comm->rank,
                              .size = comm->size,
                              .device = gpu->device,
                              .process = bootstrap_process_id(),
                              .waits = check_while_launching,
                              .context = gpu};
  cuda_capture_mode_t mode;
  COLL_TRY(comm_engine_setting(&config.engine));
  COLL_TRY(comm_cuda_blocks_setting(&config.blocks));
  COLL_TRY(comm_cuda_protocols_setting(&config.protocols));
  COLL_TRY(cuda_driver_load(&gpu->driver));
  COLL_TRY(offload_proxy_serves(comm) ? offload_proxy_create(gpu)
                                      : cuda_end_create(gpu->driver, &config, &gpu->end));
  COLL_TRY(cuda_context_enter_relaxed(gpu->driver, gpu->device, &mode));
  cuda_result_t result =
      gpu->driver->cuStreamCreateWithPriority(&gpu->stream, CUDA_STREAM_NON_BLOCKING, 0);
  cuda_context_leave_relaxed(gpu->driver, gpu->device, mode);
  gpu->has_stream = result == CUDA_RESULT_OK;
  return cuda_driver_check(gpu->driver, result, "cuStreamCreateWithPriority", gpu->device);
}

/* Makes the descriptor too, so that nobody waits for one that cannot be made. */
static void announce(attempt_t *attempt) {
  offload_t *gpu = attempt->member->gpu;
  note(&attempt->own.report, create_end(gpu, attempt->member->comm));
  if (attempt->own.report.status != COLL_OK || gpu->proxy != NULL) return;
  cuda_end_describe(gpu->end, &attempt->own.record);
  if (attempt->member->comm->size > 1) {
    note(&attempt->own.report, cuda_end_export(gpu->end, &attempt->descriptor));
  }
}

/* The first failure that any rank reports, as this rank tells it. */
static void find_failure(attempt_t *attempt, const report_t *first, size_t stride) {
  const struct coll_comm *comm = attempt->member->comm;
  for (int rank = 0; rank < comm->size && attempt->verdict.status == COLL_OK; rank++) {
    const report_t *report =
        (const report_t *)(const void *)((const char *)first + (size_t)rank * stride);
    if (report->status == COLL_OK) continue;
    attempt->verdict.status = report->status;
    if (rank == comm->rank) {
      snprintf(attempt->verdict.text, sizeof attempt->verdict.text, "%s", report->text);
    } else {
      snprintf(attempt->verdict.text, sizeof attempt->verdict.text,
               "rank %d cannot use its GPU for this communicator: %.300s", rank, report->text);
    }
  }
}

/* Sets which ranks are of other processes, and how many. */
static void find_remote(attempt_t *attempt) {
  const struct coll_comm *comm = attempt->member->comm;
  for (int rank = 0; rank < comm->size; rank++) {
    if (attempt->all[rank].record.process == attempt->own.record.process) continue;
    attempt->remote[rank] = true;
    attempt->has_remote = true;
  }
}

static coll_status_t pass_descriptor(attempt_t *attempt) {
  struct coll_comm *comm = attempt->member->comm;
  find_remote(attempt);
  if (!attempt->has_remote) return COLL_OK;
  comm_lock_take(comm, comm_lock_ticket(comm));
  coll_status_t status =
      offload_descriptors_pass(comm, attempt->remote, DESCRIPTOR_TAG, attempt->descriptor);
  comm_lock_release(comm);
  return status;
}

static coll_status_t receive_descriptors(const attempt_t *attempt, int descriptors[]) {
  struct coll_comm *comm = attempt->member->comm;
  if (!attempt->has_remote) return COLL_OK;
  comm_lock_take(comm, comm_lock_ticket(comm));
  coll_status_t status =
      offload_descriptors_receive(comm, attempt->remote, DESCRIPTOR_TAG, descriptors);
  comm_lock_release(comm);
  return status;
}

static coll_status_t map_arenas(attempt_t *attempt) {
  size_t size = (size_t)attempt->member->comm->size;
  int *descriptors;
  cuda_record_t *records = NULL;
  COLL_TRY(base_alloc(size, sizeof *descriptors, "descriptors", (void **)&descriptors));
  for (size_t i = 0; i < size; i++) descriptors[i] = -1;
  coll_status_t status = receive_descriptors(attempt, descriptors);
  if (status == COLL_OK) {
    status = base_alloc(size, sizeof *records, "records of GPUs", (void **)&records);
  }
  if (status == COLL_OK) {
    for (size_t i = 0; i < size; i++) records[i] = attempt->all[i].record;
    status = cuda_end_connect(attempt->member->gpu->end, records, descriptors);
  }
  for (size_t i = 0; i < size; i++) {
    if (descriptors[i] >= 0) close(descriptors[i]);
  }
  free(records);
  free(descriptors);
  return status;
}

/* ---- all ranks of this thread ---------------------------------------------------------------*/

/* An allgather on each communicator, of `bytes` from own(attempt) to all(attempt). */
static coll_status_t gather(attempt_t attempts[], size_t count, bool reports) {
  run_call_t *calls;
  run_batch_t batch;
  size_t bytes = reports ? sizeof(report_t) : sizeof(announcement_t);
  COLL_TRY(base_alloc(count, sizeof *calls, "calls", (void **)&calls));
  for (size_t i = 0; i < count; i++) {
    const comm_traits_t traits = {
        .collective = COLL_ALLGATHER, .dtype = COLL_UINT8, .reach = PLAN_REACH_SCRATCH};
    attempt_t *attempt = &attempts[i];
    calls[i] = (run_call_t){
        .kind = RUN_COLLECTIVE,
        .comm = attempt->member->comm,
        .shape = comm_shape_make(traits, bytes),
        .send = reports ? (const void *)&attempt->own.report : (const void *)&attempt->own,
        .recv = reports ? (void *)attempt->reports : (void *)attempt->all,
        .part_of = FLIGHT_GPU_CONNECT};
  }
  coll_status_t status = run_batch_create(calls, count, &batch);
  free(calls);
  if (status != COLL_OK) return status;
  run_batch_order(&batch);
  return run_batch_run(&batch, false);
}

static coll_status_t allocate(attempt_t *attempt) {
  size_t size = (size_t)attempt->member->comm->size;
  COLL_TRY(base_alloc(size, sizeof *attempt->all, "records of GPUs", (void **)&attempt->all));
  COLL_TRY(base_alloc(size, sizeof *attempt->remote, "ranks", (void **)&attempt->remote));
  return base_alloc(size, sizeof *attempt->reports, "reports", (void **)&attempt->reports);
}

/* Descriptors are passed by all before any is waited for, as one thread may hold both ranks. */
static void connect_ranks(attempt_t attempts[], size_t count) {
  for (size_t i = 0; i < count; i++) {
    offload_proxy_t *proxy = attempts[i].member->gpu->proxy;
    if (attempts[i].verdict.status == COLL_OK) {
      note(&attempts[i].own.report,
           proxy != NULL ? offload_proxy_start(proxy) : pass_descriptor(&attempts[i]));
    }
  }
  for (size_t i = 0; i < count; i++) {
    offload_proxy_t *proxy = attempts[i].member->gpu->proxy;
    if (attempts[i].verdict.status == COLL_OK && attempts[i].own.report.status == COLL_OK) {
      note(&attempts[i].own.report,
           proxy != NULL ? offload_proxy_await(proxy) : map_arenas(&attempts[i]));
      if (proxy != NULL) continue;
      attempts[i].own.report.offer = cuda_end_offer(attempts[i].member->gpu->end);
    }
  }
}

static coll_status_t exchange(attempt_t attempts[], size_t count) {
  for (size_t i = 0; i < count; i++) COLL_TRY(allocate(&attempts[i]));
  for (size_t i = 0; i < count; i++) announce(&attempts[i]);
  COLL_TRY(gather(attempts, count, false));
  for (size_t i = 0; i < count; i++) {
    find_failure(&attempts[i], &attempts[i].all[0].report, sizeof(announcement_t));
  }
  connect_ranks(attempts, count);
  COLL_TRY(gather(attempts, count, true));
  for (size_t i = 0; i < count; i++) {
    find_failure(&attempts[i], attempts[i].reports, sizeof(report_t));
  }
  return COLL_OK;
}

/* What all ranks can, as all must launch the same slices and take the same protocol. */
static void agree_on_offer(const attempt_t *attempt) {
  cuda_offer_t agreed = attempt->own.report.offer;
  for (int rank = 0; rank < attempt->member->comm->size; rank++) {
    cuda_offer_t offer = attempt->reports[rank].offer;
    if (offer.blocks < agreed.blocks) agreed.blocks = offer.blocks;
    agreed.lines &= offer.lines;
  }
  cuda_end_agree(attempt->member->gpu->end, agreed);
}

/* With the thread's last error. The blocks of the GPU are for others. */
static void refuse(offload_t *gpu, coll_status_t status) {
  if (gpu->end != NULL) cuda_end_agree(gpu->end, (cuda_offer_t){0});
  gpu->status = status;
  snprintf(gpu->refusal, sizeof gpu->refusal, "%s", base_last_error());
  /* release: with the text */
  atomic_store_explicit(&gpu->state, OFFLOAD_REFUSED, memory_order_release);
}

/* This rank takes no part in the exchange, or no more: the others must not wait for it. */
static void give_up(const offload_member_t *member, coll_status_t status) {
  refuse(member->gpu, status);
  if (comm_is_usable(member->comm))
    comm_abort(member->comm, member->comm->rank, member->gpu->refusal);
}

static void note_engine(const struct coll_comm *comm, offload_t *gpu) {
  const char *reason;
  bool copies = cuda_end_engine(gpu->end, &reason) == CUDA_ENGINE_COPY;
  gpu->cores = cuda_end_parallel(gpu->end);
  gpu->machine = copies ? &tune_machine_copy : &tune_machine_gpu;
  if (gpu->cores < comm->size) gpu->machine = &tune_machine_turns;
  if (!comm->access.reports || comm->rank != 0) return;
  fprintf(stderr, "libcoll: %s out calls on the GPUs of the %d ranks: %s\n",
          copies ? "the copy engines carry" : "the kernel carries", comm->size, reason);
  if (cuda_end_offer(gpu->end).lines != 0) {
    fprintf(stderr, "libcoll: calls of middle size send flagged lines (LL128)\n");
  }
}

/* status: of this rank's part in the exchange. */
static void conclude(attempt_t *attempt, coll_status_t status) {
  struct coll_comm *comm = attempt->member->comm;
  offload_t *gpu = attempt->member->gpu;
  if (status != COLL_OK) {
    give_up(attempt->member, status);
  } else if (attempt->verdict.status != COLL_OK) {
    status = (coll_status_t)attempt->verdict.status;
    refuse(gpu, base_fail(status, "rank %d: %s", comm->rank, attempt->verdict.text));
  } else {
    if (gpu->proxy == NULL) {
      agree_on_offer(attempt);
      note_engine(comm, gpu);
    }
    offload_watch_add(gpu);
    /* release: with all that was written to it */
    atomic_store_explicit(&gpu->state, OFFLOAD_CONNECTED, memory_order_release);
  }
  if (attempt->descriptor >= 0) close(attempt->descriptor);
  free(attempt->all);
  free(attempt->reports);
  free(attempt->remote);
}

static coll_status_t connect_all(offload_member_t members[], size_t count) {
  attempt_t *attempts;
  size_t used = 0;
  COLL_TRY(base_alloc(count, sizeof *attempts, "connections of GPUs", (void **)&attempts));
  for (size_t i = 0; i < count; i++) {
    if (!members[i].connects) continue;
    attempts[used].descriptor = -1;
    attempts[used++].member = &members[i];
  }
  coll_status_t status = used > 0 ? exchange(attempts, used) : COLL_OK;
  for (size_t i = 0; i < used; i++) conclude(&attempts[i], status);
  free(attempts);
  return status;
}

/* ---- one thread per communicator ------------------------------------------------------------*/

/* Makes the state, unless another thread has. */
static coll_status_t claim(offload_member_t *member) {
  offload_t *made = NULL, *found = offload_of(member->comm);
  if (found == NULL) {
    COLL_TRY(base_alloc(1, sizeof *made, "a communicator's GPU", (void **)&made));
    made->comm = member->comm;
    made->device = member->device;
    /* release: with its fields; acquire: with those of another thread's */
    member->connects = atomic_compare_exchange_strong_explicit(
        &member->comm->gpu, &found, made, memory_order_acq_rel, memory_order_acquire);
    if (!member->connects) free(made);
  }
  member->gpu = member->connects ? made : found;
  return COLL_OK;
}

static offload_state_t await(const offload_t *gpu) {
  offload_state_t state;
  /* acquire: with all that the thread that connects has written */
  while ((state = atomic_load_explicit(&gpu->state, memory_order_acquire)) == OFFLOAD_CONNECTING) {
    base_clock_sleep_ns(POLL_NS);
  }
  return state;
}

coll_status_t offload_check_device(struct coll_comm *comm, int device) {
  const offload_t *gpu = offload_of(comm);
  if (gpu->device == device) return COLL_OK;
  return base_fail(
      COLL_ERROR_INVALID,
      "rank %d: this call is on GPU %d, but the communicator is on GPU %d, where it was "
      "created or first used: a rank has one GPU",
      comm->rank, device, gpu->device);
}

/* Claims and connects. On failure, whatever was claimed may be left so. */
static coll_status_t claim_and_connect(offload_member_t members[], size_t count) {
  for (size_t i = 0; i < count; i++) COLL_TRY(claim(&members[i]));
  return connect_all(members, count);
}

static void give_up_all(const offload_member_t members[], size_t count, coll_status_t status) {
  for (size_t i = 0; i < count; i++) {
    const offload_t *gpu = members[i].gpu;
    if (!members[i].connects) continue;
    if (atomic_load_explicit(&gpu->state, memory_order_relaxed) != OFFLOAD_CONNECTING) continue;
    give_up(&members[i], status);
  }
}

coll_status_t offload_connect(offload_member_t members[], size_t count) {
  coll_status_t status = claim_and_connect(members, count);
  if (status != COLL_OK) {
    give_up_all(members, count, status);
    return status;
  }
  for (size_t i = 0; i < count; i++) {
    if (await(members[i].gpu) == OFFLOAD_REFUSED) {
      return base_fail(members[i].gpu->status, "%s", members[i].gpu->refusal);
    }
    COLL_TRY(offload_check_device(members[i].comm, members[i].device));
  }
  return COLL_OK;
}

bool offload_is_connected(struct coll_comm *comm) {
  const offload_t *gpu = offload_of(comm);
  /* acquire: with all that the thread that connects has written */
  return gpu != NULL &&
         atomic_load_explicit(&gpu->state, memory_order_acquire) == OFFLOAD_CONNECTED;
}
