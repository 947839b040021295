/* Creation of a rank's fabric, and the slots that concern all of its peers. */
#include "transport/verbs/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "transport/verbs/end.h"

#define COMPLETIONS_AT_ONCE 16
#define MEMORY_BYTES ((size_t)VERBS_RECV_BUFFERS * VERBS_BUFFER_BYTES)

/* ---- progress -------------------------------------------------------------------------------*/

static void take_event(verbs_t *verbs) {
  struct ibv_cq *cq;
  void *context;
  if (!verbs->is_armed) return;
  if (verbs->lib->ibv_get_cq_event(verbs->channel, &cq, &context) != 0) return;
  verbs->lib->ibv_ack_cq_events(cq, 1);
  verbs->is_armed = false;
}

static coll_status_t complete(verbs_t *verbs, const struct ibv_wc *wc) {
  return (wc->wr_id & VERBS_RECEIVED) != 0 ? verbs_received(verbs, wc) : verbs_sent(verbs, wc);
}

/* A failure does not keep the rest from being completed. */
static coll_status_t progress(tcp_fabric_t *fabric) {
  verbs_t *verbs = verbs_of(fabric);
  struct ibv_wc wcs[COMPLETIONS_AT_ONCE];
  coll_status_t status = COLL_OK;
  int count = COMPLETIONS_AT_ONCE;
  for (bool first = true; count == COMPLETIONS_AT_ONCE; first = false) {
    count = ibv_poll_cq(verbs->cq, COMPLETIONS_AT_ONCE, wcs);
    if (count < 0) {
      return base_fail(COLL_ERROR_SYSTEM, "rank %d: RDMA device %s has failed", fabric->rank,
                       verbs->device.name);
    }
    if (first && count > 0) take_event(verbs);
    for (int i = 0; i < count; i++) {
      coll_status_t own = complete(verbs, &wcs[i]);
      if (status == COLL_OK) status = own;
    }
  }
  coll_status_t flushed = verbs_flush(verbs);
  return status != COLL_OK ? status : flushed;
}

/* What completes after the request makes the descriptor readable; what did before is found by
 * progress. */
static bool arm(tcp_fabric_t *fabric) {
  verbs_t *verbs = verbs_of(fabric);
  take_event(verbs);
  if (!verbs->is_armed && ibv_req_notify_cq(verbs->cq, 0) != 0) return false;
  verbs->is_armed = true;
  return progress(fabric) == COLL_OK;
}

static bool is_unsent(const tcp_fabric_t *fabric, int peer) {
  const verbs_t *verbs = (const verbs_t *)(const void *)fabric;
  if (verbs->pairs == NULL || verbs->pairs[peer].state != VERBS_READY) return false;
  return verbs->pairs[peer].in_flight > 0 || verbs->pairs[peer].oldest != NULL;
}

/* ---- life -----------------------------------------------------------------------------------*/

static void destroy(tcp_fabric_t *fabric) {
  verbs_t *verbs = verbs_of(fabric);
  const verbs_lib_t *lib = verbs->lib;
  verbs_pairs_destroy(verbs);
  verbs_buffers_destroy(verbs);
  if (verbs->srq != NULL) lib->ibv_destroy_srq(verbs->srq);
  if (verbs->cq != NULL) lib->ibv_destroy_cq(verbs->cq);
  if (verbs->channel != NULL) lib->ibv_destroy_comp_channel(verbs->channel);
  if (verbs->mr != NULL) lib->ibv_dereg_mr(verbs->mr);
  if (verbs->pd != NULL) lib->ibv_dealloc_pd(verbs->pd);
  if (verbs->device.context != NULL) lib->ibv_close_device(verbs->device.context);
  if (verbs->memory != NULL) munmap(verbs->memory, MEMORY_BYTES);
  free(verbs);
}

static const tcp_fabric_ops_t verbs_ops = {
    .name = "verbs",
    .connect = verbs_connect,
    .hear = verbs_hear,
    .send = verbs_send,
    .progress = progress,
    .arm = arm,
    .is_unsent = is_unsent,
    .disconnect = verbs_disconnect,
    .destroy = destroy,
};

static coll_status_t fail(const verbs_t *verbs, const char *what) {
  return base_fail_errno(COLL_ERROR_SYSTEM, "RDMA device %s: %s", verbs->device.name, what);
}

static coll_status_t register_memory(verbs_t *verbs) {
  void *memory =
      mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return base_fail(COLL_ERROR_MEMORY, "no memory for the buffers of RDMA device %s",
                     verbs->device.name);
  }
  verbs->memory = memory;
  verbs->mr = (verbs->lib->ibv_reg_mr)(verbs->pd, memory, MEMORY_BYTES, IBV_ACCESS_LOCAL_WRITE);
  if (verbs->mr != NULL) return COLL_OK;
  return fail(verbs, "cannot register 6 MiB of memory (see ulimit -l)");
}

static coll_status_t create_queues(verbs_t *verbs) {
  const verbs_lib_t *lib = verbs->lib;
  struct ibv_context *context = verbs->device.context;
  struct ibv_srq_init_attr attr = {.attr = {.max_wr = VERBS_RECV_BUFFERS, .max_sge = 2}};
  verbs->pd = lib->ibv_alloc_pd(context);
  if (verbs->pd == NULL) return fail(verbs, "no protection domain");
  COLL_TRY(register_memory(verbs));
  verbs->channel = lib->ibv_create_comp_channel(context);
  if (verbs->channel == NULL) return fail(verbs, "no completion channel");
  verbs->fabric.descriptor = verbs->channel->fd;
  if (fcntl(verbs->channel->fd, F_SETFL, O_NONBLOCK) != 0) return fail(verbs, "fcntl");
  verbs->cq =
      lib->ibv_create_cq(context, VERBS_RECV_BUFFERS + VERBS_SENDS, NULL, verbs->channel, 0);
  if (verbs->cq == NULL) return fail(verbs, "no completion queue");
  verbs->srq = lib->ibv_create_srq(verbs->pd, &attr);
  if (verbs->srq == NULL) return fail(verbs, "no shared receive queue");
  return verbs_post_all(verbs);
}

coll_status_t transport_verbs_open(tcp_fabric_t **fabric) {
  verbs_t *made = NULL;
  verbs_settings_t settings;
  const verbs_lib_t *lib;
  COLL_TRY(verbs_settings_read(&settings));
  COLL_TRY(verbs_lib_load(&lib));
  COLL_TRY(base_alloc(1, sizeof *made, "an RDMA fabric", (void **)&made));
  made->fabric = (tcp_fabric_t){.ops = &verbs_ops, .descriptor = -1};
  made->lib = lib;
  made->settings = settings;
  made->free_send_count = VERBS_SENDS;
  for (int i = 0; i < VERBS_SENDS; i++) made->free_sends[i] = i;
  coll_status_t status = verbs_device_open(lib, &settings, &made->device);
  if (status == COLL_OK) status = create_queues(made);
  if (status != COLL_OK) {
    destroy(&made->fabric);
    return status;
  }
  *fabric = &made->fabric;
  return COLL_OK;
}
