/* Creation of a rank's wire, and the slots that concern all of its peers. */
#include "transport/net/wire/verbs/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "transport/net/wire/verbs/state.h"

#define COMPLETIONS_AT_ONCE 16
#define MEMORY_BYTES ((size_t)VERBS_RECV_BUFFERS * VERBS_BUFFER_BYTES)

/* ---- progress -------------------------------------------------------------------------------*/

static coll_status_t complete(verbs_t *verbs, const struct ibv_wc *wc) {
  return (wc->wr_id & VERBS_RECEIVED) != 0 ? verbs_received(verbs, wc) : verbs_sent(verbs, wc);
}

/* A failure does not keep the rest from being completed. */
static coll_status_t poll_rail(verbs_t *verbs, verbs_rail_t *rail) {
  struct ibv_wc wcs[COMPLETIONS_AT_ONCE];
  coll_status_t status = COLL_OK;
  int count = COMPLETIONS_AT_ONCE;
  for (bool first = true; count == COMPLETIONS_AT_ONCE; first = false) {
    count = ibv_poll_cq(rail->cq, COMPLETIONS_AT_ONCE, wcs);
    if (count < 0) {
      return base_fail(COLL_ERROR_SYSTEM, "rank %d: RDMA device %s has failed", verbs->wire.rank,
                       rail->device.name);
    }
    /* a rank that is about to sleep would do so without an event due */
    if (first && count > 0 && verbs_rail_take_event(verbs, rail)) {
      verbs->wire.owner_ops->fetched(&verbs->wire);
    }
    for (int i = 0; i < count; i++) {
      coll_status_t own = complete(verbs, &wcs[i]);
      if (status == COLL_OK) status = own;
    }
  }
  return status;
}

static coll_status_t progress(wire_t *wire, int link) {
  (void)link; /* all share what they receive by */
  verbs_t *verbs = verbs_of(wire);
  coll_status_t status = COLL_OK;
  for (int i = 0; i < verbs->rail_count; i++) {
    coll_status_t own = poll_rail(verbs, &verbs->rails[i]);
    if (status == COLL_OK) status = own;
  }
  coll_status_t flushed = verbs_flush(verbs);
  if (flushed == COLL_OK) flushed = verbs_fetch_parts(verbs);
  return status != COLL_OK ? status : flushed;
}

/* What completes after the request makes the descriptor readable; what did before is found by
 * progress. */
static bool arm(wire_t *wire) {
  if (!verbs_rails_arm(verbs_of(wire))) return false;
  return progress(wire, -1) == COLL_OK;
}

/* What is in flight is the device's to deliver. */
static bool holds(wire_t *wire, int peer, int channel) {
  const verbs_t *verbs = verbs_of(wire);
  const verbs_stored_t *each = verbs->pairs == NULL ? NULL : verbs->pairs[peer].oldest;
  if (channel < 0) return each != NULL;
  while (each != NULL && !net_frame_is_message_of(&each->frame, channel)) each = each->next;
  return each != NULL;
}

static bool is_unsent(const wire_t *wire, int peer) {
  const verbs_t *verbs = (const verbs_t *)(const void *)wire;
  if (verbs->pairs == NULL || verbs->pairs[peer].state != VERBS_READY) return false;
  return verbs->pairs[peer].qps[0].in_flight > 0 || verbs->pairs[peer].oldest != NULL;
}

/* ---- life -----------------------------------------------------------------------------------*/

static void destroy(wire_t *wire) {
  verbs_t *verbs = verbs_of(wire);
  const verbs_lib_t *lib = verbs->lib;
  verbs_pairs_destroy(verbs);
  verbs_buffers_destroy(verbs);
  verbs_regions_destroy(verbs);
  if (verbs->srq != NULL) lib->ibv_destroy_srq(verbs->srq);
  if (verbs->mr != NULL) lib->ibv_dereg_mr(verbs->mr);
  verbs_rails_close(verbs);
  if (verbs->memory != NULL) munmap(verbs->memory, MEMORY_BYTES);
  free(verbs);
}

static const wire_ops_t verbs_ops = {
    .name = "verbs",
    .connect = verbs_connect,
    .hear = verbs_hear,
    .send = verbs_send,
    .progress = progress,
    .arm = arm,
    .holds = holds,
    .is_unsent = is_unsent,
    .expose = verbs_expose,
    .withdraw = verbs_withdraw,
    .fetch = verbs_fetch,
    .advance = verbs_advance,
    .stop = verbs_stop,
    .disconnect = verbs_disconnect,
    .destroy = destroy,
};

static coll_status_t register_memory(verbs_t *verbs) {
  void *memory =
      mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return base_fail(COLL_ERROR_MEMORY, "no memory for the buffers of RDMA device %s",
                     verbs->rails[0].device.name);
  }
  verbs->memory = memory;
  verbs->mr =
      (verbs->lib->ibv_reg_mr)(verbs->rails[0].pd, memory, MEMORY_BYTES, IBV_ACCESS_LOCAL_WRITE);
  if (verbs->mr != NULL) return COLL_OK;
  return verbs_rail_fail(&verbs->rails[0], "cannot register 6 MiB of memory (see ulimit -l)");
}

static coll_status_t create_queues(verbs_t *verbs) {
  const verbs_rail_t *rail = &verbs->rails[0];
  struct ibv_srq_init_attr attr = {.attr = {.max_wr = VERBS_RECV_BUFFERS, .max_sge = 2}};
  COLL_TRY(register_memory(verbs));
  verbs->srq = verbs->lib->ibv_create_srq(rail->pd, &attr);
  if (verbs->srq == NULL) return verbs_rail_fail(rail, "no shared receive queue");
  return verbs_post_all(verbs);
}

coll_status_t verbs_wire_open(wire_t **wire) {
  verbs_t *made = NULL;
  verbs_settings_t settings;
  const verbs_lib_t *lib;
  COLL_TRY(verbs_settings_read(&settings));
  COLL_TRY(verbs_lib_load(&lib));
  COLL_TRY(base_alloc(1, sizeof *made, "an RDMA wire", (void **)&made));
  made->wire = (wire_t){.ops = &verbs_ops, .descriptor = -1};
  made->lib = lib;
  made->epoll = -1;
  made->settings = settings;
  made->free_send_count = VERBS_SENDS;
  for (int i = 0; i < VERBS_SENDS; i++) made->free_sends[i] = i;
  coll_status_t status = verbs_rails_open(made);
  if (status == COLL_OK) status = create_queues(made);
  if (status != COLL_OK) {
    destroy(&made->wire);
    return status;
  }
  *wire = &made->wire;
  return COLL_OK;
}
