/* The part of oneDNN's C API that differs between its major versions. One of onednn_v2.c and
 * onednn_v3.c is compiled to code, by DNNL_VERSION_MAJOR. */
#ifndef LIBTRAIN_GEMM_ONEDNN_MATMUL_H
#define LIBTRAIN_GEMM_ONEDNN_MATMUL_H

#include <oneapi/dnnl/dnnl.h>

#include "libtrain/gemm/backend.h"

/* How a matrix is stored: dims[0] rows, dims[1] columns, and the distances between their elements.
 */
typedef struct train_onednn_matrix {
  dnnl_dims_t dims, strides;
  dnnl_data_type_t type;
} train_onednn_matrix_t;

/* Appends "+ out" to the operations that follow the product. */
dnnl_status_t train_onednn_append_sum(dnnl_post_ops_t ops);

/* Describes out = a * b with these attributes. The caller destroys *desc. */
dnnl_status_t train_onednn_describe_matmul(dnnl_engine_t engine, const train_onednn_matrix_t *a,
                                           const train_onednn_matrix_t *b,
                                           const train_onednn_matrix_t *out,
                                           const_dnnl_primitive_attr_t attributes,
                                           dnnl_primitive_desc_t *desc);

#endif
