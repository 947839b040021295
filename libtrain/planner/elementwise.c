/*
 * What operators other than matrix products read and write. A product's operands and results count
 * as nothing here, nor do biases that its epilogue adds; what an epilogue reads or writes besides
 * (residuals, GELU) is counted. Attention's scores stay in caches. An array counts once for each
 * time that an operator goes over it.
 *
 * For each position, of a layer whose tensors t ranks divide, in elements of an activation, with
 * width C:
 *
 *     stream    4 C + 8 C    two layernorms, forward and backward
 *               2 C          residuals of the products; with tensor ranks 6 C, by bias_residual
 *     divided   4 C + 4 C    GELU, forward and backward
 *               7 C          gradients of the biases of queries, keys, values and hidden layer
 *               2 C          sums of attention's backward pass
 *     whole     2 C          gradients of the other biases
 *
 * `divided` is divided by t, and with sequence parallelism the stream is. In a layer with experts
 * what belongs to the MLP counts once for each expert of a token and for a shared one, and rows are
 * copied to slots and back. The classifier goes over its logits four times, in float32.
 */
#include "libtrain/parallel/memory.h"
#include "libtrain/planner/metrics.h"
#include "libtrain/planner/parts.h"

/* Elements of a position, in units of the width. */
typedef struct visits {
  double stream, divided, whole;
} visits_t;

static visits_t visits_of_layer(const train_plan_job_t *job, const train_plan_layout_t *layout,
                                int layer) {
  const train_model_config_t *config = &job->model;
  bool cut = plan_size(layout, TRAIN_MESH_TP) > 1;
  double mlps = train_metrics_mlps(config, layer);
  visits_t visits = {
      .stream = 4 + 8 + (cut ? 6 : 2), .divided = 3 + 2 + mlps * (4 + 4 + 4), .whole = 2};
  if (train_model_has_experts(config, layer)) visits.whole += (4 + 4) * config->top_k;
  if (layout->recompute == TRAIN_RECOMPUTE_ATTENTION) visits.stream += 2;
  if (layout->recompute == TRAIN_RECOMPUTE_BLOCK) {
    visits.stream += 4 + (cut ? 3 : 1);
    visits.divided += 4 * mlps;
  }
  return visits;
}

/* The embedding reads two tables and writes the stream, and adds its gradient to both tables; the
 * final layernorm. */
static void add_edges(const train_plan_job_t *job, const train_part_t *part, visits_t *visits) {
  if (train_part_embeds(part)) visits->whole += 3 + 1 + 4;
  if (train_part_classifies(part, job->model.layers)) visits->stream += 2 + 3;
}

double plan_elementwise_bytes(const train_plan_job_t *job, const train_plan_layout_t *layout,
                              const train_part_t *part) {
  double tp = plan_size(layout, TRAIN_MESH_TP), width = job->model.width;
  double element =
      (double)train_dtype_bytes(train_precision_stored(job->precision, TRAIN_KIND_ACTIVATIONS));
  visits_t sum = {0};
  for (int chunk = 0; chunk < part->chunk_count; chunk++) {
    const train_layer_range_t *range = &part->chunks[chunk];
    for (int i = 0; i < range->layers; i++) {
      const visits_t visits = visits_of_layer(job, layout, range->first_layer + i);
      sum.stream += visits.stream;
      sum.divided += visits.divided;
      sum.whole += visits.whole;
    }
  }
  add_edges(job, part, &sum);
  double visits = sum.stream / (layout->sequence ? tp : 1) + sum.divided / tp + sum.whole;
  double logits = train_part_classifies(part, job->model.layers) ? job->model.vocabulary / tp : 0;
  return visits * width * element + 4 * logits * sizeof(float);
}

/* The gradient norm reads what AdamW reads again. */
double plan_update_bytes(const train_plan_job_t *job, const train_plan_layout_t *layout,
                         const train_part_t *part) {
  double bytes = (double)(train_update_bytes(job->precision) + sizeof(float));
  return plan_updated_elements(job, layout, part) * bytes;
}
