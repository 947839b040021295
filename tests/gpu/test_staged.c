/*
 * Which communicators of one host are staged: those with GPUs that cannot access each other's
 * memory, and those for which the user asks for it; what is said of it, and what they refuse.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "gpu/gpu.h"
#include "gpu/hosts.h"
#include "offload/window.h"

enum { COUNT = 1000, TEXT_BYTES = 4096 };

TestSuite(gpu_staged, .timeout = 120 * HARNESS_BUILD_PATIENCE);

/* ---- a call, and what carries it out ---------------------------------------------------------*/

static int sum_in(float *data, coll_comm_t comm, coll_stream_t stream) {
  int rank, size;
  PARTY_OK(coll_comm_rank(comm, &rank));
  PARTY_OK(coll_comm_size(comm, &size));
  for (int i = 0; i < COUNT; i++) data[i] = (float)(rank + 1);
  PARTY_OK(coll_allreduce(data, data, COUNT, COLL_FLOAT32, COLL_SUM, comm, stream));
  PARTY_OK(coll_stream_sync(stream));
  float sum = (float)(size * (size + 1) / 2);
  PARTY_REQUIRE(data[0] == sum && data[COUNT - 1] == sum, "%g, %g", (double)data[0],
                (double)data[COUNT - 1]);
  return 0;
}

static int expect_sum(const hosts_side_t *side, coll_comm_t comm, bool staged) {
  float *data;
  PARTY_TRY(hosts_alloc(side, COUNT * sizeof *data, (void **)&data));
  PARTY_TRY(sum_in(data, comm, side->streams[0]));
  PARTY_OK(coll_mem_free(data));
  PARTY_REQUIRE(hosts_is_staged(comm) == staged, "rank %d: staged %d", side->self.rank,
                hosts_is_staged(comm));
  return 0;
}

static int is_staged(hosts_side_t *side) {
  return expect_sum(side, side->self.comm, true);
}

static int is_not_staged(hosts_side_t *side) {
  return expect_sum(side, side->self.comm, false);
}

/* ---- which -----------------------------------------------------------------------------------*/

/* GPUs 1 and 2 are apart: so is every communicator that has both, on all of its ranks. */
static int on_parts(hosts_side_t *side) {
  int rank = side->self.rank;
  const struct {
    int colors[4];
    bool staged[2]; /* of each color */
  } splits[] = {
      {{0, 0, 1, 1}, {false, false}}, {{0, 1, 1, 0}, {false, true}}, {{0, 0, 0, 1}, {true, false}}};
  PARTY_TRY(expect_sum(side, side->self.comm, true));
  for (int i = 0; i < 3; i++) {
    int color = splits[i].colors[rank];
    coll_comm_t part;
    PARTY_OK(coll_comm_split(side->self.comm, color, 0, NULL, &part));
    PARTY_TRY(expect_sum(side, part, splits[i].staged[color]));
    PARTY_OK(coll_comm_destroy(part));
  }
  return 0;
}

Test(gpu_staged, communicators_with_a_pair_of_gpus_that_are_apart) {
  HOSTS_RUN(4, {.hosts = 1, .gpus = 4, .apart = "1-2", .body = on_parts});
  HOSTS_RUN(4, {.hosts = 1, .gpus = 4, .apart = "1-2", .late = true, .body = on_parts});
  HOSTS_RUN(4, {.hosts = 1, .gpus = 4, .apart = "1-2", .threads = true, .body = on_parts});
}

/* Processes that share a GPU, and one that has another. */
Test(gpu_staged, processes_that_share_a_gpu) {
  HOSTS_RUN(3, {.hosts = 1, .gpus = 2, .apart = "0-1", .body = is_staged});
  HOSTS_RUN(3, {.hosts = 1, .gpus = 2, .body = is_not_staged});
}

/* One thread makes all ranks, and their calls. */
Test(gpu_staged, ranks_of_one_thread) {
  enum { SIZE = 3 };
  const int devices[SIZE] = {0, 1, 2};
  coll_comm_t comms[SIZE];
  coll_stream_t streams[SIZE];
  float *data[SIZE];
  hosts_begin(SIZE, "0-2");
  const cuda_driver_t *driver = gpu_driver();
  GPU_OK(coll_comm_create_local_gpus(SIZE, devices, NULL, comms));
  GPU_OK(coll_group_start());
  for (int i = 0; i < SIZE; i++) {
    cr_assert(hosts_is_staged(comms[i]));
    GPU_OK(cuda_context_enter(driver, i));
    GPU_OK(coll_stream_from_cuda(NULL, &streams[i]));
    GPU_OK(coll_mem_alloc(i, sizeof *data[i], (void **)&data[i]));
    *data[i] = 1;
    GPU_OK(coll_allreduce(data[i], data[i], 1, COLL_FLOAT32, COLL_SUM, comms[i], streams[i]));
    cuda_context_leave(driver, i);
  }
  GPU_OK(coll_group_end());
  for (int i = 0; i < SIZE; i++) GPU_OK(coll_stream_sync(streams[i]));
  for (int i = 0; i < SIZE; i++) {
    cr_assert(*data[i] == SIZE, "%g", (double)*data[i]);
    GPU_OK(coll_comm_destroy(comms[i]));
    GPU_OK(coll_stream_destroy(streams[i]));
    GPU_OK(coll_mem_free(data[i]));
  }
  gpu_expect_clean();
}

/* ---- GPUs that a process does not see --------------------------------------------------------*/

/* Each process calls its GPU 0; that it cannot access the other's memory, only the driver says. */
static int hidden(int rank, int size, void *context) {
  const bool *staged = context;
  hosts_side_t side = {.gpus = 1, .self = {.rank = rank, .size = size}};
  setenv("CUDA_VISIBLE_DEVICES", rank == 0 ? "1" : "0", 1);
  PARTY_TRY(hosts_open(&side));
  PARTY_TRY(expect_sum(&side, side.self.comm, *staged));
  return hosts_close(&side);
}

Test(gpu_staged, processes_that_see_one_gpu_each) {
  harness_result_t result;
  for (int i = 0; i < 2; i++) {
    bool staged = i == 1;
    hosts_begin(2, staged ? "0" : NULL);
    cr_assert(harness_run(2, 60000, hidden, &staged, &result), "%s", result.text);
  }
}

/* ---- GPUs without memory that can be shared ---------------------------------------------------*/

static int without_sharing(hosts_side_t *side) {
  cuda_ptr_t address;
  void *memory;
  PARTY_REQUIRE(coll_mem_alloc(side->device, 64, &memory) == COLL_ERROR_UNSUPPORTED, "allocated");
  PARTY_REQUIRE(side->driver->cuMemAlloc(&address, COUNT * sizeof(float)) == CUDA_RESULT_OK,
                "no memory");
  PARTY_TRY(sum_in((float *)(uintptr_t)address, side->self.comm, side->streams[0]));
  PARTY_REQUIRE(side->driver->cuMemFree(address) == CUDA_RESULT_OK, "not freed");
  PARTY_REQUIRE(hosts_is_staged(side->self.comm), "not staged");
  return 0;
}

Test(gpu_staged, gpus_without_virtual_memory_management) {
  gpu_setting("COLL_STANDIN_NO_VMM", "1");
  HOSTS_RUN(2, {.hosts = 1, .body = without_sharing});
  HOSTS_RUN(1, {.hosts = 1, .body = without_sharing});
}

/* Rank 1 may not have as much shared memory as its proxy needs. All are told, and the communicator
 * goes on working on the host. */
static int without_a_proxy(hosts_side_t *side) {
  const struct rlimit limit = {16 << 20, RLIM_INFINITY};
  float plain = 1;
  cuda_ptr_t address;
  int is_that = side->self.rank == 1;
  const char *why =
      is_that ? "raise the limit (ulimit -f)" : "rank 1 cannot use its GPU for this communicator";
  if (is_that) PARTY_REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0, "no limit");
  PARTY_REQUIRE(side->driver->cuMemAlloc(&address, sizeof plain) == CUDA_RESULT_OK, "no memory");
  float *data = (float *)(uintptr_t)address;
  for (int round = 0; round < 2; round++) {
    coll_status_t status =
        coll_allreduce(data, data, 1, COLL_FLOAT32, COLL_SUM, side->self.comm, side->streams[0]);
    PARTY_REQUIRE(status != COLL_OK && strstr(coll_last_error(NULL), why) != NULL, "status %d: %s",
                  (int)status, coll_last_error(NULL));
    PARTY_OK(coll_allreduce(&plain, &plain, 1, COLL_FLOAT32, COLL_SUM, side->self.comm, NULL));
  }
  PARTY_REQUIRE(side->driver->cuMemFree(address) == CUDA_RESULT_OK, "not freed");
  return 0;
}

Test(gpu_staged, a_proxy_that_cannot_be_made) {
  gpu_setting("COLL_STANDIN_NO_VMM", "1");
  HOSTS_RUN(3, {.hosts = 1, .gpus = 3, .late = true, .body = without_a_proxy});
}

/* No context of the program's keeps what the communicators have. */
Test(gpu_staged, gpus_that_only_the_communicators_use) {
  const int devices[] = {0, 1};
  coll_comm_t comms[2];
  gpu_setting("COLL_STANDIN_NO_VMM", "1");
  hosts_begin(2, NULL);
  cr_assert(gpu_driver() != NULL);
  GPU_OK(coll_comm_create_local_gpus(2, devices, NULL, comms));
  for (int i = 0; i < 2; i++) {
    cr_assert(hosts_is_staged(comms[i]));
    GPU_OK(coll_comm_destroy(comms[i]));
  }
  gpu_expect_clean();
}

/* ---- what the user asks for ------------------------------------------------------------------*/

static int expect_refusal(const hosts_side_t *side, coll_status_t expected, const char *words,
                          const char *advice) {
  float *data, plain = 1;
  PARTY_TRY(hosts_alloc(side, COUNT * sizeof *data, (void **)&data));
  for (int round = 0; round < 2; round++) {
    PARTY_OK(coll_allreduce(&plain, &plain, 1, COLL_FLOAT32, COLL_SUM, side->self.comm, NULL));
    coll_status_t status = coll_allreduce(data, data, COUNT, COLL_FLOAT32, COLL_SUM,
                                          side->self.comm, side->streams[0]);
    const char *text = coll_last_error(NULL);
    PARTY_REQUIRE(status == expected && strstr(text, words) != NULL && strstr(text, advice) != NULL,
                  "status %d: %s", (int)status, text);
  }
  PARTY_OK(coll_mem_free(data));
  return 0;
}

static int is_refused(hosts_side_t *side) {
  return expect_refusal(side, COLL_ERROR_UNSUPPORTED, "cannot access the memory of GPU",
                        "unset COLL_CUDA_ENGINE or set it to staged");
}

Test(gpu_staged, an_engine_that_needs_access_is_refused) {
  static const char *const engines[] = {"kernel", "copy"};
  for (int i = 0; i < 2; i++) {
    gpu_setting("COLL_CUDA_ENGINE", engines[i]);
    HOSTS_RUN(2, {.hosts = 1, .apart = "0", .body = is_refused});
    HOSTS_RUN(3, {.hosts = 1, .gpus = 3, .apart = "1-2", .late = true, .body = is_refused});
  }
  HOSTS_RUN(2, {.hosts = 1, .apart = "0", .threads = true, .body = is_refused});
}

Test(gpu_staged, calls_are_staged_on_demand) {
  gpu_setting("COLL_CUDA_ENGINE", "staged");
  HOSTS_RUN(2, {.hosts = 1, .gpus = 1, .body = is_staged});
  HOSTS_RUN(3, {.hosts = 1, .gpus = 3, .body = is_staged});
  HOSTS_RUN(1, {.hosts = 1, .body = is_staged});
  HOSTS_RUN(2, {.hosts = 1, .threads = true, .body = is_staged});
}

static int ask_for_another(hosts_side_t *side) {
  const char *mine = side->self.rank == 1 ? "staged" : "auto";
  setenv("COLL_CUDA_ENGINE", mine, 1);
  return expect_refusal(side, COLL_ERROR_INVALID,
                        "rank 0 has COLL_CUDA_ENGINE=auto, rank 1 has staged",
                        "it must be the same on all ranks");
}

/* They are connected by the first call. */
Test(gpu_staged, ranks_that_ask_for_different_engines) {
  HOSTS_RUN(3, {.hosts = 1, .gpus = 3, .late = true, .body = ask_for_another});
  HOSTS_RUN(3, {.hosts = 1, .gpus = 3, .apart = "0-2", .late = true, .body = ask_for_another});
}

/* ---- what is said ----------------------------------------------------------------------------*/

/* Standard error is a file meanwhile. */
typedef struct errors {
  int file, kept;
} errors_t;

static bool open_errors(errors_t *errors) {
  char path[] = "/tmp/libcoll-staged-XXXXXX";
  *errors = (errors_t){mkstemp(path), dup(STDERR_FILENO)};
  unlink(path);
  return errors->file >= 0 && errors->kept >= 0 && dup2(errors->file, STDERR_FILENO) >= 0;
}

static void read_errors(errors_t *errors, char text[TEXT_BYTES]) {
  dup2(errors->kept, STDERR_FILENO);
  close(errors->kept);
  ssize_t got = pread(errors->file, text, TEXT_BYTES - 1, 0);
  text[got > 0 ? got : 0] = '\0';
  close(errors->file);
}

static int read_reports(const hosts_side_t *side, char text[TEXT_BYTES]) {
  errors_t errors;
  coll_comm_t part;
  PARTY_REQUIRE(open_errors(&errors), "no file");
  coll_status_t status = coll_comm_split(side->self.comm, 0, 0, NULL, &part);
  read_errors(&errors, text);
  PARTY_OK(status);
  PARTY_OK(coll_comm_destroy(part));
  return 0;
}

static int says(hosts_side_t *side, const char *const words[], int count) {
  char text[TEXT_BYTES];
  PARTY_TRY(read_reports(side, text));
  for (int i = 0; i < count; i++) {
    bool is_said = strstr(text, words[i]) != NULL;
    PARTY_REQUIRE(is_said == (side->self.rank == 0), "'%s' in '%s'", words[i], text);
  }
  return 0;
}

static int says_who_is_apart(hosts_side_t *side) {
  static const char *const words[] = {
      "the host carries out calls on the GPUs of the 3 ranks over ",
      "not all of these GPUs can access each other's memory",
      "rank 0 cannot map the memory of rank 1's GPU: GPU 0 cannot access the memory of GPU 1 (see "
      "nvidia-smi topo -p2p r); nor that of rank 2\n",
      "rank 1 cannot map the memory of rank 0's GPU: GPU 1 cannot access the memory of GPU 0 (see "
      "nvidia-smi topo -p2p r)\n",
      "rank 2 cannot map the memory of rank 0's GPU"};
  return says(side, words, 5);
}

static int says_who_asks(hosts_side_t *side) {
  static const char *const words[] = {"COLL_CUDA_ENGINE asks for it"};
  return says(side, words, 1);
}

Test(gpu_staged, is_reported) {
  gpu_setting("COLL_DEBUG", "1");
  HOSTS_RUN(3, {.hosts = 1, .gpus = 3, .apart = "0-1,0-2", .body = says_who_is_apart});
  gpu_setting("COLL_CUDA_ENGINE", "staged");
  HOSTS_RUN(2, {.hosts = 1, .body = says_who_asks});
}

Test(gpu_staged, is_reported_of_ranks_of_one_thread) {
  const int devices[] = {0, 1};
  coll_comm_t comms[2];
  errors_t errors;
  char text[TEXT_BYTES];
  gpu_setting("COLL_DEBUG", "1");
  hosts_begin(2, "0");
  cr_assert(gpu_driver() != NULL);
  cr_assert(open_errors(&errors));
  coll_status_t status = coll_comm_create_local_gpus(2, devices, NULL, comms);
  read_errors(&errors, text);
  cr_assert(status == COLL_OK);
  cr_assert(strstr(text, "ranks 1 and 0: GPU 1 cannot access the memory of GPU 0") != NULL &&
                strstr(text, "the host carries out calls on the GPUs of the 2 ranks") != NULL,
            "%s", text);
  for (int i = 0; i < 2; i++) GPU_OK(coll_comm_destroy(comms[i]));
}

/* ---- windows ---------------------------------------------------------------------------------*/

/* They are made, whatever the memory, and not used. */
static int in_windows(hosts_side_t *side) {
  float *data;
  coll_window_t window;
  PARTY_TRY(hosts_alloc(side, COUNT * sizeof *data, (void **)&data));
  PARTY_OK(coll_window_create(side->self.comm, data, COUNT * sizeof *data, &window));
  for (int rank = 0; rank < side->self.size; rank++) {
    PARTY_REQUIRE((window->parts[rank] != NULL) == (rank == side->self.rank), "part %d", rank);
  }
  PARTY_TRY(sum_in(data, side->self.comm, side->streams[0]));
  PARTY_OK(coll_window_destroy(window));
  PARTY_OK(coll_barrier(side->self.comm, NULL));
  PARTY_OK(coll_mem_free(data));
  return 0;
}

Test(gpu_staged, windows_change_nothing) {
  HOSTS_RUN(3, {.hosts = 1, .gpus = 3, .apart = "0-1", .body = in_windows});
  HOSTS_RUN(3, {.hosts = 1, .gpus = 3, .apart = "0-1", .late = true, .body = in_windows});
  HOSTS_RUN(4, {.hosts = 2, .apart = "0", .body = in_windows});
  HOSTS_RUN(2, {.hosts = 1, .apart = "0", .threads = true, .body = in_windows});
}
