/* A list under a mutex: communicators are few. A share is a part of what is left, so there is
 * something left for the next one. */
#include "device/cuda/resident.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

struct cuda_resident_claim {
  cuda_uuid_t gpu;
  uint64_t owner;
  uint32_t ranks, blocks; /* of each rank */
  uint32_t users;
  cuda_resident_claim_t *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cuda_resident_claim_t *first; /* guarded by lock, as all claims */

static bool is_on(const cuda_resident_claim_t *claim, const cuda_uuid_t *gpu) {
  return memcmp(&claim->gpu, gpu, sizeof *gpu) == 0;
}

static uint32_t claimed(const cuda_uuid_t *gpu) {
  uint32_t blocks = 0;
  for (const cuda_resident_claim_t *c = first; c != NULL; c = c->next) {
    if (is_on(c, gpu)) blocks += c->ranks * c->blocks;
  }
  return blocks;
}

static uint32_t larger(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}

static uint32_t smaller(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}

/* Of each rank. A communicator with one rank on the GPU gets blocks for a quarter of the
 * multiprocessors, as far as the GPU is free: more do not move more over links between GPUs. Ranks
 * that share the GPU's memory have use for all of it, and get three quarters of what is left. Fewer
 * than calls may need are given only if as many would not be left for others. */
static uint32_t share(const cuda_resident_ask_t *ask, uint32_t left) {
  uint32_t ranks = ask->ranks, most = smaller(ask->most, left / ranks);
  if (ask->wanted > 0) return smaller(ask->wanted, left / ranks);
  uint32_t blocks = ranks == 1 ? left / 4 / larger(ask->each, 1) : left / 4 * 3 / ranks;
  uint32_t spared = left == ask->resident ? 0 : left / 2;
  uint32_t more = larger(ask->groups, ask->plans), fewer = smaller(ask->groups, ask->plans);
  if (blocks < more && more * ranks + spared <= left) {
    blocks = more;
  } else if (blocks < fewer && fewer * ranks + spared <= left) {
    blocks = fewer;
  } else if (blocks < fewer) {
    blocks = larger(larger(blocks, left / 4 / ranks), 1);
  }
  return smaller(blocks, most);
}

static coll_status_t fail_full(const cuda_resident_ask_t *ask, uint32_t left) {
  return base_fail(COLL_ERROR_UNSUPPORTED,
                   "GPU %d keeps %u blocks of kernels resident, of which other communicators of "
                   "this process have %u: too few are left for %u rank%s; destroy communicators "
                   "that are not used any more, or set COLL_CUDA_BLOCKS to give each rank fewer",
                   ask->device, ask->resident, ask->resident - left, ask->ranks,
                   ask->ranks == 1 ? "" : "s");
}

/* With the lock. */
static coll_status_t make(const cuda_resident_ask_t *ask, cuda_resident_claim_t **claim) {
  cuda_resident_claim_t *made;
  uint32_t taken = claimed(ask->gpu);
  uint32_t left = ask->resident > taken ? ask->resident - taken : 0;
  uint32_t blocks = share(ask, left);
  if (blocks == 0) return fail_full(ask, left);
  COLL_TRY(base_alloc(1, sizeof *made, "a GPU's resident blocks", (void **)&made));
  made->gpu = *ask->gpu;
  made->owner = ask->owner;
  made->ranks = ask->ranks;
  made->blocks = blocks;
  made->next = first;
  first = *claim = made;
  return COLL_OK;
}

coll_status_t cuda_resident_take(const cuda_resident_ask_t *ask, cuda_resident_claim_t **claim,
                                 uint32_t *blocks) {
  coll_status_t status = COLL_OK;
  cuda_resident_claim_t *found;
  pthread_mutex_lock(&lock);
  found = first;
  while (found != NULL && !(found->owner == ask->owner && is_on(found, ask->gpu))) {
    found = found->next;
  }
  if (found == NULL) status = make(ask, &found);
  if (status == COLL_OK) {
    found->users++;
    *claim = found;
    *blocks = found->blocks;
  }
  pthread_mutex_unlock(&lock);
  return status;
}

void cuda_resident_trim(cuda_resident_claim_t *claim, uint32_t blocks) {
  pthread_mutex_lock(&lock);
  claim->blocks = smaller(claim->blocks, blocks);
  pthread_mutex_unlock(&lock);
}

void cuda_resident_release(cuda_resident_claim_t *claim) {
  if (claim == NULL) return;
  pthread_mutex_lock(&lock);
  bool ends = --claim->users == 0;
  cuda_resident_claim_t **link = &first;
  while (ends && *link != claim) link = &(*link)->next;
  if (ends) *link = claim->next;
  pthread_mutex_unlock(&lock);
  if (ends) free(claim);
}

uint32_t cuda_resident_claimed(const cuda_uuid_t *gpu) {
  pthread_mutex_lock(&lock);
  uint32_t blocks = claimed(gpu);
  pthread_mutex_unlock(&lock);
  return blocks;
}
