/* All sizes follow from the padded sizes of the partition. */
#include "libtrain/parallel/memory.h"

#include "libtrain/model/model.h"

static size_t max_size(size_t a, size_t b) {
  return a > b ? a : b;
}

/* Units before those of experts. */
static int dense_units(const train_partition_t *partition) {
  int count = 0;
  while (count < partition->unit_count && !partition->units[count].experts) count++;
  return count;
}

/* The largest size of two units that are used consecutively by a pass; experts are next to any
 * other unit. */
static size_t max_adjacent_units(const train_partition_t *partition) {
  const train_partition_unit_t *units = partition->units;
  int last = dense_units(partition) - 1;
  size_t max = units[last].padded + units[0].padded, dense = 0, experts = 0;
  for (int i = 0; i < last; i++) max = max_size(max, units[i].padded + units[i + 1].padded);
  for (int i = 0; i < partition->unit_count; i++) {
    size_t *largest = i <= last ? &dense : &experts;
    *largest = max_size(*largest, units[i].padded);
  }
  return experts > 0 ? max_size(max, dense + experts) : max;
}

train_workspaces_t train_workspaces_of(const train_partition_t *partition, int stage) {
  train_workspaces_t result = {0};
  enum { SLOTS = sizeof result.gradient_offsets / sizeof *result.gradient_offsets };
  size_t largest[SLOTS] = {0};
  if (stage < 2) return result;
  for (int i = 0; i < partition->unit_count; i++) {
    size_t *max = &largest[train_workspace_slot(partition, i)];
    *max = max_size(*max, partition->units[i].padded);
  }
  for (int slot = 0; slot < SLOTS; slot++) {
    result.gradient_offsets[slot] = result.gradients;
    result.gradients += largest[slot];
  }
  if (stage == 3) result.weights = max_adjacent_units(partition);
  return result;
}

train_memory_t train_memory_of(const train_partition_t *partition, int stage,
                               train_precision_t precision) {
  train_workspaces_t workspaces = train_workspaces_of(partition, stage);
  bool copies = train_precision_copies_weights(precision);
  size_t weights = (stage < 3 ? partition->padded : partition->owned);
  size_t parameters = copies ? partition->owned : weights;
  size_t parameter_bytes =
      train_dtype_bytes(train_precision_stored(precision, TRAIN_KIND_PARAMETERS));
  size_t weight_bytes = train_dtype_bytes(train_precision_stored(precision, TRAIN_KIND_WEIGHTS));
  return (train_memory_t){
      .parameters = parameters * parameter_bytes,
      .weights = copies ? weights * weight_bytes : 0,
      .gradients = (stage < 2 ? partition->padded : partition->owned) * sizeof(float),
      .moments = 2 * partition->owned * sizeof(float),
      .workspaces = workspaces.gradients * sizeof(float) + workspaces.weights * weight_bytes};
}

train_memory_t train_memory_on_rank(const train_store_options_t *options, int rank,
                                    const train_memory_t *of_rank_0) {
  train_memory_t memory = *of_rank_0;
  if (!options->naive || rank == 0) return memory;
  memory.moments = 0;
  if (train_precision_copies_weights(options->precision)) memory.parameters = 0;
  return memory;
}

coll_status_t train_memory_predict_store(const train_layout_t *layout,
                                         const train_store_options_t *options, int ranks,
                                         train_memory_t *memory) {
  train_partition_t *partition;
  COLL_TRY(train_partition_create(layout->units, layout->unit_count, options->bucket_bytes,
                                  options->stage, ranks, &partition));
  *memory = train_memory_of(partition, options->stage, options->precision);
  train_partition_destroy(partition);
  return COLL_OK;
}

coll_status_t train_memory_predict(const train_layout_t *layout,
                                   const train_model_options_t *model_options,
                                   const train_store_options_t *store_options, int ranks,
                                   train_memory_t *memory) {
  COLL_TRY(train_memory_predict_store(layout, store_options, ranks, memory));
  memory->activations = train_model_bytes(layout, model_options);
  return COLL_OK;
}

size_t train_update_bytes(train_precision_t precision) {
  const train_dtype_t *stored = train_policy_of(precision)->stored;
  size_t copy = train_dtype_bytes(stored[TRAIN_KIND_WEIGHTS]);
  return train_dtype_bytes(stored[TRAIN_KIND_GRADIENTS]) +
         2 * train_dtype_bytes(stored[TRAIN_KIND_PARAMETERS]) +
         4 * train_dtype_bytes(stored[TRAIN_KIND_MOMENTS]) +
         (train_precision_copies_weights(precision) ? copy : 0);
}

uint64_t train_traffic_predict(const train_layout_t *layout, const train_store_options_t *options,
                               int ranks, int micro_batches) {
  uint64_t count = layout->parameter_count, micro = (uint64_t)micro_batches;
  uint64_t gradient = options->comm.bfloat16 ? sizeof(uint16_t) : sizeof(float);
  uint64_t weight =
      train_dtype_bytes(train_precision_stored(options->precision, TRAIN_KIND_WEIGHTS));
  if (ranks == 1) return 0;
  if (options->naive) return (gradient + weight) * count;
  switch (options->stage) {
    case 0: return 2 * gradient * count;
    case 1: return (gradient + weight) * count;
    case 2: return (gradient * micro + weight) * count;
    default: return (gradient + 2 * (weight < gradient ? weight : gradient)) * micro * count;
  }
}
