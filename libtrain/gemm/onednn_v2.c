/* oneDNN 2: operation descriptors, memory descriptors by value. */
#include "libtrain/gemm/onednn_matmul.h"

#if DNNL_VERSION_MAJOR == 2

dnnl_status_t train_onednn_append_sum(dnnl_post_ops_t ops) {
  return dnnl_post_ops_append_sum(ops, 1.0f);
}

static dnnl_status_t describe(const train_onednn_matrix_t *matrix, dnnl_memory_desc_t *desc) {
  return dnnl_memory_desc_init_by_strides(desc, 2, matrix->dims, matrix->type, matrix->strides);
}

dnnl_status_t train_onednn_describe_matmul(dnnl_engine_t engine, const train_onednn_matrix_t *a,
                                           const train_onednn_matrix_t *b,
                                           const train_onednn_matrix_t *out,
                                           const_dnnl_primitive_attr_t attributes,
                                           dnnl_primitive_desc_t *desc) {
  dnnl_memory_desc_t a_desc, b_desc, out_desc;
  dnnl_matmul_desc_t matmul;
  dnnl_status_t status = describe(a, &a_desc);
  if (status == dnnl_success) status = describe(b, &b_desc);
  if (status == dnnl_success) status = describe(out, &out_desc);
  if (status == dnnl_success) {
    status = dnnl_matmul_desc_init(&matmul, &a_desc, &b_desc, NULL, &out_desc);
  }
  if (status != dnnl_success) return status;
  return dnnl_primitive_desc_create(desc, &matmul, attributes, engine, NULL);
}

#endif
