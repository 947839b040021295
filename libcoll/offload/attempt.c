/* The steps of one rank. */
#include "offload/attempt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "bootstrap/process.h"
#include "comm/lock.h"
#include "comm/settings.h"
#include "device/cuda/memory.h"
#include "offload/descriptors.h"

#define DESCRIPTOR_TAG 0 /* of the arenas; other steps have others (gpu/descriptors.h) */

coll_status_t attempt_init(attempt_t *attempt) {
  size_t size = (size_t)attempt->member->comm->size;
  COLL_TRY(base_alloc(size, sizeof *attempt->all, "records of GPUs", (void **)&attempt->all));
  COLL_TRY(
      base_alloc(size, sizeof *attempt->records, "records of GPUs", (void **)&attempt->records));
  COLL_TRY(base_alloc(size, sizeof *attempt->remote, "ranks", (void **)&attempt->remote));
  return base_alloc(size, sizeof *attempt->reports, "reports", (void **)&attempt->reports);
}

static void close_descriptor(attempt_t *attempt) {
  if (attempt->descriptor >= 0) close(attempt->descriptor);
  attempt->descriptor = -1;
}

void attempt_free(attempt_t *attempt) {
  close_descriptor(attempt);
  free(attempt->all);
  free(attempt->records);
  free(attempt->reports);
  free(attempt->remote);
}

/* ---- this rank's part ------------------------------------------------------------------------*/

static void note(attempt_t *attempt, coll_status_t status) {
  attempt_report_t *report = &attempt->own.report;
  if (status == COLL_OK || report->status != COLL_OK) return;
  report->status = (int32_t)status;
  snprintf(report->text, sizeof report->text, "%s", base_last_error());
}

/* Its GPU and others cannot map each other's memory, for the reason of the last error; a failure
 * only if the user asks for what needs that. */
static void note_apart(attempt_t *attempt, coll_status_t status) {
  attempt_report_t *report = &attempt->own.report;
  char text[sizeof report->text];
  snprintf(text, sizeof text, "%s", base_last_error());
  if (attempt->asked == CUDA_ENGINE_AUTO) {
    report->is_apart = true;
    memcpy(report->text, text, sizeof text);
    return;
  }
  note(attempt, base_fail(status,
                          "%.330s; unset COLL_CUDA_ENGINE or set it to staged: the host then "
                          "carries out the calls",
                          text));
}

/* A launch of the copy engines that blocks finds out itself if it waits in vain. */
static void check_while_launching(void *context) {
  offload_take_lock_back(context);
  offload_check(context);
  offload_lend_lock(context);
}

static coll_status_t read_settings(cuda_end_config_t *config) {
  COLL_TRY(comm_engine_setting(&config->engine));
  COLL_TRY(comm_cuda_blocks_setting(&config->blocks));
  return comm_cuda_protocols_setting(&config->protocols);
}

/* In the GPU's context, which the end or the proxy keeps; none if there is neither yet. */
static coll_status_t create_stream(offload_t *gpu) {
  cuda_capture_mode_t mode;
  if (gpu->has_stream || (gpu->end == NULL && gpu->proxy == NULL)) return COLL_OK;
  COLL_TRY(cuda_context_enter_relaxed(gpu->driver, gpu->device, &mode));
  cuda_result_t result =
      gpu->driver->cuStreamCreateWithPriority(&gpu->stream, CUDA_STREAM_NON_BLOCKING, 0);
  cuda_context_leave_relaxed(gpu->driver, gpu->device, mode);
  gpu->has_stream = result == CUDA_RESULT_OK;
  return cuda_driver_check(gpu->driver, result, "cuStreamCreateWithPriority", gpu->device);
}

/* None if the GPU cannot share its memory, unless the user asks for what needs that: then the
 * creation fails. */
static coll_status_t create_end(attempt_t *attempt, const cuda_end_config_t *config) {
  offload_t *gpu = attempt->member->gpu;
  coll_status_t status = COLL_OK;
  if (attempt->asked == CUDA_ENGINE_AUTO) {
    COLL_TRY(cuda_driver_check_device(gpu->driver, gpu->device));
    status = cuda_memory_check_sharing(gpu->driver, gpu->device);
  }
  if (status != COLL_ERROR_UNSUPPORTED) {
    COLL_TRY(status);
    return cuda_end_create(gpu->driver, config, &gpu->end);
  }
  char why[sizeof attempt->own.report.text];
  snprintf(why, sizeof why, "%s", base_last_error());
  note_apart(attempt, base_fail(status, "rank %d: %.400s", config->rank, why));
  return COLL_OK;
}

static coll_status_t create(attempt_t *attempt) {
  offload_t *gpu = attempt->member->gpu;
  const struct coll_comm *comm = attempt->member->comm;
  cuda_end_config_t config = {.rank = comm->rank,
                              .size = comm->size,
                              .device = gpu->device,
                              .process = bootstrap_process_id(),
                              .waits = check_while_launching,
                              .context = gpu};
  COLL_TRY(read_settings(&config));
  attempt->asked = config.engine;
  COLL_TRY(cuda_driver_load(&gpu->driver));
  bool has_hosts = offload_proxy_serves(comm);
  if (!has_hosts) {
    attempt->own.record.engine = (int32_t)config.engine;
    attempt->own.record.protocols = config.protocols;
  }
  COLL_TRY(has_hosts || config.engine == CUDA_ENGINE_STAGED ? offload_proxy_create(gpu)
                                                            : create_end(attempt, &config));
  return create_stream(gpu);
}

void attempt_announce(attempt_t *attempt) {
  offload_t *gpu = attempt->member->gpu;
  note(attempt, create(attempt));
  if (attempt->own.report.status != COLL_OK || gpu->end == NULL) return;
  cuda_end_describe(gpu->end, &attempt->own.record);
  if (attempt->member->comm->size == 1) return;
  coll_status_t status = cuda_end_export(gpu->end, &attempt->descriptor);
  if (status == COLL_OK) return;
  attempt->descriptor = -1;
  if (status == COLL_ERROR_MEMORY) {
    note(attempt, status);
  } else {
    note_apart(attempt, status);
  }
}

static coll_status_t create_proxy(offload_t *gpu) {
  COLL_TRY(offload_proxy_create(gpu));
  return create_stream(gpu);
}

void attempt_replace(attempt_t *attempt) {
  offload_t *gpu = attempt->member->gpu;
  attempt->own.report = (attempt_report_t){.status = COLL_OK};
  close_descriptor(attempt);
  if (attempt->verdict.status != COLL_OK) return;
  note(attempt, create_proxy(gpu));
  if (attempt->own.report.status != COLL_OK) return;
  (void)cuda_end_destroy(gpu->end); /* the proxy keeps the context, in which the stream is */
  gpu->end = NULL;
}

/* ---- connecting ------------------------------------------------------------------------------*/

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
  COLL_TRY(base_alloc(size, sizeof *descriptors, "descriptors", (void **)&descriptors));
  for (size_t i = 0; i < size; i++) descriptors[i] = -1;
  coll_status_t status = receive_descriptors(attempt, descriptors);
  if (status == COLL_OK) {
    status = cuda_end_connect(attempt->member->gpu->end, attempt->records, descriptors);
  }
  for (size_t i = 0; i < size; i++) {
    if (descriptors[i] >= 0) close(descriptors[i]);
  }
  free(descriptors);
  return status;
}

/* Whether this rank goes on; all do, or none. */
static bool goes_on(const attempt_t *attempt) {
  return attempt->verdict.status == COLL_OK;
}

void attempt_begin(attempt_t *attempt) {
  offload_proxy_t *proxy = attempt->member->gpu->proxy;
  if (!goes_on(attempt)) return;
  note(attempt, proxy != NULL ? offload_proxy_start(proxy) : pass_descriptor(attempt));
}

void attempt_end(attempt_t *attempt) {
  const offload_t *gpu = attempt->member->gpu;
  if (!goes_on(attempt) || attempt->own.report.status != COLL_OK) return;
  if (gpu->proxy != NULL) {
    note(attempt, offload_proxy_await(gpu->proxy));
    return;
  }
  coll_status_t status = map_arenas(attempt);
  if (status != COLL_OK && cuda_end_unreached(gpu->end) > 0) {
    note_apart(attempt, status);
  } else {
    note(attempt, status);
  }
  attempt->own.report.offer = cuda_end_offer(gpu->end);
}

/* ---- what all ranks find ---------------------------------------------------------------------*/

static const attempt_report_t *report_of(const attempt_report_t *first, size_t stride, int rank) {
  return (const attempt_report_t *)(const void *)((const char *)first + (size_t)rank * stride);
}

/* As this rank tells it. */
static void set_verdict(attempt_t *attempt, int rank, const attempt_report_t *report) {
  attempt->verdict.status = report->status;
  if (rank == attempt->member->comm->rank) {
    snprintf(attempt->verdict.text, sizeof attempt->verdict.text, "%s", report->text);
  } else {
    snprintf(attempt->verdict.text, sizeof attempt->verdict.text,
             "rank %d cannot use its GPU for this communicator: %.300s", rank, report->text);
  }
}

void attempt_judge(attempt_t *attempt, const attempt_report_t *first, size_t stride) {
  const struct coll_comm *comm = attempt->member->comm;
  int size = comm->size;
  for (int rank = 0; rank < size && goes_on(attempt); rank++) {
    const attempt_report_t *report = report_of(first, stride, rank);
    if (report->status != COLL_OK) set_verdict(attempt, rank, report);
  }
  for (int rank = 0; rank < size && goes_on(attempt); rank++) {
    const attempt_report_t *report = report_of(first, stride, rank);
    if (!report->is_apart) continue;
    attempt->is_staged = true;
    if (comm->access.reports && comm->rank == 0) fprintf(stderr, "libcoll: %s\n", report->text);
  }
}

void attempt_compare(attempt_t *attempt) {
  int size = attempt->member->comm->size;
  for (int rank = 0; rank < size; rank++) attempt->records[rank] = attempt->all[rank].record;
  if (!goes_on(attempt)) return;
  attempt->verdict.status = (int32_t)cuda_end_check_agreement(size, attempt->records);
  if (!goes_on(attempt)) {
    snprintf(attempt->verdict.text, sizeof attempt->verdict.text, "%s", base_last_error());
  }
}
