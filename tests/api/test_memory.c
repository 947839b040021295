/*
 * Resources of a process: they do not grow with use, and no memory has a name.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/party.h"
#include "harness/sample.h"

static int count_lines(const char *path) {
  FILE *file = fopen(path, "r");
  int lines = 0;
  for (int c; file != NULL && (c = fgetc(file)) != EOF;) lines += c == '\n';
  if (file != NULL) fclose(file);
  return lines;
}

static int count_entries(const char *path) {
  DIR *folder = opendir(path);
  int entries = 0;
  while (folder != NULL && readdir(folder) != NULL) entries++;
  if (folder != NULL) closedir(folder);
  return entries;
}

/* One large call in fresh memory, of all sizes, on a path that maps peers' memory. */
static int use_memory(party_rank_t *self, int round) {
  size_t count = 5000 + (size_t)(round % 7) * 4000;
  void *in, *out;
  PARTY_OK(coll_mem_alloc(COLL_DEVICE_HOST, count * sizeof(float), &in));
  PARTY_OK(coll_mem_alloc(COLL_DEVICE_HOST, count * sizeof(float), &out));
  for (size_t i = 0; i < count; i++) ((float *)in)[i] = (float)(i % 100 + (size_t)round);
  PARTY_OK(coll_allreduce(in, out, count, COLL_FLOAT32, COLL_SUM, self->comm, NULL));
  for (size_t i = 0; i < count; i++) {
    float expected = (float)self->size * (float)(i % 100 + (size_t)round);
    PARTY_REQUIRE(((float *)out)[i] == expected, "round %d, element %zu is %g", round, i,
                  (double)((float *)out)[i]);
  }
  PARTY_OK(coll_mem_free(in));
  PARTY_OK(coll_mem_free(out));
  return 0;
}

static int reuse(party_rank_t *self) {
  enum { WARM = 10, ROUNDS = 200 };
  int maps = 0, files = 0;
  for (int round = 0; round < WARM + ROUNDS; round++) {
    if (round == WARM) {
      maps = count_lines("/proc/self/maps");
      files = count_entries("/proc/self/fd");
    }
    PARTY_TRY(use_memory(self, round));
  }
  int maps_now = count_lines("/proc/self/maps"), files_now = count_entries("/proc/self/fd");
  PARTY_REQUIRE(maps_now < maps + 20 * HARNESS_PATIENCE, "%d mappings became %d", maps, maps_now);
  PARTY_REQUIRE(files_now < files + 8, "%d open files became %d", files, files_now);
  return 0;
}

Test(memory, does_not_grow_with_use) {
  harness_result_t result;
  if (!harness_takes_processes()) cr_skip_test("ThreadSanitizer does not see other processes");
  cr_assert(party_processes(3, 20000, reuse, NULL, &result), "%s", result.text);
}

static int map_once(party_rank_t *self) {
  float *memory;
  PARTY_OK(coll_mem_alloc(COLL_DEVICE_HOST, 100000 * sizeof *memory, (void **)&memory));
  for (int round = 0; round < 50; round++) { /* the same memory again, at other offsets */
    for (int i = 0; i < 20000; i++) memory[1000 * round + i] = 1;
    PARTY_OK(coll_allreduce(memory + 1000 * round, memory + 1000 * round, 20000, COLL_FLOAT32,
                            COLL_SUM, self->comm, NULL));
    for (int i = 0; i < 20000; i++) {
      PARTY_REQUIRE(memory[1000 * round + i] == (float)self->size, "round %d", round);
    }
  }
  PARTY_OK(coll_mem_free(memory));
  return 0;
}

Test(memory, is_mapped_once) {
  PARTY_RUN(4, 10000, map_once, NULL);
}

static int outlives(party_rank_t *self) {
  float *memory, *other;
  PARTY_OK(coll_mem_alloc(COLL_DEVICE_HOST, 40000, (void **)&memory));
  PARTY_REQUIRE(memory[0] == 0 && memory[9999] == 0, "it is not zeroed");
  PARTY_REQUIRE((uintptr_t)memory % 4096 == 0, "it is not aligned to a page");
  PARTY_OK(coll_allreduce(memory, memory, 10000, COLL_FLOAT32, COLL_SUM, self->comm, NULL));
  PARTY_OK(coll_comm_destroy(self->comm));
  self->comm = NULL;
  memory[9999] = 1; /* memory belongs to the process, not to the communicator */
  PARTY_OK(coll_mem_free(memory));
  PARTY_REQUIRE(coll_mem_free(memory) == COLL_ERROR_INVALID, "freed twice");
  PARTY_OK(coll_mem_alloc(COLL_DEVICE_HOST, 0, (void **)&other));
  PARTY_OK(coll_mem_free(other));
  return 0;
}

Test(memory, outlives_the_communicator) {
  PARTY_RUN(2, 10000, outlives, NULL);
}

/* Memory of device -1 is that of coll_mem_alloc: peers map it. */
static int alloc_on_device(party_rank_t *self) {
  enum { COUNT = 20000 };
  float *memory = NULL, *plain;
  void *none = NULL;
  char named[32];
  PARTY_OK(coll_mem_alloc(COLL_DEVICE_HOST, 2 * COUNT * sizeof *memory, (void **)&memory));
  PARTY_OK(coll_mem_alloc(COLL_DEVICE_HOST, 2 * COUNT * sizeof *plain, (void **)&plain));
  PARTY_REQUIRE((uintptr_t)memory % 4096 == 0, "it is not aligned to a page");
  const char *algos[2];
  float *both[2] = {plain, memory};
  for (int m = 0; m < 2; m++) {
    for (int i = 0; i < 2 * COUNT; i++) PARTY_REQUIRE(both[m][i] == 0, "it is not zeroed");
    for (int i = 0; i < COUNT; i++) both[m][i] = 1;
    PARTY_OK(
        coll_allreduce(both[m], both[m] + COUNT, COUNT, COLL_FLOAT32, COLL_SUM, self->comm, NULL));
    for (int i = 0; i < COUNT; i++) {
      PARTY_REQUIRE(both[m][COUNT + i] == (float)self->size, "element %d", i);
    }
    algos[m] = coll_comm_algo_used(self->comm, COLL_ALLREDUCE);
  }
  PARTY_REQUIRE(strcmp(algos[0], algos[1]) == 0, "%s and %s", algos[0], algos[1]);
  PARTY_OK(coll_mem_free(plain));
  PARTY_OK(coll_mem_free(memory));
  for (int device = 0; device < 2; device++) { /* where there are GPUs, the second is beyond all */
    int asked = device == 0 ? 0 : INT_MAX;
    coll_status_t status = coll_mem_alloc(asked, 1, &none);
    if (device == 0 && status == COLL_OK) {
      PARTY_OK(coll_mem_free(none));
      none = NULL;
      continue;
    }
    PARTY_REQUIRE(status == COLL_ERROR_UNSUPPORTED || (device > 0 && status == COLL_ERROR_INVALID),
                  "device %d: %s", asked, coll_status_string(status));
    snprintf(named, sizeof named, "device %d: ", asked);
    PARTY_REQUIRE(strstr(coll_last_error(NULL), named) != NULL, "%s", coll_last_error(NULL));
  }
  PARTY_REQUIRE(coll_mem_alloc(-2, 1, &none) == COLL_ERROR_INVALID, "device -2");
  PARTY_REQUIRE(strstr(coll_last_error(NULL), "-2") != NULL, "%s", coll_last_error(NULL));
  PARTY_REQUIRE(coll_mem_alloc(COLL_DEVICE_HOST, 1, NULL) == COLL_ERROR_INVALID, "NULL");
  PARTY_REQUIRE(coll_mem_alloc(0, 1, NULL) == COLL_ERROR_INVALID, "NULL");
  PARTY_REQUIRE(none == NULL, "an error set it");
  return 0;
}

Test(memory, of_the_host_is_device_minus_1) {
  PARTY_RUN(2, 10000, alloc_on_device, NULL);
}

static int registers(party_rank_t *self) {
  coll_registration_t handle = NULL;
  float data[100] = {1};
  PARTY_OK(coll_mem_register(self->comm, data, sizeof data, &handle));
  PARTY_OK(coll_allreduce(data, data, 100, COLL_FLOAT32, COLL_SUM, self->comm, NULL));
  PARTY_OK(coll_mem_deregister(handle));
  PARTY_REQUIRE(data[0] == (float)self->size, "%g", (double)data[0]);
  PARTY_REQUIRE(coll_mem_register(self->comm, NULL, 1, &handle) == COLL_ERROR_INVALID, "NULL");
  PARTY_REQUIRE(coll_mem_register(self->comm, data, 1, NULL) == COLL_ERROR_INVALID, "NULL");
  return 0;
}

Test(memory, can_be_registered) {
  PARTY_RUN(2, 10000, registers, NULL);
}

/* Of the host: nothing is mapped, and calls use it as before. */
static int makes_windows(party_rank_t *self) {
  coll_window_t windows[2], none = NULL;
  float data[100] = {1};
  PARTY_OK(coll_window_create(self->comm, data, sizeof data, &windows[0]));
  PARTY_OK(coll_window_create(self->comm, NULL, 0, &windows[1]));
  PARTY_OK(coll_allreduce(data, data, 100, COLL_FLOAT32, COLL_SUM, self->comm, NULL));
  PARTY_REQUIRE(data[0] == (float)self->size, "%g", (double)data[0]);
  PARTY_OK(coll_window_destroy(windows[0]));
  PARTY_OK(coll_window_destroy(NULL));
  PARTY_REQUIRE(coll_window_create(self->comm, NULL, 1, &none) == COLL_ERROR_INVALID, "NULL");
  PARTY_REQUIRE(coll_window_create(self->comm, data, 1, NULL) == COLL_ERROR_INVALID, "NULL");
  PARTY_REQUIRE(coll_window_create(NULL, data, 1, &none) == COLL_ERROR_INVALID, "NULL");
  PARTY_OK(coll_group_start());
  PARTY_REQUIRE(coll_window_create(self->comm, data, 1, &none) == COLL_ERROR_INVALID, "a group");
  PARTY_OK(coll_group_end());
  return 0; /* the second window is destroyed with the communicator */
}

Test(memory, can_be_a_window) {
  PARTY_RUN(3, 10000, makes_windows, NULL);
}

/* A rank that makes a window while the others do something else is told so. */
static int one_makes_a_window(party_rank_t *self) {
  coll_window_t window;
  float data[4] = {0};
  coll_status_t status = self->rank == 0
                             ? coll_window_create(self->comm, data, sizeof data, &window)
                             : coll_barrier(self->comm, NULL);
  PARTY_REQUIRE(status == COLL_ERROR_MISMATCH, "%s", coll_status_string(status));
  PARTY_REQUIRE(strstr(coll_last_error(self->comm), "window_create()") != NULL, "%s",
                coll_last_error(self->comm));
  return 0;
}

Test(memory, of_windows_is_given_by_all) {
  PARTY_RUN(2, 10000, one_makes_a_window, NULL);
}

/* Communicators created and destroyed in a loop leave no resources behind, in this process or
 * elsewhere. */
static int create_and_destroy(int rank, int size, void *context) {
  (void)context;
  coll_unique_id_t *id = harness_board();
  int maps = 0, files = 0;
  for (int round = 0; round < 40; round++) {
    coll_comm_t comm, child;
    if (rank == 0) PARTY_OK(coll_unique_id_create(NULL, id));
    harness_barrier();
    PARTY_OK(coll_comm_create(id, rank, size, NULL, &comm));
    PARTY_OK(coll_comm_split(comm, rank % 2, 0, NULL, &child));
    PARTY_OK(coll_barrier(child, NULL));
    PARTY_OK(coll_barrier(comm, NULL));
    PARTY_OK(coll_comm_destroy(child));
    PARTY_OK(coll_comm_destroy(comm));
    harness_barrier();
    if (round == 5) maps = count_lines("/proc/self/maps");
    if (round == 5) files = count_entries("/proc/self/fd");
  }
  int maps_now = count_lines("/proc/self/maps"), files_now = count_entries("/proc/self/fd");
  PARTY_REQUIRE(maps_now < maps + 20 * HARNESS_PATIENCE, "%d mappings became %d", maps, maps_now);
  PARTY_REQUIRE(files_now < files + 4, "%d open files became %d", files, files_now);
  return 0;
}

Test(memory, of_communicators_is_freed) {
  harness_result_t result;
  cr_assert(harness_run(3, 20000, create_and_destroy, NULL, &result), "%s", result.text);
}

static int find_named_memory(party_rank_t *self) {
  void *memory;
  PARTY_OK(coll_mem_alloc(COLL_DEVICE_HOST, 100000, &memory));
  PARTY_OK(coll_allreduce(memory, memory, 20000, COLL_FLOAT32, COLL_SUM, self->comm, NULL));
  PARTY_REQUIRE(!party_has_named_memory(), "something is in /dev/shm");
  PARTY_OK(coll_mem_free(memory));
  return 0;
}

Test(memory, has_no_name) {
  PARTY_RUN(2, 10000, find_named_memory, NULL);
}

/* The name of the algorithm that runs for these buffers. */
static int sum_with(party_rank_t *self, float *memory, const char **used) {
  size_t half = 16384;
  for (size_t i = 0; i < half; i++) memory[i] = 1;
  PARTY_OK(coll_allreduce(memory, memory + half, half, COLL_FLOAT32, COLL_SUM, self->comm, NULL));
  PARTY_REQUIRE(memory[half] == (float)self->size && memory[2 * half - 1] == memory[half],
                "a wrong sum, %g", (double)memory[half]);
  *used = coll_comm_algo_used(self->comm, COLL_ALLREDUCE);
  return 0;
}

/* If one rank's memory cannot be mapped, no rank maps any; mapping is tried again some calls later.
 */
static int mixed(party_rank_t *self) {
  float *shared, *own = malloc(32768 * sizeof *own);
  const char *mapped, *staged, *used = "";
  int calls = 0;
  PARTY_REQUIRE(own != NULL, "no memory");
  PARTY_OK(coll_mem_alloc(COLL_DEVICE_HOST, 32768 * sizeof *shared, (void **)&shared));
  PARTY_TRY(sum_with(self, shared, &mapped));
  PARTY_TRY(sum_with(self, self->rank == 1 ? own : shared, &staged));
  PARTY_REQUIRE(strcmp(staged, mapped) != 0, "%s ran with memory that cannot be mapped", mapped);
  while (strcmp(used, mapped) != 0 && calls++ < 40) PARTY_TRY(sum_with(self, shared, &used));
  PARTY_REQUIRE(calls == 16, "%s was used again after %d calls", mapped, calls);
  PARTY_OK(coll_mem_free(shared));
  free(own);
  return 0;
}

/* The addresses that one rank sends for exchanges that fail do not accumulate in the transport. */
static int half_mapped(party_rank_t *self) {
  enum { COUNT = 16384, CALLS = 8000 };
  float *shared, *own = calloc(2 * COUNT, sizeof *own);
  const char *mapped, *used = "";
  PARTY_REQUIRE(own != NULL, "no memory");
  PARTY_OK(coll_mem_alloc(COLL_DEVICE_HOST, 2 * COUNT * sizeof *shared, (void **)&shared));
  PARTY_TRY(sum_with(self, shared, &mapped));
  for (int call = 0; call < CALLS; call++) {
    void *fresh = NULL;
    if (self->rank == 0) PARTY_OK(coll_mem_alloc(COLL_DEVICE_HOST, COUNT * sizeof(float), &fresh));
    PARTY_OK(coll_allreduce(fresh != NULL ? fresh : own, own + COUNT, COUNT, COLL_FLOAT32, COLL_SUM,
                            self->comm, NULL));
    if (fresh != NULL) PARTY_OK(coll_mem_free(fresh));
  }
  float *late = shared; /* and of one rank the addresses that it still has to send */
  if (self->rank == 0)
    PARTY_OK(coll_mem_alloc(COLL_DEVICE_HOST, 2 * COUNT * sizeof *late, (void **)&late));
  for (int calls = 0; calls < 40 && strcmp(used, mapped) != 0; calls++) {
    PARTY_TRY(sum_with(self, late, &used));
  }
  PARTY_REQUIRE(strcmp(used, mapped) == 0, "%s was never used again", mapped);
  if (late != shared) PARTY_OK(coll_mem_free(late));
  PARTY_OK(coll_mem_free(shared));
  free(own);
  return 0;
}

Test(memory, of_failed_exchanges_does_not_accumulate) {
  harness_result_t result;
  if (!harness_takes_processes()) cr_skip_test("ThreadSanitizer does not see other processes");
  cr_assert(party_processes(2, 60000, half_mapped, NULL, &result), "%s", result.text);
}

Test(memory, that_cannot_be_mapped_is_remembered_for_a_while) {
  harness_result_t result;
  if (!harness_takes_processes()) cr_skip_test("ThreadSanitizer does not see other processes");
  setenv("COLL_GET", "off", 1);
  for (int size = 2; size <= 3; size++) {
    cr_assert(party_processes(size, 10000, mixed, NULL, &result), "%s", result.text);
  }
}
