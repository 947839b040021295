/* The operator table of the host backend and its scratch size, the maximum over all operators. */
#include "libtrain/ops/host.h"

static size_t larger(size_t a, size_t b) {
  return a > b ? a : b;
}

static size_t scratch_floats(const train_ops_sizes_t *sizes) {
  size_t attention =
      larger(train_host_attention_scratch(sizes), train_host_attention_segment_scratch(sizes));
  return larger(train_host_layernorm_scratch(sizes),
                larger(attention, train_host_classifier_scratch(sizes)));
}

const train_ops_t train_ops_host = {
    .name = "host",
    .scratch_floats = scratch_floats,
    .embedding_forward = train_host_embedding_forward,
    .embedding_backward = train_host_embedding_backward,
    .layernorm_forward = train_host_layernorm_forward,
    .layernorm_backward = train_host_layernorm_backward,
    .linear_forward = train_host_linear_forward,
    .linear_backward = train_host_linear_backward,
    .bias_residual = train_host_bias_residual,
    .bias_backward = train_host_bias_backward,
    .attention_forward = train_host_attention_forward,
    .attention_backward = train_host_attention_backward,
    .attention_segment_forward = train_host_attention_segment_forward,
    .attention_segment_finish = train_host_attention_segment_finish,
    .attention_segment_d_sums = train_host_attention_segment_d_sums,
    .attention_segment_backward = train_host_attention_segment_backward,
    .attention_segment_store = train_host_attention_segment_store,
    .classifier = train_host_classifier};
