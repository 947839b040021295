/* Everything follows from how the units are padded and shared out. */
#include "libtrain/parallel/memory.h"

#include <assert.h>

static size_t largest(size_t a, size_t b) {
  return a > b ? a : b;
}

/* The most that two neighbours take together, in the order in which passes ask for them. */
static size_t largest_neighbours(const train_shards_t *shards) {
  const train_shard_unit_t *units = shards->units;
  int last = shards->unit_count - 1;
  size_t most = units[last].padded + units[0].padded;
  for (int i = 0; i < last; i++) most = largest(most, units[i].padded + units[i + 1].padded);
  return most;
}

train_workspaces_t train_workspaces_of(const train_shards_t *shards, int stage) {
  train_workspaces_t made = {0};
  size_t odd = 0, even = 0;
  if (stage < 2) return made;
  for (int i = 1; i < shards->unit_count; i++) {
    size_t *most = i % 2 == 1 ? &odd : &even;
    *most = largest(*most, shards->units[i].padded);
  }
  made.open_at[1] = shards->units[0].padded;
  made.open_at[2] = made.open_at[1] + odd;
  made.open = made.open_at[2] + even;
  if (stage == 3) made.gathered = largest_neighbours(shards);
  return made;
}

train_memory_t train_memory_of(const train_shards_t *shards, int stage) {
  train_workspaces_t workspaces = train_workspaces_of(shards, stage);
  return (train_memory_t){
      .parameters = (stage < 3 ? shards->padded : shards->owned) * sizeof(float),
      .gradients = (stage < 2 ? shards->padded : shards->owned) * sizeof(float),
      .moments = 2 * shards->owned * sizeof(float),
      .workspaces = (workspaces.open + workspaces.gathered) * sizeof(float)};
}

coll_status_t train_memory_predict(const train_layout_t *layout,
                                   const train_model_options_t *model_options,
                                   const train_store_options_t *store_options, int ranks,
                                   train_memory_t *memory) {
  train_shards_t *shards;
  int stage = store_options->stage;
  COLL_TRY(train_shards_create(layout->units, layout->unit_count, store_options->bucket_bytes,
                               train_stage_owners(stage, ranks), &shards));
  train_memory_t predicted = train_memory_of(shards, stage);
  train_shards_destroy(shards);
  predicted.activations = train_model_bytes(layout, model_options);
  *memory = predicted;
  return COLL_OK;
}

uint64_t train_traffic_predict(const train_layout_t *layout, const train_store_options_t *options,
                               int ranks, int micro_batches) {
  uint64_t count = layout->parameter_count, micro = (uint64_t)micro_batches;
  uint64_t narrow = options->wire.bfloat16 ? sizeof(uint16_t) : sizeof(float);
  if (ranks == 1) return 0;
  switch (options->stage) {
    case 0: return 2 * narrow * count;
    case 1: return (narrow + sizeof(float)) * count;
    case 2: return (narrow * micro + sizeof(float)) * count;
    default: return 3 * narrow * micro * count;
  }
}
