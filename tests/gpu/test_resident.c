/* The blocks that communicators claim of a GPU. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/status.h"
#include "device/cuda/resident.h"

#define CLAIMS_MAX 64

/* An H200 whose multiprocessors keep a block each. */
static const cuda_uuid_t gpu = {{1, 2, 3}};

static cuda_resident_ask_t ask_of(uint64_t owner, uint32_t ranks) {
  return (cuda_resident_ask_t){.gpu = &gpu,
                               .device = 3,
                               .owner = owner,
                               .resident = 132,
                               .each = 1,
                               .ranks = ranks,
                               .plans = 8,
                               .groups = 15,
                               .most = 128};
}

/* Claims for communicators of that many ranks until there is nothing left; returns how many. */
static int take_all(uint32_t ranks, cuda_resident_claim_t *claims[], uint32_t blocks[]) {
  int count = 0;
  for (;; count++) {
    const cuda_resident_ask_t ask = ask_of((uint64_t)count + 1, ranks);
    cr_assert(count < CLAIMS_MAX);
    if (cuda_resident_take(&ask, &claims[count], &blocks[count]) != COLL_OK) return count;
    cr_assert(blocks[count] >= 1 && cuda_resident_claimed(&gpu) <= ask.resident);
  }
}

static void release_all(cuda_resident_claim_t *claims[], int count) {
  for (int i = 0; i < count; i++) cuda_resident_release(claims[i]);
  cr_assert_eq(cuda_resident_claimed(&gpu), 0);
}

Test(resident, a_communicator_with_a_rank_on_each_gpu) {
  cuda_resident_claim_t *claims[CLAIMS_MAX];
  uint32_t blocks[CLAIMS_MAX];
  int count = take_all(1, claims, blocks);
  cr_assert_eq(blocks[0], 33);
  cr_assert_geq(blocks[4], 15);
  cr_assert_geq(count, 16, "room for %d communicators", count);
  cr_assert_eq(cuda_resident_claimed(&gpu), 132);
  cr_assert(strstr(base_last_error(),
                   "GPU 3 keeps 132 blocks of kernels resident, of which other "
                   "communicators of this process have 132") != NULL);
  release_all(claims, count);
}

Test(resident, two_blocks_on_each_multiprocessor) {
  cuda_resident_ask_t ask = ask_of(1, 1);
  cuda_resident_claim_t *claim;
  uint32_t blocks;
  ask.resident = 264;
  ask.each = 2;
  cr_assert_eq(cuda_resident_take(&ask, &claim, &blocks), COLL_OK);
  cr_assert_eq(blocks, 33);
  release_all(&claim, 1);
}

Test(resident, ranks_that_share_a_gpu) {
  cuda_resident_claim_t *claims[CLAIMS_MAX];
  uint32_t blocks[CLAIMS_MAX];
  int count = take_all(2, claims, blocks);
  cr_assert_eq(blocks[0], 49);
  cr_assert_geq(count, 5, "room for %d communicators", count);
  release_all(claims, count);
  count = take_all(8, claims, blocks);
  cr_assert_eq(blocks[0], 15);
  release_all(claims, count);
}

Test(resident, ranks_of_one_communicator_have_one_claim) {
  const cuda_resident_ask_t ask = ask_of(1, 2), other = ask_of(2, 1);
  cuda_resident_claim_t *claims[3];
  uint32_t blocks[3];
  for (int i = 0; i < 2; i++) {
    cr_assert_eq(cuda_resident_take(&ask, &claims[i], &blocks[i]), COLL_OK);
    cr_assert_eq(cuda_resident_claimed(&gpu), 98);
  }
  cr_assert(claims[0] == claims[1] && blocks[0] == 49 && blocks[1] == 49);
  for (int i = 0; i < 2; i++) cuda_resident_trim(claims[i], 10); /* as another rank has fewer */
  cr_assert_eq(cuda_resident_claimed(&gpu), 20);
  cr_assert_eq(cuda_resident_take(&other, &claims[2], &blocks[2]), COLL_OK);
  cuda_resident_release(claims[0]); /* the kernels of the other rank still run */
  cr_assert_eq(cuda_resident_claimed(&gpu), 20 + blocks[2]);
  release_all(claims + 1, 2);
}

Test(resident, a_number_that_is_set) {
  cuda_resident_ask_t ask = ask_of(1, 2), next = ask_of(2, 2);
  cuda_resident_claim_t *claims[2];
  uint32_t blocks;
  ask.wanted = 64;
  cr_assert_eq(cuda_resident_take(&ask, &claims[0], &blocks), COLL_OK);
  cr_assert_eq(blocks, 64);
  next.wanted = 64;
  cr_assert_eq(cuda_resident_take(&next, &claims[1], &blocks), COLL_OK);
  cr_assert_eq(blocks, 2);
  release_all(claims, 2);
}
