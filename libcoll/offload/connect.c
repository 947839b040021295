/*
 * The ranks exchange records by an allgather, pass each other descriptors of their arenas, map
 * them, and tell each other whether they could by a second allgather, so that all succeed or none.
 * If a rank cannot map the memory of another, all make proxies instead, tell each other whether
 * they could, connect these, and tell each other again.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "offload/attempt.h"
#include "run/batch.h"

#define POLL_NS 50000u

/* When ranks tell each other how far they are. */
typedef enum phase {
  PHASE_ANNOUNCE, /* what each has made, and asks for */
  PHASE_CONNECT,  /* whether each could connect */
  PHASE_STAGE     /* the same of those that have a proxy in place of an end */
} phase_t;

/* ---- all ranks of this thread ---------------------------------------------------------------*/

static bool takes_part(const attempt_t *attempt, phase_t phase) {
  return phase == PHASE_ANNOUNCE || attempt->is_staged == (phase == PHASE_STAGE);
}

static run_call_t make_gather(attempt_t *attempt, phase_t phase) {
  bool announces = phase == PHASE_ANNOUNCE;
  const comm_traits_t traits = {
      .collective = COLL_ALLGATHER, .dtype = COLL_UINT8, .reach = PLAN_REACH_SCRATCH};
  size_t bytes = announces ? sizeof attempt->own : sizeof attempt->own.report;
  return (run_call_t){
      .kind = RUN_COLLECTIVE,
      .comm = attempt->member->comm,
      .shape = comm_shape_make(traits, bytes),
      .send = announces ? (const void *)&attempt->own : (const void *)&attempt->own.report,
      .recv = announces ? (void *)attempt->all : (void *)attempt->reports,
      .part_of = FLIGHT_GPU_CONNECT};
}

static void judge(attempt_t *attempt, phase_t phase) {
  if (phase != PHASE_ANNOUNCE) {
    attempt_judge(attempt, attempt->reports, sizeof attempt->reports[0]);
    return;
  }
  attempt_judge(attempt, &attempt->all[0].report, sizeof attempt->all[0]);
  attempt_compare(attempt);
}

static coll_status_t run_all(const run_call_t calls[], size_t count) {
  run_batch_t batch;
  COLL_TRY(run_batch_create(calls, count, &batch));
  run_batch_order(&batch);
  return run_batch_run(&batch, false);
}

/* An allgather on each communicator, whose results all ranks judge alike. */
static coll_status_t gather(attempt_t attempts[], size_t count, phase_t phase) {
  run_call_t *calls;
  size_t used = 0;
  COLL_TRY(base_alloc(count, sizeof *calls, "calls", (void **)&calls));
  for (size_t i = 0; i < count; i++) {
    if (takes_part(&attempts[i], phase)) calls[used++] = make_gather(&attempts[i], phase);
  }
  coll_status_t status = used > 0 ? run_all(calls, used) : COLL_OK;
  free(calls);
  for (size_t i = 0; i < count && status == COLL_OK; i++) {
    if (takes_part(&attempts[i], phase)) judge(&attempts[i], phase);
  }
  return status;
}

/* All ranks of this thread begin before one waits. */
static coll_status_t connect_ranks(attempt_t attempts[], size_t count, phase_t phase) {
  for (size_t i = 0; i < count; i++) {
    if (takes_part(&attempts[i], phase)) attempt_begin(&attempts[i]);
  }
  for (size_t i = 0; i < count; i++) {
    if (takes_part(&attempts[i], phase)) attempt_end(&attempts[i]);
  }
  return gather(attempts, count, phase);
}

/* Of communicators whose GPUs cannot map each other's memory. */
static coll_status_t stage(attempt_t attempts[], size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (attempts[i].is_staged) attempt_replace(&attempts[i]);
  }
  COLL_TRY(gather(attempts, count, PHASE_STAGE));
  return connect_ranks(attempts, count, PHASE_STAGE);
}

static coll_status_t exchange(attempt_t attempts[], size_t count) {
  for (size_t i = 0; i < count; i++) COLL_TRY(attempt_init(&attempts[i]));
  for (size_t i = 0; i < count; i++) attempt_announce(&attempts[i]);
  COLL_TRY(gather(attempts, count, PHASE_ANNOUNCE));
  COLL_TRY(connect_ranks(attempts, count, PHASE_CONNECT));
  return stage(attempts, count);
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

static const char *why_staged(const attempt_t *attempt) {
  if (attempt->is_staged) {
    return "not all of these GPUs can access each other's memory, so each byte goes through the "
           "host's, which is slower than a link between GPUs";
  }
  if (!offload_proxy_serves(attempt->member->comm)) return "COLL_CUDA_ENGINE asks for it";
  /* Network devices could read and write memory of the GPU itself, through a dma-buf of it
   * (cuMemGetHandleForAddressRange), in place of pinned memory. */
  return "they share no memory; GPUDirect RDMA is not supported yet";
}

static void note_engine(const attempt_t *attempt) {
  const struct coll_comm *comm = attempt->member->comm;
  offload_t *gpu = attempt->member->gpu;
  const char *reason;
  bool reports = comm->access.reports && comm->rank == 0;
  if (gpu->proxy != NULL) {
    if (reports) offload_proxy_report(gpu->proxy, why_staged(attempt));
    return;
  }
  agree_on_offer(attempt);
  bool copies = cuda_end_engine(gpu->end, &reason) == CUDA_ENGINE_COPY;
  gpu->cores = cuda_end_parallel(gpu->end);
  gpu->machine = copies ? &tune_machine_copy : &tune_machine_gpu;
  if (gpu->cores < comm->size) gpu->machine = &tune_machine_turns;
  if (!reports) return;
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
    note_engine(attempt);
    offload_watch_add(gpu);
    /* release: with all that was written to it */
    atomic_store_explicit(&gpu->state, OFFLOAD_CONNECTED, memory_order_release);
  }
  attempt_free(attempt);
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
