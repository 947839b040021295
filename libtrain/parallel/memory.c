/* All sizes follow from the padded sizes of the partition. */
#include "libtrain/parallel/memory.h"

#include "libtrain/model/model.h"

static size_t max_size(size_t a, size_t b) {
  return a > b ? a : b;
}

/* The largest size of two units that are used consecutively by a pass. */
static size_t max_adjacent_units(const train_partition_t *partition) {
  const train_partition_unit_t *units = partition->units;
  int last = partition->unit_count - 1;
  size_t max = units[last].padded + units[0].padded;
  for (int i = 0; i < last; i++) max = max_size(max, units[i].padded + units[i + 1].padded);
  return max;
}

train_workspaces_t train_workspaces_of(const train_partition_t *partition, int stage) {
  train_workspaces_t result = {0};
  size_t odd = 0, even = 0;
  if (stage < 2) return result;
  for (int i = 1; i < partition->unit_count; i++) {
    size_t *max = i % 2 == 1 ? &odd : &even;
    *max = max_size(*max, partition->units[i].padded);
  }
  result.gradient_offsets[1] = partition->units[0].padded;
  result.gradient_offsets[2] = result.gradient_offsets[1] + odd;
  result.gradients = result.gradient_offsets[2] + even;
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

coll_status_t train_memory_predict(const train_layout_t *layout,
                                   const train_model_options_t *model_options,
                                   const train_store_options_t *store_options, int ranks,
                                   train_memory_t *memory) {
  train_partition_t *partition;
  int stage = store_options->stage;
  COLL_TRY(train_partition_create(layout->units, layout->unit_count, store_options->bucket_bytes,
                                  train_stage_shards(stage, ranks), &partition));
  train_memory_t predicted = train_memory_of(partition, stage, store_options->precision);
  train_partition_destroy(partition);
  predicted.activations = train_model_bytes(layout, model_options);
  *memory = predicted;
  return COLL_OK;
}

uint64_t train_traffic_predict(const train_layout_t *layout, const train_store_options_t *options,
                               int ranks, int micro_batches) {
  uint64_t count = layout->parameter_count, micro = (uint64_t)micro_batches;
  uint64_t gradient = options->comm.bfloat16 ? sizeof(uint16_t) : sizeof(float);
  uint64_t weight =
      train_dtype_bytes(train_precision_stored(options->precision, TRAIN_KIND_WEIGHTS));
  if (ranks == 1) return 0;
  switch (options->stage) {
    case 0: return 2 * gradient * count;
    case 1: return (gradient + weight) * count;
    case 2: return (gradient * micro + weight) * count;
    default: return (gradient + 2 * (weight < gradient ? weight : gradient)) * micro * count;
  }
}
