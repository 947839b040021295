/* The arenas of all ranks, as this rank's GPU addresses them, and how many blocks of all ranks may
 * wait for each other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/cuda/end_state.h"

static bool shares_gpu(const cuda_record_t *a, const cuda_record_t *b) {
  return memcmp(&a->gpu, &b->gpu, sizeof a->gpu) == 0;
}

/* ---- what cannot be --------------------------------------------------------------------------*/

/* The GPU of a rank, as this process counts them; CUDA_NO_DEVICE: it does not see it. */
static coll_status_t find_device(const cuda_end_t *end, const cuda_record_t *record, int *device) {
  for (*device = 0; *device < end->driver->device_count; ++*device) {
    cuda_uuid_t uuid;
    COLL_TRY(CUDA_END_CALL(end, cuDeviceGetUuid, &uuid, *device));
    if (memcmp(&uuid, &record->gpu, sizeof uuid) == 0) return COLL_OK;
  }
  *device = CUDA_NO_DEVICE;
  return COLL_OK;
}

/* Adds a rank whose memory this rank's GPU cannot map, for the reason of the last error. */
static void note_unreached(cuda_end_t *end, int peer) {
  size_t used = strlen(end->unreached);
  if (end->unreached_count++ == 0) {
    snprintf(end->unreached, sizeof end->unreached, "%s", base_last_error());
    return;
  }
  snprintf(end->unreached + used, sizeof end->unreached - used, "%s %d",
           end->unreached_count == 2 ? "; nor that of rank" : ",", peer);
}

static coll_status_t check_access(const cuda_end_t *end, int peer, const cuda_record_t *record) {
  int device, can = 0;
  COLL_TRY(find_device(end, record, &device));
  if (device == CUDA_NO_DEVICE) {
    return base_fail(COLL_ERROR_INTERNAL, "a rank's GPU does not exist in its own process");
  }
  if (device == end->device) return COLL_OK;
  COLL_TRY(CUDA_END_CALL(end, cuDeviceCanAccessPeer, &can, end->device, device));
  if (can != 0) return COLL_OK;
  return base_fail(COLL_ERROR_UNSUPPORTED,
                   "ranks %d and %d: GPU %d cannot access the memory of GPU %d (see nvidia-smi "
                   "topo -p2p r)",
                   end->rank, peer, end->device, device);
}

/* ---- arenas ----------------------------------------------------------------------------------*/

/* The arena of a rank of the same process: every GPU of the process that can access it may. */
static coll_status_t take_local(cuda_end_t *end, int peer, const cuda_record_t *record) {
  cuda_end_arena_t *arena = (cuda_end_arena_t *)(uintptr_t)record->arena;
  coll_status_t status = check_access(end, peer, record);
  if (status == COLL_ERROR_UNSUPPORTED) note_unreached(end, peer);
  COLL_TRY(status);
  cuda_end_arena_take(arena);
  end->local[peer] = arena;
  return COLL_OK;
}

static coll_status_t import(cuda_end_t *end, int peer, const cuda_record_t *record,
                            int descriptor) {
  char why[256];
  coll_status_t status = cuda_memory_import(end->driver, end->device, descriptor,
                                            record->arena_bytes, &end->imported[peer]);
  if (status == COLL_OK) return COLL_OK;
  snprintf(why, sizeof why, "%s", base_last_error());
  base_fail(status, "rank %d cannot map the memory of rank %d's GPU: %s", end->rank, peer, why);
  if (status != COLL_ERROR_MEMORY) note_unreached(end, peer);
  return status;
}

static coll_status_t map_arena(cuda_end_t *end, int peer, const cuda_record_t *record,
                               int descriptor, char **address) {
  cuda_ptr_t at = end->arena->memory.address;
  if (record->arena_bytes != end->arena->memory.bytes) {
    return base_fail(COLL_ERROR_INTERNAL, "ranks %d and %d have arenas of %zu and %zu bytes",
                     end->rank, peer, end->arena->memory.bytes, (size_t)record->arena_bytes);
  }
  if (peer != end->rank && record->process == end->process) {
    COLL_TRY(take_local(end, peer, record));
    at = end->local[peer]->memory.address;
  } else if (peer != end->rank) {
    COLL_TRY(import(end, peer, record, descriptor));
    at = end->imported[peer].address;
  }
  *address = (char *)(uintptr_t)at;
  return COLL_OK;
}

/* ---- what the kernel knows of its rank -------------------------------------------------------*/

/* The fewest that the GPU of any rank keeps resident for each of its ranks. */
static uint32_t resident_blocks(int size, const cuda_record_t records[]) {
  uint32_t fewest = UINT32_MAX;
  for (int rank = 0; rank < size; rank++) {
    uint32_t sharing = 0;
    for (int other = 0; other < size; other++) {
      sharing += shares_gpu(&records[rank], &records[other]);
    }
    uint32_t blocks = gpu_resident_blocks((uint32_t)records[rank].multiprocessors,
                                          (uint32_t)records[rank].blocks_each, sharing);
    if (blocks < fewest) fewest = blocks;
  }
  return fewest;
}

/* One claim for all ranks of the communicator on this GPU that are threads of this process. Of
 * other processes, which share a GPU by MPS, the communicator's other ranks are known alone: they
 * have their part of its blocks. */
static coll_status_t claim_blocks(cuda_end_t *end, const cuda_record_t records[]) {
  uint32_t channels = (uint32_t)end->room.channels, sharing = 0;
  uint32_t groups = 2 * (uint32_t)end->size - 1; /* a block for each direction of all peers */
  cuda_resident_ask_t ask = {.gpu = &end->gpu,
                             .device = end->device,
                             .each = (uint32_t)end->code->blocks_each,
                             .plans = channels,
                             .groups = groups <= 2 * channels ? groups : channels,
                             .most = channels * (uint32_t)end->room.slices,
                             .wanted = end->config.blocks};
  for (int rank = end->size - 1; rank >= 0; rank--) {
    if (!shares_gpu(&records[rank], &records[end->rank])) continue;
    sharing++;
    if (records[rank].process != end->process) continue;
    ask.ranks++;
    ask.owner = records[rank].arena;
  }
  end->sharing = (int)ask.ranks;
  uint32_t own, all = resident_blocks(end->size, records);
  ask.resident =
      (uint32_t)end->multiprocessors * (uint32_t)end->code->blocks_each * ask.ranks / sharing;
  COLL_TRY(cuda_resident_take(&ask, &end->claim, &own));
  end->offer.blocks = own < all ? own : all;
  return COLL_OK;
}

/* ---- what this rank offers -------------------------------------------------------------------*/

/* Whether a line that this GPU stores arrives there as a whole: in its own memory, and over NVLink,
 * the only link between GPUs that has native atomics. */
static coll_status_t carries_lines(const cuda_end_t *end, const cuda_record_t *record,
                                   bool *carries) {
  int device, atomics = 0;
  *carries = memcmp(&record->gpu, &end->gpu, sizeof end->gpu) == 0;
  if (*carries) return COLL_OK;
  COLL_TRY(find_device(end, record, &device));
  if (device == CUDA_NO_DEVICE) return COLL_OK;
  COLL_TRY(CUDA_END_CALL(end, cuDeviceGetP2PAttribute, &atomics, CUDA_P2P_NATIVE_ATOMICS,
                         end->device, device));
  *carries = atomics != 0;
  return COLL_OK;
}

static coll_status_t offer_lines(cuda_end_t *end, const cuda_record_t records[]) {
  bool carries = end->room.ll128_slot_bytes > 0;
  for (int peer = 0; carries && peer < end->size; peer++) {
    COLL_TRY(carries_lines(end, &records[peer], &carries));
  }
  end->offer.lines = carries;
  return COLL_OK;
}

cuda_offer_t cuda_end_offer(const cuda_end_t *end) {
  return end->offer;
}

int cuda_end_sharing(const cuda_end_t *end) {
  return end->sharing;
}

void cuda_end_agree(cuda_end_t *end, cuda_offer_t offer) {
  end->offer = offer;
  if (end->claim != NULL) cuda_resident_trim(end->claim, offer.blocks);
}

static coll_status_t upload_rank(cuda_end_t *end, char *arenas[]) {
  cuda_ptr_t table, here;
  COLL_TRY(cuda_end_upload(end, arenas, (size_t)end->size * sizeof *arenas, &table));
  char *words = (char *)(uintptr_t)end->words_address;
  const gpu_rank_t rank = {
      .room = end->room,
      .rank = end->rank,
      .abort = (const uint32_t *)(void *)(words + offsetof(cuda_end_words_t, abort)),
      .failed = (uint32_t *)(void *)(words + offsetof(cuda_end_words_t, failed)),
      .record = (gpu_record_t *)(uintptr_t)end->record_address,
      .arenas = (char *const *)(uintptr_t)table};
  COLL_TRY(cuda_end_upload(end, &rank, sizeof rank, &here));
  end->here = (const gpu_rank_t *)(uintptr_t)here;
  return COLL_OK;
}

/* Goes on behind a rank whose memory cannot be mapped, so that the text names all. */
static coll_status_t map_arenas(cuda_end_t *end, const cuda_record_t records[],
                                const int descriptors[], char *arenas[]) {
  coll_status_t first = COLL_OK;
  for (int peer = 0; peer < end->size; peer++) {
    int descriptor = descriptors == NULL ? -1 : descriptors[peer], count = end->unreached_count;
    coll_status_t status = map_arena(end, peer, &records[peer], descriptor, &arenas[peer]);
    if (status != COLL_OK && end->unreached_count == count) return status;
    if (first == COLL_OK) first = status;
  }
  return first == COLL_OK ? COLL_OK : base_fail(first, "%s", end->unreached);
}

static coll_status_t connect_all(cuda_end_t *end, const cuda_record_t records[],
                                 const int descriptors[], char *arenas[]) {
  COLL_TRY(map_arenas(end, records, descriptors, arenas));
  if (end->engine == CUDA_ENGINE_COPY) return cuda_end_copy_connect(end, arenas);
  end->executor = &cuda_kernel_executor;
  COLL_TRY(claim_blocks(end, records));
  COLL_TRY(offer_lines(end, records));
  return upload_rank(end, arenas);
}

int cuda_end_unreached(const cuda_end_t *end) {
  return end->unreached_count;
}

coll_status_t cuda_end_connect(cuda_end_t *end, const cuda_record_t records[],
                               const int descriptors[]) {
  cuda_capture_mode_t mode;
  char **arenas;
  COLL_TRY(cuda_end_choose(end, records));
  COLL_TRY(base_alloc((size_t)end->size, sizeof *arenas, "a GPU's peers", (void **)&arenas));
  coll_status_t status = cuda_end_enter(end, &mode);
  if (status == COLL_OK) {
    status = connect_all(end, records, descriptors, arenas);
    cuda_end_leave(end, mode);
  }
  free(arenas);
  return status;
}
