/* Memory of users, registered for fetches by the first rail, and by others if the system allows
 * that. A region of coll_mem_alloc stays registered until it has been freed, or the system allows
 * no more. */
#include "transport/net/wire/verbs/state.h"
#include "transport/shm/memory.h"

static bool is_free(const verbs_region_t *region) {
  return region->mrs[0] == NULL;
}

static void deregister(verbs_t *verbs, verbs_region_t *region) {
  for (int i = 0; i < TRANSPORT_RAILS; i++) {
    if (region->mrs[i] != NULL) verbs->lib->ibv_dereg_mr(region->mrs[i]);
  }
  *region = (verbs_region_t){.uses = 0};
}

/* Deregisters regions that no fetch uses: those whose memory was freed, or all. */
static void drop_unused(verbs_t *verbs, bool all) {
  for (int i = 0; i < VERBS_REGIONS; i++) {
    verbs_region_t *region = &verbs->regions[i];
    if (is_free(region) || region->uses > 0) continue;
    if (all || !shm_memory_exists(region->segment)) deregister(verbs, region);
  }
}

static void drop_freed(verbs_t *verbs) {
  uint64_t freed = shm_memory_freed();
  if (freed == verbs->freed_seen) return;
  verbs->freed_seen = freed;
  drop_unused(verbs, false);
}

/* The region of a segment, or with segment 0 a free entry; -1: there is none. */
static int find(const verbs_t *verbs, uint64_t segment) {
  for (int i = 0; i < VERBS_REGIONS; i++) {
    const verbs_region_t *region = &verbs->regions[i];
    if (segment == 0 ? is_free(region) : !is_free(region) && region->segment == segment) return i;
  }
  return -1;
}

static int add(verbs_t *verbs, uint64_t segment, const void *ptr, size_t bytes, int access) {
  void *memory = (void *)(uintptr_t)ptr;
  int at = find(verbs, 0);
  if (at < 0) return -1;
  verbs_region_t *region = &verbs->regions[at];
  *region = (verbs_region_t){.segment = segment, .uses = 1};
  for (int i = 0; i < verbs->rail_count; i++) {
    region->mrs[i] = (verbs->lib->ibv_reg_mr)(verbs->rails[i].pd, memory, bytes, access);
    if (region->mrs[0] == NULL) return -1;
  }
  return at;
}

static int add_with_room(verbs_t *verbs, uint64_t segment, const void *ptr, size_t bytes,
                         int access) {
  int added = add(verbs, segment, ptr, bytes, access);
  if (added >= 0) return added;
  drop_unused(verbs, true);
  return add(verbs, segment, ptr, bytes, access);
}

int verbs_region_take(verbs_t *verbs, const void *ptr, size_t bytes, int access) {
  shm_memory_region_t memory;
  drop_freed(verbs);
  if (!shm_memory_find(ptr, bytes, false, &memory)) {
    return add_with_room(verbs, 0, ptr, bytes, access);
  }
  int found = find(verbs, memory.segment);
  if (found >= 0) {
    verbs->regions[found].uses++;
    return found;
  }
  return add_with_room(verbs, memory.segment, memory.segment_base, memory.segment_bytes,
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
}

void verbs_region_release(verbs_t *verbs, int region) {
  verbs_region_t *released = &verbs->regions[region];
  if (--released->uses == 0 && released->segment == 0) deregister(verbs, released);
}

void verbs_regions_destroy(verbs_t *verbs) {
  for (int i = 0; i < VERBS_REGIONS; i++) {
    if (!is_free(&verbs->regions[i])) deregister(verbs, &verbs->regions[i]);
  }
}
