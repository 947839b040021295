/*
 * All arrays of the passes lie in one arena. The same code first computes the arena's size and
 * then, with the arena allocated, assigns the arrays.
 */
#include "libtrain/model/activations.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "libtrain/model/context.h"
#include "libtrain/parallel/axis.h"

#define HUGE_PAGE ((size_t)2 << 20)

typedef struct carver {
  char *arena; /* NULL while the size is computed */
  size_t used; /* bytes */
  train_dtype_t dtype;
  const train_model_config_t *config;
  train_router_t router; /* of blocks with experts */
  train_experts_sizes_t experts;
} carver_t;

/* Which arrays each block has of its own; the others are shared by all blocks. */
typedef struct owned {
  bool attention, qkv, mlp, route, out, d_norms;
} owned_t;

static bool exchanges_heads(const train_model_axes_t *axes) {
  return train_context_is_cut(axes) && axes->context_kind == TRAIN_CONTEXT_ULYSSES;
}

static owned_t owned_by_blocks(const train_model_options_t *options) {
  if (options->forward_only) return (owned_t){.qkv = true};
  bool all = options->recompute == TRAIN_RECOMPUTE_NONE;
  return (owned_t){.attention = all,
                   .qkv = all || train_slices_are_cut(&options->slices),
                   .mlp = options->recompute != TRAIN_RECOMPUTE_BLOCK,
                   .route = true,
                   .out = true,
                   .d_norms = options->split_backward};
}

train_router_t train_router_of(const train_layout_t *layout, const train_model_options_t *options) {
  const train_axis_t *context = options->axes.context;
  bool ring = context != NULL && context->group.size > 1 &&
              options->axes.context_kind == TRAIN_CONTEXT_RING;
  const train_router_t router = {
      .width = layout->config.width,
      .experts = layout->config.experts,
      .top_k = layout->config.top_k,
      /* An extended sequence drops nothing. */
      .capacity_factor = options->forward_only ? 0 : options->experts.capacity_factor,
      .balance = options->experts.balance,
      .z = options->experts.z,
      .segments = ring ? 2 : 1,
      .part = layout->part.whole_experts ? layout->part.tensor_rank : 0,
      .parts = train_part_expert_copies(&layout->part),
      .replay = options->experts.replay};
  return train_experts_router(&router, layout->part.expert_ranks);
}

static carver_t carver_of(const train_layout_t *layout, const train_model_options_t *options,
                          const train_sizes_t *sizes) {
  const train_axis_t *context = options->axes.context;
  train_dtype_t dtype = train_precision_stored(options->precision, TRAIN_KIND_ACTIVATIONS);
  const train_experts_sizes_t experts = {.rows = (int)sizes->rows,
                                         .sequences = options->sequences,
                                         .length = layout->config.context,
                                         .expert_ranks = layout->part.expert_ranks,
                                         .context_ranks = context != NULL ? context->group.size : 1,
                                         .hidden_width = (int)sizes->expert_hidden,
                                         .dtype = dtype,
                                         .training = !options->forward_only,
                                         .splits = options->split_backward};
  return (carver_t){.dtype = dtype,
                    .config = &layout->config,
                    .router = train_router_of(layout, options),
                    .experts = experts};
}

static void *carve_bytes(carver_t *carver, size_t bytes) {
  void *array = carver->arena != NULL ? carver->arena + carver->used : NULL;
  carver->used += base_round_up(bytes, BASE_CACHE_LINE);
  return array;
}

static void *carve(carver_t *carver, size_t rows, size_t columns) {
  return carve_bytes(carver, rows * columns * train_dtype_bytes(carver->dtype));
}

static float *carve_floats(carver_t *carver, size_t count) {
  return carve_bytes(carver, count * sizeof(float));
}

/* The memory at the end of what is carved; NULL while the size is computed. */
static void *next_of(const carver_t *carver) {
  return carver->arena != NULL ? carver->arena + carver->used : NULL;
}

static void carve_experts(carver_t *carver, const owned_t *owned,
                          train_experts_activations_t *experts) {
  if (owned->route) {
    carver->used +=
        train_experts_carve_route(&carver->router, &carver->experts, next_of(carver), experts);
  }
  if (owned->mlp) {
    carver->used +=
        train_experts_carve(&carver->router, &carver->experts, next_of(carver), experts);
  }
}

/* A block with the parts that are needed: a dense MLP, experts or both. */
static void carve_block(carver_t *carver, const train_sizes_t *sizes, const owned_t *owned,
                        bool dense, bool experts, block_activations_t *block) {
  size_t rows = sizes->rows, stream_rows = sizes->stream_rows, width = sizes->width;
  if (owned->attention) {
    block->normed1 = carve(carver, stream_rows, width);
    block->mean1 = carve_floats(carver, stream_rows);
    block->rstd1 = carve_floats(carver, stream_rows);
    block->attended = carve(carver, rows, sizes->head_features);
    block->log_sums = carve_floats(carver, rows * sizes->heads);
    if (sizes->exchanges_heads) block->exchanged = carve(carver, rows, sizes->head_features);
  }
  if (owned->qkv) block->qkv = carve(carver, rows, 3 * sizes->head_features);
  if (owned->mlp) {
    block->mid_stream = carve(carver, stream_rows, width);
    block->normed2 = carve(carver, stream_rows, width);
    block->mean2 = carve_floats(carver, stream_rows);
    block->rstd2 = carve_floats(carver, stream_rows);
  }
  if (owned->mlp && dense) {
    block->hidden = carve(carver, rows, sizes->hidden);
    block->active = carve(carver, rows, sizes->hidden);
  }
  if (experts) carve_experts(carver, owned, &block->experts);
  if (owned->out) block->out = carve(carver, stream_rows, width);
  if (owned->d_norms) {
    block->d_norm1 = carve_floats(carver, 2 * width);
    block->d_norm2 = carve_floats(carver, 2 * width);
  }
}

/* The sizes of passes of sequences of that length on this rank. */
static train_sizes_t sizes_of_length(const train_sizes_t *sizes,
                                     const train_model_options_t *options, int length) {
  train_sizes_t result = *sizes;
  bool divided = options->axes.sequence_parallel;
  result.length = length;
  result.rows = (size_t)options->sequences * (size_t)length;
  result.stream_rows = divided ? result.rows / (size_t)sizes->tensor_ranks : result.rows;
  return result;
}

train_sizes_t train_sizes_of(const train_layout_t *layout, const train_model_options_t *options) {
  const train_model_config_t *config = &layout->config;
  const train_part_t *part = &layout->part;
  int ranks = part->tensor_ranks;
  train_sizes_t sizes = {
      .width = (size_t)config->width,
      .tensor_ranks = ranks,
      .heads = (size_t)(config->heads / ranks),
      .head_features = (size_t)(config->width / ranks),
      .hidden = (size_t)(4 * config->width / ranks),
      .expert_hidden = (size_t)(4 * config->width / train_part_expert_cuts(part)),
      .layers = part->chunks[options->chunk].layers,
      .first_layer = part->chunks[options->chunk].first_layer,
      .length = config->context};
  const train_tensor_t *head = train_layout_tensor(layout, 0, train_layout_head(layout));
  if (options->axes.context != NULL) sizes.length /= options->axes.context->group.size;
  sizes.exchanges_heads = exchanges_heads(&options->axes);
  sizes.tokens = (size_t)head->rows;
  sizes.sequence_rows = (size_t)options->sequences * (size_t)sizes.length;
  return sizes_of_length(&sizes, options, train_slices_longest(&options->slices, sizes.length));
}

static size_t scratch_of(const carver_t *carver, const train_sizes_t *sizes,
                         const train_model_options_t *options) {
  int attended = sizes->length;
  if (sizes->exchanges_heads) attended *= options->axes.context->group.size;
  const train_ops_sizes_t ops_sizes = {
      .rows = (int)sizes->rows,
      .length = attended,
      .width = (int)sizes->width,
      .head_width = (int)(sizes->head_features / sizes->heads),
      .vocabulary = (int)sizes->tokens,
      .vocabulary_parts = sizes->tensor_ranks > 1 ? sizes->tensor_ranks : 0,
      .dtype = train_precision_stored(options->precision, TRAIN_KIND_ACTIVATIONS),
      .threads = train_pool_threads(options->pool),
      .training = !options->forward_only};
  size_t for_ops = options->ops->scratch_floats(&ops_sizes), for_experts = 0;
  if (carver->config->experts > 0) {
    for_experts = train_experts_scratch(&carver->router, &carver->experts);
  }
  return for_ops > for_experts ? for_ops : for_experts;
}

static int slots_of(const train_model_options_t *options) {
  return (options->slots > 0 ? options->slots : 1) * train_slices_count(&options->slices);
}

/* The tokens of a sequence in a slot, of which each micro-batch has one per slice. */
static int slot_length(const train_sizes_t *sizes, const train_model_options_t *options, int slot) {
  return train_slices_length(&options->slices, slot % train_slices_count(&options->slices),
                             sizes->length);
}

/* A micro-batch, or a slice of it, whose blocks share what `common` has. */
static void carve_slot(carver_t *carver, const train_sizes_t *sizes, const owned_t *owned,
                       const block_activations_t *common, train_slot_t *slot) {
  const train_model_config_t *config = carver->config;
  void *embedded = carve(carver, sizes->stream_rows, sizes->width);
  if (slot != NULL) slot->embedded = embedded;
  for (int layer = 0; layer < sizes->layers; layer++) {
    block_activations_t block = *common;
    bool experts = train_model_has_experts(config, sizes->first_layer + layer);
    carve_block(carver, sizes, owned, !experts || config->shared_expert, experts, &block);
    if (slot != NULL) slot->blocks[layer] = block;
  }
}

/* activations->slots may be NULL while the size is computed. */
static void carve_slots(carver_t *carver, const train_model_options_t *options, int slots,
                        train_activations_t *activations) {
  const train_sizes_t *sizes = &activations->sizes;
  const owned_t owned = owned_by_blocks(options);
  const owned_t shared = {.attention = !owned.attention,
                          .qkv = !owned.qkv,
                          .mlp = !owned.mlp,
                          .route = !owned.route,
                          .out = !owned.out};
  block_activations_t common = {0};
  carve_block(carver, sizes, &shared, true, carver->config->experts > 0, &common);
  for (int slot = 0; slot < slots; slot++) {
    const train_sizes_t own = sizes_of_length(sizes, options, slot_length(sizes, options, slot));
    train_slot_t *made = activations->slots != NULL ? &activations->slots[slot] : NULL;
    carve_slot(carver, &own, &owned, &common, made);
  }
}

/* Forward passes of a ring use `running` where backward passes use the rest. */
static void carve_ring(carver_t *carver, const train_sizes_t *sizes, bool training,
                       train_context_buffers_t *buffers) {
  size_t count = sizes->rows * sizes->head_features, start = carver->used;
  const train_batch_t rows = {.sequences = 1, .length = (int)sizes->rows};
  int heads = (int)sizes->heads;
  buffers->running = carve_floats(
      carver, train_attention_running_floats(&rows, heads, (int)sizes->head_features / heads));
  if (!training) return;
  size_t end = carver->used;
  carver->used = start;
  for (int i = 0; i < 3; i++) buffers->gradients[i] = carve_floats(carver, 2 * count);
  buffers->d_query = carve_floats(carver, count);
  buffers->d_sums = carve_floats(carver, sizes->rows * sizes->heads);
  if (carver->used < end) carver->used = end;
}

/* d_wide is free while attention sends and receives: it is written before and after. Its 4 *
 * head_features columns hold both arrays of a ring, and one of Ulysses. */
static void carve_moving(carver_t *carver, const train_model_options_t *options,
                         train_activations_t *activations) {
  const train_sizes_t *sizes = &activations->sizes;
  size_t parts = sizes->exchanges_heads ? 3 : 2, columns = parts * sizes->head_features;
  void **moving = activations->context.moving, *wide = activations->d_wide;
  bool training = !options->forward_only;
  moving[0] = training ? wide : carve(carver, sizes->rows, columns);
  if (training && !sizes->exchanges_heads) {
    size_t half = sizes->rows * columns;
    moving[1] = wide != NULL ? train_dtype_at(carver->dtype, wide, half) : NULL;
  } else {
    moving[1] = carve(carver, sizes->rows, columns);
  }
}

static void carve_context(carver_t *carver, const train_model_options_t *options,
                          train_activations_t *activations) {
  const train_sizes_t *sizes = &activations->sizes;
  if (!train_context_is_cut(&options->axes)) return;
  carve_moving(carver, options, activations);
  if (sizes->exchanges_heads) return;
  carve_ring(carver, sizes, !options->forward_only, &activations->context);
}

static void carve_slices(carver_t *carver, const train_model_options_t *options,
                         train_activations_t *activations) {
  const train_sizes_t *sizes = &activations->sizes;
  train_slice_buffers_t *buffers = &activations->slices;
  const train_batch_t rows = {.sequences = 1, .length = (int)sizes->rows};
  size_t features = sizes->head_features, layers = (size_t)sizes->layers;
  if (!train_slices_are_cut(&options->slices)) return;
  buffers->running = carve_floats(
      carver,
      train_attention_running_floats(&rows, (int)sizes->heads, (int)(features / sizes->heads)));
  buffers->d_query = buffers->running;
  buffers->d_sums = buffers->running != NULL ? buffers->running + sizes->rows * features : NULL;
  buffers->d_keys = carve_floats(carver, layers * 2 * sizes->sequence_rows * features);
}

static void carve_all(carver_t *carver, const train_model_options_t *options,
                      train_activations_t *activations) {
  const train_sizes_t *sizes = &activations->sizes;
  carve_slots(carver, options, slots_of(options), activations);
  activations->normed = carve(carver, sizes->stream_rows, sizes->width);
  activations->mean = carve_floats(carver, sizes->stream_rows);
  activations->rstd = carve_floats(carver, sizes->stream_rows);
  if (!options->forward_only) {
    activations->d_stream = carve(carver, sizes->stream_rows, sizes->width);
    activations->d_narrow = carve(carver, sizes->rows, sizes->width);
    activations->d_wide = carve(carver, sizes->rows, sizes->hidden);
  }
  if (options->axes.sequence_parallel) {
    activations->gathered = carve(carver, sizes->rows, sizes->width);
    activations->partial =
        options->forward_only ? carve(carver, sizes->rows, sizes->width) : activations->d_narrow;
  }
  carve_context(carver, options, activations);
  carve_slices(carver, options, activations);
  if (carver->config->experts > 0) {
    carver->used += train_experts_carve_buffers(&carver->router, &carver->experts, next_of(carver),
                                                &activations->experts);
    if (sizes->tensor_ranks > 1) activations->combined = carve(carver, sizes->rows, sizes->width);
  }
  activations->scratch = carve_floats(carver, scratch_of(carver, sizes, options));
}

size_t train_activations_bytes(const train_layout_t *layout, const train_model_options_t *options) {
  train_activations_t unused = {.sizes = train_sizes_of(layout, options)};
  carver_t carver = carver_of(layout, options, &unused.sizes);
  carve_all(&carver, options, &unused);
  return base_round_up(carver.used, HUGE_PAGE);
}

/* Requests huge pages, because the passes access the arena with large strides. */
static coll_status_t allocate_arena(size_t bytes, int sequences, void **arena) {
  void *memory = aligned_alloc(HUGE_PAGE, bytes);
  if (memory == NULL) {
    return base_fail(COLL_ERROR_MEMORY,
                     "out of memory: %zu MiB of activations for %d sequences; lower --batch",
                     bytes >> 20, sequences);
  }
  madvise(memory, bytes, MADV_HUGEPAGE);
  *arena = memory;
  return COLL_OK;
}

/* The slots with their lists of blocks and tokens. */
static coll_status_t allocate_slots(const train_model_options_t *options,
                                    train_activations_t *activations) {
  const train_sizes_t *sizes = &activations->sizes;
  int slots = slots_of(options), slices = train_slices_count(&options->slices);
  size_t count = (size_t)slots, layers = (size_t)sizes->layers, tokens = 0;
  void *memory;
  COLL_TRY(base_alloc(count, sizeof(train_slot_t), "the activations", &memory));
  activations->slots = memory;
  activations->slot_count = slots;
  COLL_TRY(base_alloc(count * layers, sizeof(block_activations_t), "the activations", &memory));
  activations->all_blocks = memory;
  COLL_TRY(base_alloc(count / (size_t)slices * sizes->sequence_rows, sizeof(int32_t), "the tokens",
                      &memory));
  activations->all_tokens = memory;
  for (int i = 0; i < slots; i++) {
    train_slot_t *slot = &activations->slots[i];
    slot->slice = i % slices;
    slot->blocks = activations->all_blocks + (size_t)i * layers;
    slot->tokens = activations->all_tokens + tokens;
    tokens += (size_t)options->sequences * (size_t)slot_length(sizes, options, i);
  }
  return COLL_OK;
}

coll_status_t train_activations_create(const train_layout_t *layout,
                                       const train_model_options_t *options,
                                       train_activations_t **activations) {
  void *memory;
  COLL_TRY(base_alloc(1, sizeof(train_activations_t), "the activations", &memory));
  train_activations_t *created = memory;
  created->sizes = train_sizes_of(layout, options);
  coll_status_t status = allocate_slots(options, created);
  if (status == COLL_OK) {
    status = allocate_arena(train_activations_bytes(layout, options), options->sequences,
                            &created->arena);
  }
  if (status != COLL_OK) {
    train_activations_destroy(created);
    return status;
  }
  carver_t carver = carver_of(layout, options, &created->sizes);
  carver.arena = created->arena;
  carve_all(&carver, options, created);
  *activations = created;
  return COLL_OK;
}

void train_activations_destroy(train_activations_t *activations) {
  if (activations == NULL) return;
  free(activations->arena);
  free(activations->all_tokens);
  free(activations->all_blocks);
  free(activations->slots);
  free(activations);
}
