/*
 * Memory of GPUs through coll.h: allocation by device, and uses of it that are refused.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "gpu/standin/standin.h"
#include "harness/party.h"

enum { GPUS = 2, BYTES = 3 << 20 };

static int clean(void) {
  char text[256];
  PARTY_REQUIRE(standin_leaks(text, sizeof text) == 0, "left: %s", text);
  PARTY_REQUIRE(standin_misuses() == 0, "misuse");
  return 0;
}

static int allocate_many(int rank, int size, void *context) {
  enum { COUNT = 40 };
  void *memory[COUNT], *none = NULL;
  (void)context;
  for (int i = 0; i < COUNT; i++) {
    PARTY_OK(coll_mem_alloc(i % GPUS, 1, &memory[i]));
    PARTY_REQUIRE(((char *)memory[i])[STANDIN_GRANULARITY - 1] == 0, "it is not zeroed");
    ((char *)memory[i])[0] = 1;
  }
  for (int i = 0; i < COUNT; i += 2) PARTY_OK(coll_mem_free(memory[i]));
  for (int i = 1; i < COUNT; i += 2) PARTY_OK(coll_mem_free(memory[i]));
  PARTY_REQUIRE(size > 1 || coll_mem_free(memory[0]) == COLL_ERROR_INVALID, "freed twice");
  PARTY_REQUIRE(coll_mem_alloc(GPUS, 1, &none) == COLL_ERROR_INVALID, "a GPU too many");
  PARTY_REQUIRE(strstr(coll_last_error(NULL), "device 2: GPU 2 does not exist") != NULL, "%s",
                coll_last_error(NULL));
  PARTY_OK(coll_mem_alloc(COLL_DEVICE_HOST, 100, &none));
  PARTY_OK(coll_mem_free(none));
  return rank >= 0 ? 0 : 1;
}

Test(devices, allocate_by_number, .timeout = 60) {
  harness_result_t result;
  for (int threads = 1; threads <= 3; threads += 2) {
    cr_assert(harness_run_threads(threads, 20000, allocate_many, NULL, &result), "%s", result.text);
  }
  cr_assert_eq(clean(), 0);
}

static int use_scalar(party_rank_t *self) {
  coll_op_t op;
  coll_registration_t handle;
  void *memory;
  PARTY_OK(coll_mem_alloc(0, BYTES, &memory));
  for (int residence = 0; residence < 2; residence++) {
    coll_status_t status = coll_op_create_premul_sum(
        memory, COLL_FLOAT32, (coll_scalar_residence_t)residence, self->comm, &op);
    PARTY_REQUIRE(status == COLL_ERROR_UNSUPPORTED, "%s", coll_status_string(status));
    PARTY_REQUIRE(strstr(coll_last_error(self->comm), "memory of a GPU") != NULL, "%s",
                  coll_last_error(self->comm));
  }
  PARTY_OK(coll_mem_register(self->comm, memory, BYTES, &handle));
  PARTY_OK(coll_mem_deregister(handle));
  PARTY_OK(coll_mem_free(memory));
  return clean();
}

Test(devices, hold_no_scalars_yet, .timeout = 60) {
  harness_result_t result;
  cr_assert(party_processes(1, 20000, use_scalar, NULL, &result), "%s", result.text);
}
