/*
 * Windows of memory of GPUs through coll.h: every rank finds the parts of all in its own process.
 */
#include <string.h>
#include <unistd.h>

#include "device/cuda/driver.h"
#include "gpu/standin/standin.h"
#include "harness/party.h"
#include "offload/window.h"

#include <criterion/criterion.h>

enum { GPUS = 2, BYTES = 3 << 20, RANKS = 4 };

typedef enum source { FROM_COLL, FROM_CUDA } source_t;

/* Memory of the rank's GPU. */
typedef struct memory {
  source_t source;
  void *ptr;
} memory_t;

#define CUDA_DONE(call)                                                  \
  do {                                                                   \
    cuda_result_t cuda_result = (call);                                  \
    if (cuda_result != CUDA_RESULT_OK) {                                 \
      return harness_fail("%s: CUDA error %d", #call, (int)cuda_result); \
    }                                                                    \
  } while (0)

static int get_driver(const cuda_driver_t **driver) {
  PARTY_REQUIRE(cuda_driver_load(driver) == COLL_OK, "%s", base_last_error());
  return 0;
}

/* As a program that uses CUDA's runtime: of cudaMalloc, with the context kept. */
static int allocate(int device, source_t source, memory_t *memory) {
  const cuda_driver_t *driver;
  cuda_ptr_t address;
  memory->source = source;
  if (source == FROM_COLL) {
    PARTY_OK(coll_mem_alloc(device, BYTES, &memory->ptr));
    return 0;
  }
  PARTY_TRY(get_driver(&driver));
  PARTY_OK(cuda_context_enter(driver, device));
  CUDA_DONE(driver->cuMemAlloc(&address, BYTES));
  memory->ptr = (void *)(uintptr_t)address;
  return 0;
}

static int release(int device, memory_t *memory) {
  const cuda_driver_t *driver;
  if (memory->source == FROM_COLL) {
    PARTY_OK(coll_mem_free(memory->ptr));
    return 0;
  }
  PARTY_TRY(get_driver(&driver));
  CUDA_DONE(driver->cuMemFree((cuda_ptr_t)(uintptr_t)memory->ptr));
  cuda_context_leave(driver, device);
  return 0;
}

static int clean(void) {
  char text[256];
  PARTY_REQUIRE(standin_leaks(text, sizeof text) == 0, "left: %s", text);
  PARTY_REQUIRE(standin_misuses() == 0, "misuse");
  return 0;
}

static uint64_t word_of(int rank, int place) {
  return 0x1000u * (uint64_t)(rank + 1) + (uint64_t)place;
}

/* The stand-in's memory is open to the host too. */
static void write_words(const struct coll_window *window, int rank) {
  uint64_t first = word_of(rank, 0), last = word_of(rank, 1);
  memcpy(window->ptr, &first, sizeof first);
  memcpy(window->ptr + window->bytes - sizeof last, &last, sizeof last);
}

static int require_words(const struct coll_window *window, int rank) {
  uint64_t words[2];
  PARTY_REQUIRE(window->parts[rank] != NULL, "the part of rank %d is not mapped", rank);
  memcpy(&words[0], window->parts[rank], sizeof words[0]);
  memcpy(&words[1], window->parts[rank] + window->part_bytes[rank] - sizeof words[1],
         sizeof words[1]);
  PARTY_REQUIRE(words[0] == word_of(rank, 0) && words[1] == word_of(rank, 1),
                "rank %d: %llx and %llx", rank, (unsigned long long)words[0],
                (unsigned long long)words[1]);
  return 0;
}

/* Each rank's window begins elsewhere in its memory, and is of another size. */
static int use_window(party_rank_t *self, const memory_t *memory) {
  coll_window_t window;
  size_t skipped = 4096 * (size_t)(self->rank + 1), offset = 0;
  char *ptr = (char *)memory->ptr + skipped;
  PARTY_OK(coll_window_create(self->comm, ptr, BYTES - 2 * skipped, &window));
  PARTY_REQUIRE(window->device == self->rank % GPUS, "of GPU %d", window->device);
  PARTY_REQUIRE(window->parts[self->rank] == ptr, "its own part is elsewhere");
  PARTY_REQUIRE(offload_window_find(self->comm, ptr + 100, 8, &offset) == window && offset == 100,
                "it is not found");
  PARTY_REQUIRE(offload_window_find(self->comm, ptr - 1, 8, &offset) == NULL, "before the window");
  PARTY_REQUIRE(offload_window_find(self->comm, ptr, window->bytes + 1, &offset) == NULL,
                "behind it");
  write_words(window, self->rank);
  PARTY_OK(coll_barrier(self->comm, NULL));
  for (int rank = 0; rank < self->size; rank++) PARTY_TRY(require_words(window, rank));
  PARTY_OK(coll_barrier(self->comm, NULL));
  PARTY_OK(coll_window_destroy(window));
  PARTY_REQUIRE(offload_window_find(self->comm, ptr, 8, &offset) == NULL, "it is still there");
  return 0;
}

static int make_windows(party_rank_t *self) {
  const source_t *source = self->context;
  int device = self->rank % GPUS;
  memory_t memory;
  PARTY_TRY(allocate(device, *source, &memory));
  for (int round = 0; round < 3; round++) PARTY_TRY(use_window(self, &memory));
  PARTY_OK(coll_barrier(self->comm, NULL)); /* no rank has the memory mapped any more */
  PARTY_TRY(release(device, &memory));
  PARTY_OK(coll_barrier(self->comm, NULL));
  return clean();
}

static void run_windows(source_t source) {
  harness_result_t result;
  cr_assert(party_processes(RANKS, 20000, make_windows, &source, &result), "processes: %s",
            result.text);
  cr_assert(party_threads(RANKS, 20000, make_windows, &source, &result), "threads: %s",
            result.text);
}

Test(windows, of_memory_of_coll_mem_alloc, .timeout = 60) {
  run_windows(FROM_COLL);
}

Test(windows, of_memory_of_cuda, .timeout = 60) {
  run_windows(FROM_CUDA);
}

/* ---- refusals --------------------------------------------------------------------------------*/

static int fails(party_rank_t *self, void *ptr, size_t bytes, coll_status_t status,
                 const char *part) {
  coll_window_t window = NULL;
  coll_status_t got = coll_window_create(self->comm, ptr, bytes, &window);
  PARTY_REQUIRE(got == status, "%s: %s", coll_status_string(got), coll_last_error(self->comm));
  PARTY_REQUIRE(strstr(coll_last_error(self->comm), part) != NULL, "'%s' is not in '%s'", part,
                coll_last_error(self->comm));
  PARTY_REQUIRE(window == NULL, "an error set it");
  PARTY_OK(coll_barrier(self->comm, NULL)); /* the communicator works */
  return 0;
}

static int other_kinds(party_rank_t *self) {
  static char host[64];
  memory_t memory;
  PARTY_TRY(allocate(0, FROM_COLL, &memory));
  PARTY_TRY(fails(self, self->rank == 1 ? host : memory.ptr, 64, COLL_ERROR_INVALID,
                  self->rank == 2 ? "rank 2: the window is memory of a GPU on rank 2" : ""));
  bool beyond = self->rank == 1;
  PARTY_TRY(fails(self, memory.ptr, beyond ? (size_t)64 << 30 : 64, COLL_ERROR_UNSUPPORTED,
                  beyond ? "are in several allocations"
                         : "the memory of rank 1 cannot be a window (its own error says why)"));
  PARTY_OK(coll_barrier(self->comm, NULL));
  PARTY_TRY(release(0, &memory));
  PARTY_OK(coll_barrier(self->comm, NULL));
  return clean();
}

Test(windows, of_different_kinds_are_refused, .timeout = 60) {
  PARTY_RUN(3, 20000, other_kinds, NULL);
}

/* A part of nothing, beside two of a GPU's memory. */
static int one_has_none(party_rank_t *self) {
  coll_window_t window;
  memory_t memory = {FROM_COLL, NULL};
  if (self->rank != 1) PARTY_TRY(allocate(self->rank % GPUS, FROM_COLL, &memory));
  PARTY_OK(coll_window_create(self->comm, memory.ptr, memory.ptr == NULL ? 0 : BYTES, &window));
  if (self->rank != 1) write_words(window, self->rank);
  PARTY_OK(coll_barrier(self->comm, NULL));
  PARTY_REQUIRE(window->parts[1] == NULL, "the part of nothing is mapped");
  for (int rank = 0; self->rank != 1 && rank < 3; rank += 2) PARTY_TRY(require_words(window, rank));
  PARTY_OK(coll_barrier(self->comm, NULL));
  PARTY_OK(coll_window_destroy(window));
  PARTY_OK(coll_barrier(self->comm, NULL));
  if (memory.ptr != NULL) PARTY_TRY(release(self->rank % GPUS, &memory));
  PARTY_OK(coll_barrier(self->comm, NULL));
  return clean();
}

Test(windows, may_be_empty_on_a_rank, .timeout = 60) {
  PARTY_RUN(3, 20000, one_has_none, NULL);
}

/* Memory that was allocated without file descriptors as handles. */
static int allocate_private(const cuda_driver_t *driver, cuda_ptr_t *address) {
  const cuda_mem_prop_t prop = {.kind = CUDA_MEM_PINNED, .location = {CUDA_LOCATION_DEVICE, 0}};
  const cuda_access_desc_t access = {{CUDA_LOCATION_DEVICE, 0}, CUDA_ACCESS_READ_WRITE};
  cuda_mem_t handle;
  CUDA_DONE(driver->cuMemCreate(&handle, STANDIN_GRANULARITY, &prop, 0));
  CUDA_DONE(driver->cuMemAddressReserve(address, STANDIN_GRANULARITY, 0, 0, 0));
  CUDA_DONE(driver->cuMemMap(*address, STANDIN_GRANULARITY, 0, handle, 0));
  CUDA_DONE(driver->cuMemSetAccess(*address, STANDIN_GRANULARITY, &access, 1));
  CUDA_DONE(driver->cuMemRelease(handle));
  return 0;
}

static int private_part(party_rank_t *self) {
  const cuda_driver_t *driver;
  cuda_ptr_t address;
  memory_t memory;
  PARTY_TRY(get_driver(&driver));
  PARTY_TRY(allocate(0, FROM_COLL, &memory));
  PARTY_OK(cuda_context_enter(driver, 0));
  PARTY_TRY(allocate_private(driver, &address));
  PARTY_TRY(fails(self, self->rank == 0 ? (void *)(uintptr_t)address : memory.ptr, 64,
                  COLL_ERROR_UNSUPPORTED,
                  self->rank == 0 ? "was allocated without file descriptors"
                                  : "the memory of rank 0 cannot be mapped by other processes"));
  CUDA_DONE(driver->cuMemUnmap(address, STANDIN_GRANULARITY));
  CUDA_DONE(driver->cuMemAddressFree(address, STANDIN_GRANULARITY));
  cuda_context_leave(driver, 0);
  PARTY_TRY(release(0, &memory));
  return clean();
}

Test(windows, of_memory_that_other_processes_cannot_map_are_refused, .timeout = 60) {
  harness_result_t result;
  cr_assert(party_processes(3, 20000, private_part, NULL, &result), "%s", result.text);
}

/* Within one process no descriptor is needed; the other GPU is granted access. */
static int private_of_threads(party_rank_t *self) {
  const cuda_driver_t *driver;
  cuda_ptr_t address;
  coll_window_t window;
  memory_t memory = {FROM_COLL, NULL};
  PARTY_TRY(get_driver(&driver));
  PARTY_OK(cuda_context_enter(driver, self->rank));
  if (self->rank == 0) PARTY_TRY(allocate_private(driver, &address));
  if (self->rank == 1) PARTY_TRY(allocate(1, FROM_COLL, &memory));
  void *own = self->rank == 0 ? (void *)(uintptr_t)address : memory.ptr;
  PARTY_OK(coll_window_create(self->comm, own, STANDIN_GRANULARITY, &window));
  if (self->rank == 1) {
    const cuda_location_t location = {CUDA_LOCATION_DEVICE, 1};
    unsigned long long access = 0;
    CUDA_DONE(driver->cuMemGetAccess(&access, &location, (cuda_ptr_t)(uintptr_t)window->parts[0]));
    PARTY_REQUIRE(access == CUDA_ACCESS_READ_WRITE, "GPU 1 has no access");
  }
  PARTY_OK(coll_window_destroy(window));
  PARTY_OK(coll_barrier(self->comm, NULL));
  if (self->rank == 0) {
    CUDA_DONE(driver->cuMemUnmap(address, STANDIN_GRANULARITY));
    CUDA_DONE(driver->cuMemAddressFree(address, STANDIN_GRANULARITY));
  } else {
    PARTY_TRY(release(1, &memory));
  }
  cuda_context_leave(driver, self->rank);
  PARTY_OK(coll_barrier(self->comm, NULL));
  return clean();
}

Test(windows, of_threads_need_no_descriptors, .timeout = 60) {
  harness_result_t result;
  cr_assert(party_threads(2, 20000, private_of_threads, NULL, &result), "%s", result.text);
}

/* GPUs 0 and 1 cannot access each other's memory. Rank 2 could map that of rank 0. */
static int no_peers(party_rank_t *self) {
  memory_t memory;
  coll_window_t window;
  int device = self->rank % GPUS;
  PARTY_TRY(allocate(device, *(const source_t *)self->context, &memory));
  PARTY_OK(coll_window_create(self->comm, memory.ptr, BYTES, &window));
  for (int rank = 0; rank < self->size; rank++) {
    PARTY_REQUIRE((window->parts[rank] != NULL) == (rank == self->rank), "part %d", rank);
  }
  PARTY_OK(coll_window_destroy(window));
  PARTY_OK(coll_barrier(self->comm, NULL));
  PARTY_TRY(release(device, &memory));
  PARTY_OK(coll_barrier(self->comm, NULL));
  return clean();
}

static void run_without_peers(source_t source) {
  harness_result_t result;
  setenv("COLL_STANDIN_PEERS", "0-1", 1);
  cr_assert(party_processes(3, 20000, no_peers, &source, &result), "%s", result.text);
}

Test(windows, of_gpus_without_peer_access_are_not_mapped, .timeout = 60) {
  run_without_peers(FROM_COLL);
  run_without_peers(FROM_CUDA);
}
