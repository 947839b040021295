/* UCX's libraries, loaded once per process and never unloaded. */
#ifndef TRANSPORT_NET_WIRE_UCX_LIB_H
#define TRANSPORT_NET_WIRE_UCX_LIB_H

#include <ucp/api/ucp.h>

#include "base/knob.h"

/* Those of libucp, and what it needs of libucs. */
#define UCX_FUNCTIONS(DO)            \
  DO(ucp_config_read)                \
  DO(ucp_config_modify)              \
  DO(ucp_config_release)             \
  DO(ucp_init_version)               \
  DO(ucp_cleanup)                    \
  DO(ucp_worker_create)              \
  DO(ucp_worker_destroy)             \
  DO(ucp_worker_get_address)         \
  DO(ucp_worker_release_address)     \
  DO(ucp_worker_get_efd)             \
  DO(ucp_worker_arm)                 \
  DO(ucp_worker_progress)            \
  DO(ucp_worker_set_am_recv_handler) \
  DO(ucp_ep_create)                  \
  DO(ucp_ep_close_nbx)               \
  DO(ucp_ep_flush_nbx)               \
  DO(ucp_am_send_nbx)                \
  DO(ucp_am_recv_data_nbx)           \
  DO(ucp_request_free)               \
  DO(ucs_status_string)

typedef struct ucx_lib {
#define UCX_MEMBER(name) __typeof__(name) *name;
  UCX_FUNCTIONS(UCX_MEMBER)
#undef UCX_MEMBER
} ucx_lib_t;

/* COLL_ERROR_UNSUPPORTED: the library or a function of it is missing; says what to do. */
coll_status_t ucx_lib_load(const base_knob_t *path, const ucx_lib_t **lib);

/* A context for active messages between hosts. COLL_ERROR_SYSTEM: says what UCX says. */
coll_status_t ucx_lib_init(const ucx_lib_t *lib, ucp_context_h *context);

#endif
