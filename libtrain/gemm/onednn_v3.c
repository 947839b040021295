/* oneDNN 3: no operation descriptors; memory descriptors are objects. */
#include "libtrain/gemm/onednn_matmul.h"

#if DNNL_VERSION_MAJOR >= 3

dnnl_status_t train_onednn_append_sum(dnnl_post_ops_t ops) {
  return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
}

static dnnl_status_t describe(const train_onednn_matrix_t *matrix, dnnl_memory_desc_t *desc) {
  return dnnl_memory_desc_create_with_strides(desc, 2, matrix->dims, matrix->type, matrix->strides);
}

dnnl_status_t train_onednn_describe_matmul(dnnl_engine_t engine, const train_onednn_matrix_t *a,
                                           const train_onednn_matrix_t *b,
                                           const train_onednn_matrix_t *out,
                                           const_dnnl_primitive_attr_t attributes,
                                           dnnl_primitive_desc_t *desc) {
  dnnl_memory_desc_t a_desc = NULL, b_desc = NULL, out_desc = NULL;
  dnnl_status_t status = describe(a, &a_desc);
  if (status == dnnl_success) status = describe(b, &b_desc);
  if (status == dnnl_success) status = describe(out, &out_desc);
  if (status == dnnl_success) {
    status =
        dnnl_matmul_primitive_desc_create(desc, engine, a_desc, b_desc, NULL, out_desc, attributes);
  }
  if (a_desc != NULL) dnnl_memory_desc_destroy(a_desc);
  if (b_desc != NULL) dnnl_memory_desc_destroy(b_desc);
  if (out_desc != NULL) dnnl_memory_desc_destroy(out_desc);
  return status;
}

#endif
