/* The devices of a rank, each with what belongs to one device. */
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "transport/net/wire/verbs/state.h"

coll_status_t verbs_rail_fail(const verbs_rail_t *rail, const char *what) {
  return base_fail_errno(COLL_ERROR_SYSTEM, "RDMA device %s: %s", rail->device.name, what);
}

static coll_status_t open_rail(const verbs_lib_t *lib, verbs_rail_t *rail) {
  struct ibv_context *context = rail->device.context;
  rail->pd = lib->ibv_alloc_pd(context);
  if (rail->pd == NULL) return verbs_rail_fail(rail, "no protection domain");
  rail->channel = lib->ibv_create_comp_channel(context);
  if (rail->channel == NULL) return verbs_rail_fail(rail, "no completion channel");
  if (fcntl(rail->channel->fd, F_SETFL, O_NONBLOCK) != 0) return verbs_rail_fail(rail, "fcntl");
  rail->cq = lib->ibv_create_cq(context, VERBS_RECV_BUFFERS + VERBS_SENDS, NULL, rail->channel, 0);
  return rail->cq != NULL ? COLL_OK : verbs_rail_fail(rail, "no completion queue");
}

/* One descriptor that is readable when one of several is. */
static coll_status_t wait_for_all(verbs_t *verbs) {
  verbs->epoll = epoll_create1(EPOLL_CLOEXEC);
  if (verbs->epoll < 0) return verbs_rail_fail(&verbs->rails[0], "epoll_create1");
  for (int i = 0; i < verbs->rail_count; i++) {
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll_ctl(verbs->epoll, EPOLL_CTL_ADD, verbs->rails[i].channel->fd, &event) != 0) {
      return verbs_rail_fail(&verbs->rails[i], "epoll_ctl");
    }
  }
  verbs->wire.descriptor = verbs->epoll;
  return COLL_OK;
}

coll_status_t verbs_rails_open(verbs_t *verbs) {
  verbs_device_t devices[TRANSPORT_RAILS];
  COLL_TRY(verbs_devices_open(verbs->lib, &verbs->settings, devices, &verbs->rail_count));
  for (int i = 0; i < verbs->rail_count; i++) verbs->rails[i].device = devices[i];
  for (int i = 0; i < verbs->rail_count; i++) COLL_TRY(open_rail(verbs->lib, &verbs->rails[i]));
  verbs->wire.descriptor = verbs->rails[0].channel->fd;
  return verbs->rail_count > 1 ? wait_for_all(verbs) : COLL_OK;
}

bool verbs_rail_take_event(const verbs_t *verbs, verbs_rail_t *rail) {
  struct ibv_cq *cq;
  void *context;
  if (!rail->is_armed) return false;
  if (verbs->lib->ibv_get_cq_event(rail->channel, &cq, &context) != 0) return false;
  verbs->lib->ibv_ack_cq_events(cq, 1);
  rail->is_armed = false;
  return true;
}

bool verbs_rails_arm(verbs_t *verbs) {
  for (int i = 0; i < verbs->rail_count; i++) {
    verbs_rail_t *rail = &verbs->rails[i];
    verbs_rail_take_event(verbs, rail);
    if (!rail->is_armed && ibv_req_notify_cq(rail->cq, 0) != 0) return false;
    rail->is_armed = true;
  }
  return true;
}

static bool is_last_of_device(const verbs_t *verbs, int rail) {
  int other = rail + 1;
  const struct ibv_context *context = verbs->rails[rail].device.context;
  while (other < verbs->rail_count && verbs->rails[other].device.context != context) other++;
  return other == verbs->rail_count;
}

void verbs_rails_close(verbs_t *verbs) {
  const verbs_lib_t *lib = verbs->lib;
  if (verbs->epoll >= 0) close(verbs->epoll);
  for (int i = 0; i < verbs->rail_count; i++) {
    verbs_rail_t *rail = &verbs->rails[i];
    if (rail->cq != NULL) lib->ibv_destroy_cq(rail->cq);
    if (rail->channel != NULL) lib->ibv_destroy_comp_channel(rail->channel);
    if (rail->pd != NULL) lib->ibv_dealloc_pd(rail->pd);
    if (is_last_of_device(verbs, i)) lib->ibv_close_device(rail->device.context);
  }
}
