/*
 * Where everything lies, and what happens to it between the passes: loading, the optimizer's step,
 * reading. Whatever collectives touch is memory that the peers can map.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "libtrain/common/random.h"
#include "libtrain/parallel/store_internal.h"

/* ---- life ---- */

static coll_status_t allocate_shared(train_store_t *store, size_t bytes, const char *what,
                                     float **values) {
  void *memory;
  if (bytes == 0) return COLL_OK;
  if (coll_mem_alloc(bytes, &memory) != COLL_OK) {
    return base_fail(COLL_ERROR_MEMORY, "no memory for %zu MiB of %s: %s", bytes >> 20, what,
                     coll_last_error(NULL));
  }
  *values = memory;
  store->bytes += bytes;
  return COLL_OK;
}

static coll_status_t allocate(train_store_t *store) {
  const train_shards_t *shards = store->shards;
  train_memory_t memory = train_memory_of(shards, store->options.stage);
  store_array_t *arrays = store->arrays;
  void *moments;
  COLL_TRY(base_alloc((size_t)shards->unit_count, sizeof *store->units, "the units",
                      (void **)&store->units));
  COLL_TRY(
      allocate_shared(store, memory.parameters, "parameters", &arrays[TRAIN_PARAMETERS].values));
  COLL_TRY(allocate_shared(store, memory.gradients, "gradients", &store->gradients.values));
  COLL_TRY(
      allocate_shared(store, store->workspaces.open * sizeof(float), "workspace", &store->open));
  COLL_TRY(allocate_shared(store, store->workspaces.gathered * sizeof(float), "workspace",
                           &store->gathered));
  COLL_TRY(base_alloc(memory.moments, 1, "the optimizer's moments", &moments));
  arrays[TRAIN_FIRST_MOMENTS].values = moments;
  arrays[TRAIN_SECOND_MOMENTS].values = arrays[TRAIN_FIRST_MOMENTS].values + shards->owned;
  store->bytes += memory.moments;
  return COLL_OK;
}

/* A wait has at most every bucket's reduction and every bucket's gathering before it. */
static coll_status_t prepare(train_store_t *store) {
  const train_store_options_t *options = &store->options;
  int owners = train_stage_owners(options->stage, store->team->size);
  COLL_TRY(train_shards_create(store->layout->units, store->layout->unit_count,
                               options->bucket_bytes, owners, &store->shards));
  store->owner = owners > 1 ? store->team->rank : 0;
  store->workspaces = train_workspaces_of(store->shards, options->stage);
  store->arrays[TRAIN_PARAMETERS].whole = options->stage < 3;
  store->gradients.whole = options->stage < 2;
  COLL_TRY(allocate(store));
  return train_wire_init(store->team, &options->wire, 2 * (size_t)store->shards->bucket_count,
                         &store->wire);
}

coll_status_t train_store_create(const train_layout_t *layout, const train_team_t *team,
                                 const train_store_options_t *options, train_store_t **store) {
  train_store_t *made = NULL;
  if (options->stage < 0 || options->stage > TRAIN_STAGE_MOST) {
    return base_fail(COLL_ERROR_INVALID, "stage %d: give 0 to %d", options->stage,
                     TRAIN_STAGE_MOST);
  }
  COLL_TRY(base_alloc(1, sizeof *made, "the store", (void **)&made));
  made->layout = layout;
  made->team = team;
  made->options = *options;
  made->acquired = made->fetched = -1;
  coll_status_t status = prepare(made);
  if (status != COLL_OK) {
    train_store_destroy(made);
    return status;
  }
  *store = made;
  return COLL_OK;
}

void train_store_destroy(train_store_t *store) {
  if (store == NULL) return;
  train_wire_free(&store->wire);
  free(store->arrays[TRAIN_FIRST_MOMENTS].values);
  coll_mem_free(store->gathered);
  coll_mem_free(store->open);
  coll_mem_free(store->gradients.values);
  coll_mem_free(store->arrays[TRAIN_PARAMETERS].values);
  free(store->units);
  train_shards_destroy(store->shards);
  free(store);
}

/* ---- reading and loading ---- */

/* Where a bucket lies in the flat space. */
static size_t flat_of(const train_store_t *store, const train_bucket_t *bucket) {
  return store->layout->units[bucket->unit].offset + bucket->offset;
}

coll_status_t train_store_load(train_store_t *store, const train_flat_t *from) {
  for (int array = 0; array < TRAIN_ARRAYS; array++) {
    const store_array_t *to = &store->arrays[array];
    for (int i = 0; i < store->shards->bucket_count; i++) {
      const train_bucket_t *bucket = &store->shards->buckets[i];
      size_t first = to->whole ? 0 : (size_t)store->owner * bucket->share;
      size_t count = to->whole ? bucket->count : train_bucket_owned(bucket, store->owner);
      float *values = to->whole ? store_unit_at(store, to, bucket->unit) + bucket->offset
                                : store_share_at(store, to, bucket);
      COLL_TRY(from->read(from->context, (train_array_t)array, flat_of(store, bucket) + first,
                          count, values));
    }
  }
  return COLL_OK;
}

/* What training starts from: parameters of a seed, no moments. */
typedef struct beginning {
  train_pool_t *pool;
  const train_layout_t *layout;
  uint64_t seed;
} beginning_t;

static coll_status_t read_beginning(void *context, train_array_t array, size_t first, size_t count,
                                    float *values) {
  const beginning_t *beginning = context;
  if (array == TRAIN_PARAMETERS) {
    train_layout_initialize(beginning->pool, beginning->layout, beginning->seed, first, count,
                            values);
  } else {
    memset(values, 0, count * sizeof *values);
  }
  return COLL_OK;
}

coll_status_t train_store_initialize(train_store_t *store, uint64_t seed) {
  beginning_t beginning = {.pool = store->options.pool, .layout = store->layout, .seed = seed};
  const train_flat_t flat = {.context = &beginning, .read = read_beginning};
  return train_store_load(store, &flat);
}

/* What is asked of a read. */
typedef struct piece {
  size_t first, count;
  float *values;
} piece_t;

/* Elements first .. first + count - 1 of the flat space, as far as they are asked for. They lie at
 * `held`, NULL where this rank does not have them, and come from rank `root`, -1 when everybody has
 * them. */
static coll_status_t read_run(const train_store_t *store, size_t first, size_t count,
                              const float *held, int root, const piece_t *piece) {
  size_t end = first + count, piece_end = piece->first + piece->count;
  size_t from = first > piece->first ? first : piece->first, to = end < piece_end ? end : piece_end;
  if (from >= to) return COLL_OK;
  float *place = piece->values + (from - piece->first);
  if (held != NULL) memcpy(place, held + (from - first), (to - from) * sizeof *place);
  return root < 0 ? COLL_OK : train_team_broadcast_floats(store->team, place, to - from, root);
}

static coll_status_t read_bucket(const train_store_t *store, const store_array_t *array,
                                 const train_bucket_t *bucket, const piece_t *piece) {
  size_t first = flat_of(store, bucket);
  if (array->whole) {
    const float *held = store_unit_at(store, array, bucket->unit) + bucket->offset;
    return read_run(store, first, bucket->count, held, -1, piece);
  }
  for (int rank = 0; rank < store->shards->ranks; rank++) {
    const float *held = rank == store->owner ? store_share_at(store, array, bucket) : NULL;
    COLL_TRY(read_run(store, first + (size_t)rank * bucket->share, train_bucket_owned(bucket, rank),
                      held, store->shards->ranks > 1 ? rank : -1, piece));
  }
  return COLL_OK;
}

static coll_status_t read_flat(void *context, train_array_t array, size_t first, size_t count,
                               float *values) {
  const train_store_t *store = context;
  const piece_t piece = {.first = first, .count = count, .values = values};
  for (int i = 0; i < store->shards->bucket_count; i++) {
    COLL_TRY(read_bucket(store, &store->arrays[array], &store->shards->buckets[i], &piece));
  }
  return COLL_OK;
}

train_flat_t train_store_flat(train_store_t *store) {
  return (train_flat_t){.context = store, .read = read_flat};
}

/* ---- a step ---- */

void train_store_begin(train_store_t *store, int micro_batches) {
  assert(micro_batches >= 1);
  store->micro_batches = micro_batches;
  store->micro_batch = 0;
  store->wire.bytes_sent = 0;
  store->wire.waited_ns = 0;
}

/* The part of a bucket that this rank alone counts. Where gradients are whole they are the same
 * everywhere, at stage 0 in all of the bucket, and the ranks divide the counting. */
static double squares_of(const train_store_t *store, const train_bucket_t *bucket) {
  const float *share = store_share_at(store, &store->gradients, bucket);
  size_t first = 0, count = train_bucket_owned(bucket, store->owner);
  if (store->options.stage == 0) {
    size_t rank = (size_t)store->team->rank, size = (size_t)store->team->size;
    first = bucket->count * rank / size;
    count = bucket->count * (rank + 1) / size - first;
  }
  return train_square_sum(store->options.pool, share + first, count);
}

coll_status_t train_store_finish(train_store_t *store, double *squares) {
  assert(store->micro_batch == store->micro_batches);
  double sum = 0;
  COLL_TRY(store_settle(store));
  for (int i = 0; i < store->shards->bucket_count; i++) {
    sum += squares_of(store, &store->shards->buckets[i]);
  }
  *squares = sum;
  return COLL_OK;
}

coll_status_t train_store_update(train_store_t *store, const train_adamw_t *adamw,
                                 float gradient_scale, float rate, uint64_t step) {
  const store_array_t *arrays = store->arrays;
  bool gathers = store->options.stage == 1 || store->options.stage == 2;
  for (int i = 0; i < store->shards->bucket_count; i++) {
    const train_bucket_t *bucket = &store->shards->buckets[i];
    float *share = store_share_at(store, &arrays[TRAIN_PARAMETERS], bucket);
    train_adamw_step(store->options.pool, adamw, store->layout,
                     flat_of(store, bucket) + (size_t)store->owner * bucket->share,
                     train_bucket_owned(bucket, store->owner),
                     store_share_at(store, &store->gradients, bucket), gradient_scale, rate, step,
                     share, store_share_at(store, &arrays[TRAIN_FIRST_MOMENTS], bucket),
                     store_share_at(store, &arrays[TRAIN_SECOND_MOMENTS], bucket));
    if (!gathers) continue;
    COLL_TRY(train_wire_allgather(
        &store->wire, share,
        store_unit_at(store, &arrays[TRAIN_PARAMETERS], bucket->unit) + bucket->offset,
        bucket->share, bucket->count));
  }
  return train_wire_wait(&store->wire);
}

/* ---- what it takes ---- */

train_traffic_t train_store_traffic(const train_store_t *store) {
  return (train_traffic_t){.bytes_sent = store->wire.bytes_sent,
                           .waited_ns = store->wire.waited_ns};
}

void train_store_set_overlap(train_store_t *store, bool overlap) {
  store->wire.options.overlap = overlap;
}

const train_store_options_t *train_store_options(const train_store_t *store) {
  return &store->options;
}

const train_layout_t *train_store_layout(const train_store_t *store) {
  return store->layout;
}

uint64_t train_store_digest(const train_store_t *store) {
  const train_store_options_t *options = &store->options;
  const train_model_config_t *config = &store->layout->config;
  const uint64_t numbers[] = {(uint64_t)options->stage, options->bucket_bytes,
                              options->wire.overlap, options->wire.bfloat16, options->wire.silent};
  return train_random_digest(train_random_digest(0, numbers, sizeof numbers), config,
                             sizeof *config);
}

size_t train_store_bytes(const train_store_t *store) {
  return store->bytes;
}
