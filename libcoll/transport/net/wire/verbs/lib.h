/*
 * The functions of libibverbs, which is loaded at run time. Those that the header defines inline
 * are used from there.
 */
#ifndef TRANSPORT_NET_WIRE_VERBS_LIB_H
#define TRANSPORT_NET_WIRE_VERBS_LIB_H

#include <infiniband/verbs.h>

#include "base/status.h"

/* Each by its name, result and arguments. */
#define VERBS_FUNCTIONS(F)                                                                \
  F(ibv_get_device_list, struct ibv_device **, (int *))                                   \
  F(ibv_free_device_list, void, (struct ibv_device **))                                   \
  F(ibv_get_device_name, const char *, (struct ibv_device *))                             \
  F(ibv_open_device, struct ibv_context *, (struct ibv_device *))                         \
  F(ibv_close_device, int, (struct ibv_context *))                                        \
  F(ibv_query_device, int, (struct ibv_context *, struct ibv_device_attr *))              \
  F(_ibv_query_gid_ex, int,                                                               \
    (struct ibv_context *, uint32_t, uint32_t, struct ibv_gid_entry *, uint32_t, size_t)) \
  F(ibv_alloc_pd, struct ibv_pd *, (struct ibv_context *))                                \
  F(ibv_dealloc_pd, int, (struct ibv_pd *))                                               \
  F(ibv_reg_mr, struct ibv_mr *, (struct ibv_pd *, void *, size_t, int))                  \
  F(ibv_dereg_mr, int, (struct ibv_mr *))                                                 \
  F(ibv_create_comp_channel, struct ibv_comp_channel *, (struct ibv_context *))           \
  F(ibv_destroy_comp_channel, int, (struct ibv_comp_channel *))                           \
  F(ibv_create_cq, struct ibv_cq *,                                                       \
    (struct ibv_context *, int, void *, struct ibv_comp_channel *, int))                  \
  F(ibv_destroy_cq, int, (struct ibv_cq *))                                               \
  F(ibv_get_cq_event, int, (struct ibv_comp_channel *, struct ibv_cq **, void **))        \
  F(ibv_ack_cq_events, void, (struct ibv_cq *, unsigned))                                 \
  F(ibv_create_srq, struct ibv_srq *, (struct ibv_pd *, struct ibv_srq_init_attr *))      \
  F(ibv_destroy_srq, int, (struct ibv_srq *))                                             \
  F(ibv_create_qp, struct ibv_qp *, (struct ibv_pd *, struct ibv_qp_init_attr *))         \
  F(ibv_modify_qp, int, (struct ibv_qp *, struct ibv_qp_attr *, int))                     \
  F(ibv_destroy_qp, int, (struct ibv_qp *))                                               \
  F(ibv_fork_init, int, (void))                                                           \
  F(ibv_wc_status_str, const char *, (enum ibv_wc_status))

typedef struct verbs_lib {
#define VERBS_MEMBER(name, result, arguments) result(*name) arguments;
  VERBS_FUNCTIONS(VERBS_MEMBER)
#undef VERBS_MEMBER
} verbs_lib_t;

/* The library, loaded once per process. COLL_ERROR_UNSUPPORTED: it is not installed or too old. */
coll_status_t verbs_lib_load(const verbs_lib_t **lib);

#endif
