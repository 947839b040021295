/*
 * Bytes on each group by closed formulas, for collectives around a ring: an allreduce of n elements
 * over r ranks makes them send 2 (r - 1) n elements together, an allgather or reduce-scatter of n
 * elements (r - 1) n. Which links they take follows from the hosts of neighbours in the ring.
 */
#include "libtrain/parallel/memory.h"
#include "libtrain/planner/parts.h"

static uint64_t size_of(const train_plan_layout_t *layout, train_mesh_group_t group) {
  return (uint64_t)plan_size(layout, group);
}

static uint64_t micro_batches(const train_plan_layout_t *layout) {
  return (uint64_t)layout->schedule.micro_batches;
}

/* Passes of a step in each direction. */
static uint64_t passes_of(const train_plan_layout_t *layout) {
  return micro_batches(layout) * (uint64_t)train_slices_count(&layout->slices);
}

static uint64_t activation_bytes(const train_plan_job_t *job) {
  return train_dtype_bytes(train_precision_stored(job->precision, TRAIN_KIND_ACTIVATIONS));
}

/* Of a micro-batch on a context rank: the residual stream, all tensor ranks together. */
static uint64_t stream_bytes(const train_plan_job_t *job, const train_plan_layout_t *layout) {
  return plan_rows(job, layout) * (uint64_t)job->model.width * activation_bytes(job);
}

static void set_bytes(train_plan_traffic_t *traffic, train_mesh_group_t group, uint64_t bytes,
                      double crossing) {
  uint64_t between = (uint64_t)((double)bytes * crossing + 0.5);
  traffic->bytes[group][TRAIN_PLAN_BETWEEN] = between;
  traffic->bytes[group][TRAIN_PLAN_INSIDE] = bytes - between;
}

uint64_t train_plan_bytes(const train_plan_traffic_t *traffic, train_mesh_group_t group) {
  return traffic->bytes[group][TRAIN_PLAN_INSIDE] + traffic->bytes[group][TRAIN_PLAN_BETWEEN];
}

/* ---- tensor ranks ---- */

static bool splits_backward(const train_plan_layout_t *layout) {
  return layout->schedule.kind == TRAIN_SCHEDULE_ZB_H1 && layout->schedule.stages > 1;
}

/* Collectives of a layer and micro-batch: allreduces, or with sequence parallelism allgathers and
 * reduce-scatters, of the stream. Megatron-LM has 4 (Shoeybi et al. 2019), and 8 and two that
 * gather the layernorms' results again for gradients of weights (Korthikanti et al. 2022).
 * Recomputation repeats those of the forward pass that come before what it computes again. A split
 * backward pass gathers the gradients of both pairs' results twice. */
static uint64_t layer_collectives(const train_plan_layout_t *layout) {
  train_recompute_t again = layout->recompute;
  if (!layout->sequence) return again == TRAIN_RECOMPUTE_BLOCK ? 5 : 4;
  if (again == TRAIN_RECOMPUTE_NONE) return splits_backward(layout) ? 12 : 10;
  return again == TRAIN_RECOMPUTE_ATTENTION ? 11 : 13;
}

/* More of them in a layer with experts. The router and the experts gather the same rows, each for
 * itself; a shared expert sums its results apart, gathers their gradient again, and its input if
 * that is computed again. Without one, a split backward pass gathers nothing of the MLP twice. */
static uint64_t expert_collectives(const train_plan_job_t *job, const train_plan_layout_t *layout) {
  bool again = layout->recompute == TRAIN_RECOMPUTE_BLOCK;
  if (!layout->sequence) return job->model.shared_expert ? 1 : 0;
  if (job->model.shared_expert) return again ? 4 : 3;
  return splits_backward(layout) ? 0 : 1;
}

/* The gradients of the weights of choices are summed, too. */
static uint64_t choice_bytes(const train_plan_job_t *job, const train_plan_layout_t *layout) {
  return 2 * plan_rows(job, layout) * (uint64_t)job->model.top_k * sizeof(float);
}

static uint64_t expert_layers(const train_plan_job_t *job) {
  const train_model_config_t *config = &job->model;
  return config->experts > 0 ? (uint64_t)(config->layers / config->moe_every) : 0;
}

/* Outside the layers: the embedding's sum, the gradient of the classifier's input, and with
 * sequence parallelism the classifier's input and the gradient of the embedding; as many bytes.
 * Every rank gathers a maximum, a sum and the target's logit of all rows from every other. */
static uint64_t edge_bytes(const train_plan_job_t *job, const train_plan_layout_t *layout) {
  uint64_t statistics = 3 * plan_rows(job, layout) * sizeof(float);
  return 4 * stream_bytes(job, layout) + size_of(layout, TRAIN_MESH_TP) * statistics;
}

/* With sequence parallelism every tensor rank has a part of the layernorms' gradients: summed once
 * per step, or where the store reduces every micro-batch's gradients, each time. */
static uint64_t layernorm_bytes(const train_plan_job_t *job, const train_plan_layout_t *layout) {
  uint64_t vectors = 4 * (uint64_t)job->model.layers + 2;
  uint64_t times = layout->zero >= 2 ? micro_batches(layout) : 1;
  if (!layout->sequence) return 0;
  return 2 * times * vectors * (uint64_t)job->model.width * sizeof(float);
}

static void set_tensor(const train_plan_job_t *job, const train_plan_layout_t *layout,
                       const plan_links_t *links, train_plan_traffic_t *traffic) {
  uint64_t others = size_of(layout, TRAIN_MESH_TP) - 1, layers = (uint64_t)job->model.layers;
  uint64_t steps = layout->sequence ? 1 : 2, experts = expert_layers(job);
  uint64_t collectives =
      layers * layer_collectives(layout) + experts * expert_collectives(job, layout);
  uint64_t pass = collectives * steps * stream_bytes(job, layout);
  if (others == 0) return;
  pass += edge_bytes(job, layout) + experts * choice_bytes(job, layout);
  uint64_t group = others * (micro_batches(layout) * pass + layernorm_bytes(job, layout));
  set_bytes(traffic, TRAIN_MESH_TP, size_of(layout, TRAIN_MESH_DATA) * group,
            links->ring[TRAIN_MESH_TP]);
  traffic->messages[TRAIN_MESH_TP] = passes_of(layout) * (collectives + experts) /
                                     size_of(layout, TRAIN_MESH_PP) * steps * others;
}

/* ---- context ranks ---- */

/* Of a group of context ranks, a layer and a micro-batch. Ring: keys and values travel forward and
 * again backward, followed by their gradients, summed in float32. Ulysses: queries, keys, values
 * and the result change places, and their gradients backward; a rank keeps its own part. */
static uint64_t context_bytes(const train_plan_job_t *job, const train_plan_layout_t *layout) {
  uint64_t ranks = size_of(layout, TRAIN_MESH_CP), element = activation_bytes(job);
  uint64_t again = layout->recompute == TRAIN_RECOMPUTE_NONE ? 0 : 1; /* forward passes */
  uint64_t elements = plan_rows(job, layout) * (uint64_t)job->model.width /
                      size_of(layout, TRAIN_MESH_TP); /* of a rank's keys */
  if (layout->attention == TRAIN_CONTEXT_ULYSSES) {
    return (8 + 4 * again) * element * elements * (ranks - 1);
  }
  return ((4 + 2 * again) * element + 2 * sizeof(float)) * elements * ranks * (ranks - 1);
}

static void set_context(const train_plan_job_t *job, const train_plan_layout_t *layout,
                        const plan_links_t *links, train_plan_traffic_t *traffic) {
  uint64_t others = size_of(layout, TRAIN_MESH_CP) - 1, layers = (uint64_t)job->model.layers;
  uint64_t passes = size_of(layout, TRAIN_MESH_TP) * size_of(layout, TRAIN_MESH_DP) *
                    micro_batches(layout) * layers;
  uint64_t calls = layout->recompute == TRAIN_RECOMPUTE_NONE ? 3 : 4;
  bool rings = layout->attention == TRAIN_CONTEXT_RING;
  if (others == 0) return;
  set_bytes(traffic, TRAIN_MESH_CP, passes * context_bytes(job, layout),
            rings ? links->ring[TRAIN_MESH_CP] : links->all[TRAIN_MESH_CP]);
  traffic->messages[TRAIN_MESH_CP] =
      micro_batches(layout) * layers / size_of(layout, TRAIN_MESH_PP) * calls * others;
}

/* ---- pipeline ranks ---- */

/* Each boundary between stages passes the stream forward and its gradient backward, of each tensor
 * rank its own rows. */
static void set_pipeline(const train_plan_job_t *job, const train_plan_layout_t *layout,
                         const plan_links_t *links, train_plan_traffic_t *traffic) {
  uint64_t stages = size_of(layout, TRAIN_MESH_PP), chunks = (uint64_t)layout->schedule.chunks;
  uint64_t copies = layout->sequence ? 1 : size_of(layout, TRAIN_MESH_TP);
  uint64_t streams = 2 * copies * size_of(layout, TRAIN_MESH_DATA) * micro_batches(layout);
  uint64_t next = chunks * (stages - 1), first = chunks - 1;
  double crossing = (double)next * links->next_stage + (double)first * links->first_stage;
  if (stages == 1) return;
  set_bytes(traffic, TRAIN_MESH_PP, streams * (next + first) * stream_bytes(job, layout),
            crossing / (double)(next + first));
  traffic->messages[TRAIN_MESH_PP] = 2 * (next + first);
}

/* The last stage sends its gradient of the token table to the first, which sends the updated
 * weights back. */
static void set_embedding(const train_plan_job_t *job, const train_plan_layout_t *layout,
                          const plan_links_t *links, train_plan_traffic_t *traffic) {
  uint64_t table = (uint64_t)job->model.vocabulary * (uint64_t)job->model.width;
  uint64_t weight = train_dtype_bytes(train_precision_stored(job->precision, TRAIN_KIND_WEIGHTS));
  if (plan_size(layout, TRAIN_MESH_EMBEDDING) == 1 || job->model.untied) return;
  set_bytes(traffic, TRAIN_MESH_EMBEDDING,
            size_of(layout, TRAIN_MESH_DATA) * table * (sizeof(float) + weight),
            links->ring[TRAIN_MESH_EMBEDDING]);
  traffic->messages[TRAIN_MESH_EMBEDDING] = 2;
}

/* ---- data ranks ---- */

/* Elements of dense units or of experts that are sent. At stage 0 nothing is padded. */
static uint64_t elements_of(const train_plan_layout_t *layout, const train_partition_t *partition,
                            bool experts, uint64_t *buckets) {
  uint64_t elements = 0;
  *buckets = 0;
  for (int i = 0; i < partition->unit_count; i++) {
    const train_partition_unit_t *unit = &partition->units[i];
    if (unit->experts != experts) continue;
    elements += layout->zero == 0 ? unit->count : unit->padded;
    *buckets += (uint64_t)unit->bucket_count;
  }
  return elements;
}

/* Bytes per element that a ring of `replicas` sends together. */
static uint64_t replica_bytes(const train_plan_job_t *job, const train_plan_layout_t *layout,
                              uint64_t replicas) {
  uint64_t gradient = job->bfloat16_gradients ? sizeof(uint16_t) : sizeof(float);
  uint64_t weight = train_dtype_bytes(train_precision_stored(job->precision, TRAIN_KIND_WEIGHTS));
  uint64_t micro = micro_batches(layout), narrow = weight < gradient ? weight : gradient;
  switch (layout->zero) {
    case 0: return (replicas - 1) * 2 * gradient;
    case 1: return (replicas - 1) * (gradient + weight);
    case 2: return (replicas - 1) * (gradient * micro + weight);
    default: return (replicas - 1) * (gradient + 2 * narrow) * micro;
  }
}

/* Of experts, or of everything else; ep groups of ranks have different experts. Tensor ranks whose
 * experts are whole are in one group. */
static coll_status_t set_data(const train_plan_job_t *job, const train_plan_layout_t *layout,
                              const plan_links_t *links, bool experts,
                              train_plan_traffic_t *traffic) {
  train_mesh_group_t group = experts ? TRAIN_MESH_EXPERT_DATA : TRAIN_MESH_DATA;
  uint64_t replicas = size_of(layout, group), elements = 0, calls = layout->zero == 3 ? 3 : 2;
  uint64_t copies = experts ? size_of(layout, TRAIN_MESH_EP) * (uint64_t)layout->mesh.etp
                            : size_of(layout, TRAIN_MESH_TP);
  if (replicas == 1 || (experts && job->model.experts == 0)) return COLL_OK;
  for (int rank = 0; rank < plan_size(layout, TRAIN_MESH_PP); rank++) {
    train_partition_t *partition;
    uint64_t buckets;
    COLL_TRY(plan_partition(job, layout, rank, &partition));
    elements += copies * elements_of(layout, partition, experts, &buckets);
    traffic->messages[group] = buckets * calls * (replicas - 1);
    train_partition_destroy(partition);
  }
  if (layout->zero >= 2) traffic->messages[group] *= micro_batches(layout);
  set_bytes(traffic, group, elements * replica_bytes(job, layout, replicas), links->ring[group]);
  return COLL_OK;
}

/* ---- experts ---- */

/* A token visits top_k experts and comes back, and so do the gradients; one in ep experts is on the
 * token's own rank, on average. Tensor ranks that cut experts all send all tokens, those that do
 * not divide them. */
static void set_experts(const train_plan_job_t *job, const train_plan_layout_t *layout,
                        const plan_links_t *links, train_plan_traffic_t *traffic) {
  uint64_t experts = size_of(layout, TRAIN_MESH_EP), layers = expert_layers(job);
  uint64_t again = layout->recompute == TRAIN_RECOMPUTE_BLOCK ? 1 : 0; /* to the experts */
  uint64_t calls = micro_batches(layout) * layers * (4 + again);
  uint64_t groups = (uint64_t)layout->mesh.etp * size_of(layout, TRAIN_MESH_DATA) / experts;
  if (experts == 1) return;
  set_bytes(traffic, TRAIN_MESH_EP,
            groups * calls * (experts - 1) * (uint64_t)job->model.top_k * stream_bytes(job, layout),
            links->all[TRAIN_MESH_EP]);
  traffic->messages[TRAIN_MESH_EP] = calls / size_of(layout, TRAIN_MESH_PP) * (experts - 1);
}

coll_status_t plan_traffic(const train_plan_job_t *job, const train_plan_layout_t *layout,
                           const plan_links_t *links, train_plan_traffic_t *traffic) {
  *traffic = (train_plan_traffic_t){0};
  set_tensor(job, layout, links, traffic);
  set_context(job, layout, links, traffic);
  set_pipeline(job, layout, links, traffic);
  set_embedding(job, layout, links, traffic);
  set_experts(job, layout, links, traffic);
  COLL_TRY(set_data(job, layout, links, false, traffic));
  return set_data(job, layout, links, true, traffic);
}
