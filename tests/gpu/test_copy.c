/*
 * The copy engines' executor on the stand-in for NVIDIA's driver, ranks being threads or processes:
 * every algorithm, groups of sends and receives, its calls between the kernel's, abort.
 */
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "device/cuda/compute_kernel.h"
#include "device/cuda/copy.h"
#include "device/cuda/memory.h"
#include "gpu/gpu.h"
#include "gpu/traffic.h"
#include "harness/harness.h"
#include "verify/random.h"

#define CAPACITY 4096
#define KERNEL "gpu_compute_kernel"
#define LANES 16
#if defined(__SANITIZE_THREAD__)
#define IS_SLOW true
#else
#define IS_SLOW false
#endif

TestSuite(gpu_copy, .timeout = 110 * HARNESS_BUILD_PATIENCE);

typedef struct engines {
  ranks_t ranks; /* first: what the hook gets */
  const cuda_driver_t *driver;
  cuda_code_t code;
  gpu_room_t room; /* of the copy engines, behind the kernel's in each arena */
  char *arenas[QUESTION_RANKS_MAX];
  cuda_memory_t memory[QUESTION_RANKS_MAX];
  cuda_copy_t *copies[QUESTION_RANKS_MAX];
  cuda_stream_t streams[QUESTION_RANKS_MAX]; /* of users */
  atomic_bool blocked[QUESTION_RANKS_MAX];   /* whether a launch has waited for room */
  int gpus, launched[QUESTION_RANKS_MAX];
  int kernel_every; /* launches, from which one goes to the kernel; 0: none */
} engines_t;

static void compute(const standin_launch_t *launch) {
  _Alignas(GPU_LINE) char shared[GPU_VIRTUAL_SHARED];
  for (unsigned block = 0; block < launch->grid[0]; block++) {
    gpu_virtual = (gpu_virtual_thread_t){
        .block = block, .blocks = launch->grid[0], .threads = 1, .shared = shared};
    gpu_compute_kernel(*(const gpu_compute_t *)launch->arguments[0]);
  }
}

static gpu_room_t copy_room(int size) {
  gpu_room_t room = ranks_room(size);
  room.slices = 1;
  room.rings = room.channels;
  room.ll_slot_bytes = room.ll128_slot_bytes = 0;
  return room;
}

/* ---- ranks ----------------------------------------------------------------------------------*/

static int device_of(const engines_t *engines, int rank) {
  return rank % engines->gpus;
}

static bool synchronize(const engines_t *engines, int rank) {
  int device = device_of(engines, rank);
  if (cuda_context_enter(engines->driver, device) != COLL_OK) return false;
  cuda_result_t result = engines->driver->cuStreamSynchronize(engines->streams[rank]);
  cuda_context_leave(engines->driver, device);
  return cuda_driver_check(engines->driver, result, "cuStreamSynchronize", device) == COLL_OK;
}

/* Stands in for the kernel's launch; a rank's thread waits for the result, which it checks. */
static bool launch(ranks_t *ranks, int rank, const gpu_program_t *program,
                   const gpu_request_t *request, int slices, uint64_t seed) {
  engines_t *engines = (engines_t *)(void *)ranks;
  int number = engines->launched[rank]++;
  if (engines->kernel_every > 0 && number % engines->kernel_every == 0) {
    return ranks_launch_kernel(ranks, rank, program, request, slices, seed);
  }
  return cuda_copy_launch(engines->copies[rank], program, request, engines->streams[rank]) ==
             COLL_OK &&
         synchronize(engines, rank);
}

static coll_status_t allocate(engines_t *engines, int rank) {
  size_t bytes = gpu_arena_bytes(&engines->ranks.room) + gpu_arena_bytes(&engines->room);
  return cuda_memory_alloc(engines->driver, device_of(engines, rank), bytes,
                           &engines->memory[rank]);
}

static void place_arena(engines_t *engines, int rank) {
  engines->ranks.arenas[rank] = (char *)(uintptr_t)engines->memory[rank].address;
  engines->arenas[rank] = engines->ranks.arenas[rank] + gpu_arena_bytes(&engines->ranks.room);
}

static void note_blocked(void *context) {
  atomic_bool *blocked = context;
  atomic_store(blocked, true);
}

/* One kernel serves all. With the context. */
static bool find_kernel(const cuda_driver_t *driver, cuda_code_t *code) {
  cuda_module_t module;
  cuda_function_t *kernels = &code->compute[0][0];
  if (driver->cuModuleLoadData(&module, "image") != CUDA_RESULT_OK) return false;
  bool found = driver->cuModuleGetFunction(kernels, module, KERNEL) == CUDA_RESULT_OK;
  for (int i = 1; i < COLL_DTYPE_COUNT * GPU_OPS_COUNT; i++) kernels[i] = kernels[0];
  return driver->cuModuleUnload(module) == CUDA_RESULT_OK && found;
}

/* Of a rank of this process; all arenas are placed. */
static coll_status_t create(engines_t *engines, int rank) {
  const cuda_driver_t *driver = engines->driver;
  int device = device_of(engines, rank);
  cuda_copy_config_t config = {.device = device,
                               .code = &engines->code,
                               .rank = rank,
                               .lanes = LANES,
                               .room = engines->room,
                               .arenas = engines->arenas,
                               .waits = note_blocked,
                               .context = &engines->blocked[rank]};
  COLL_TRY(cuda_context_enter(driver, device));
  bool ready = find_kernel(driver, &engines->code) &&
               driver->cuStreamCreateWithPriority(&engines->streams[rank], CUDA_STREAM_NON_BLOCKING,
                                                  0) == CUDA_RESULT_OK;
  cuda_context_leave(driver, device);
  if (!ready) return base_fail(COLL_ERROR_SYSTEM, "the stand-in refuses");
  return cuda_copy_create(driver, &config, &engines->copies[rank]);
}

static coll_status_t destroy(engines_t *engines, int rank) {
  const cuda_driver_t *driver = engines->driver;
  int device = device_of(engines, rank);
  COLL_TRY(cuda_copy_destroy(engines->copies[rank]));
  COLL_TRY(cuda_context_enter(driver, device));
  cuda_result_t result = driver->cuStreamDestroy(engines->streams[rank]);
  cuda_context_leave(driver, device);
  return cuda_driver_check(driver, result, "cuStreamDestroy", device);
}

static coll_status_t prepare(engines_t *engines, int size, int gpus) {
  *engines = (engines_t){.room = copy_room(size), .gpus = gpus};
  engines->ranks.room = ranks_room(size);
  engines->ranks.launch = launch;
  if (!standin_kernel_register(KERNEL, compute, 1, (size_t[]){sizeof(gpu_compute_t)})) {
    return base_fail(COLL_ERROR_SYSTEM, "the stand-in takes no kernel");
  }
  return cuda_driver_load(&engines->driver);
}

/* Ranks that are threads. */
static void begin(engines_t *engines, int size, int gpus) {
  GPU_OK(prepare(engines, size, gpus));
  for (int rank = 0; rank < size; rank++) {
    GPU_OK(allocate(engines, rank));
    place_arena(engines, rank);
    ranks_init_rank(&engines->ranks, rank);
  }
  virtual_device_init(&engines->ranks.device, CAPACITY);
  for (int rank = 0; rank < size; rank++) GPU_OK(create(engines, rank));
}

static void end(engines_t *engines) {
  int size = engines->room.size;
  for (int rank = 0; rank < size; rank++) GPU_OK(destroy(engines, rank));
  for (int rank = 0; rank < size; rank++) {
    GPU_OK(cuda_memory_free(engines->driver, &engines->memory[rank]));
    free(engines->ranks.records[rank]);
  }
  virtual_device_destroy(&engines->ranks.device);
  gpu_expect_clean();
}

/* ---- collectives ----------------------------------------------------------------------------*/

static void play(int size, int gpus, int kernel_every, const char *layout) {
  static ranks_call_t row[RANKS_ROW_MAX];
  char text[RANKS_TEXT_BYTES] = "";
  uint64_t random = random_mix((uint64_t)(100 * size + gpus));
  engines_t engines;
  topo_layout_t *where = NULL;
  begin(&engines, size, gpus);
  engines.kernel_every = kernel_every;
  if (layout != NULL) GPU_OK(topo_layout_parse(layout, size, &where));
  const plan_shape_t shape = {.size = size, .layout = where};
  int count = ranks_row(&random, &shape, row);
  cr_assert(ranks_carry_out(&engines.ranks, row, count, 7, text), "%s", text);
  topo_layout_free(where);
  end(&engines);
}

Test(gpu_copy, two_ranks) {
  play(2, 1, 0, NULL);
  cr_assert(standin_launches(false) > 0 && standin_launches(true) == 0);
}

/* More than when the executors are created. */
static bool has_batches(bool copies) {
  return standin_batches(copies) > 4;
}

Test(gpu_copy, three_ranks_on_two_gpus) {
  play(3, 2, 0, NULL);
  cr_assert(has_batches(true) && has_batches(false));
}

Test(gpu_copy, pieces_one_by_one_with_an_older_driver) {
  gpu_setting("COLL_STANDIN_VERSION", "12070");
  play(3, 2, 0, NULL);
  cr_assert(standin_batches(true) == 0 && has_batches(false));
}

Test(gpu_copy, four_ranks) {
  if (!IS_SLOW) play(4, 2, 0, NULL);
}

Test(gpu_copy, composed_plans) {
  play(4, 2, 0, "hosts:2x2");
}

Test(gpu_copy, between_calls_of_the_kernel) {
  play(3, 1, 2, NULL);
}

Test(gpu_copy, delayed_streams) {
  gpu_setting("COLL_STANDIN_DELAY_US", "200");
  play(2, 2, 0, NULL);
}

/* ---- sends and receives ---------------------------------------------------------------------*/

Test(gpu_copy, groups) {
  engines_t engines;
  begin(&engines, 4, 2);
  for (int seed = 0; seed < (IS_SLOW ? 2 : 10); seed++) {
    uint64_t random = random_mix((uint64_t)seed);
    traffic_t traffic = {.ranks = &engines.ranks, .seed = (uint64_t)seed};
    traffic_draw(&traffic, &random);
    traffic_check(&traffic);
  }
  end(&engines);
}

/* More operations than a stream may hold, in lanes that need each other. */
Test(gpu_copy, long_messages_both_ways) {
  engines_t engines;
  traffic_t traffic = {.ranks = &engines.ranks,
                       .messages = {{0, 1, 600000}, {1, 0, 500001}, {0, 0, 30000}},
                       .count = 3};
  begin(&engines, 2, 1);
  traffic_check(&traffic);
  end(&engines);
}

/* ---- premul-sum -----------------------------------------------------------------------------*/

#define PREMUL_COUNT 700 /* two passes */

typedef struct premul {
  engines_t engines;
  const algo_t *algo;
  char texts[QUESTION_RANKS_MAX][RANKS_TEXT_BYTES];
} premul_t;

static bool is_premul(const float output[]) {
  for (int i = 0; i < PREMUL_COUNT; i++) {
    if (output[i] != (float)(2 * i + 3 * (i + 1) + 4 * (i + 2))) return false;
  }
  return true;
}

static void run_premul(void *context, int rank) {
  premul_t *premul = context;
  const plan_shape_t shape = {.collective = COLL_ALLREDUCE, .size = 3};
  float input[PREMUL_COUNT], scaled[PREMUL_COUNT], output[PREMUL_COUNT];
  float scalar = (float)(2 + rank);
  plan_t *plan = NULL;
  gpu_program_t *program = NULL;
  const gpu_request_t request = {.input = input,
                                 .output = output,
                                 .scaled = scaled,
                                 .count = PREMUL_COUNT,
                                 .dtype = COLL_FLOAT32,
                                 .op = COLL_SUM,
                                 .scalar = &scalar};
  for (int i = 0; i < PREMUL_COUNT; i++) input[i] = (float)(i + rank);
  bool good = algo_build(premul->algo, &shape, rank, false, &plan) == COLL_OK &&
              gpu_bind_program(plan, rank, &program) == COLL_OK &&
              ranks_launch(&premul->engines.ranks, rank, program, &request, 1, 0);
  if (!good || !is_premul(output)) {
    snprintf(premul->texts[rank], RANKS_TEXT_BYTES, "%s", good ? "wrong" : base_last_error());
  }
  free(program);
  plan_free(plan);
}

static void check_premul(const char *name) {
  premul_t premul = {0};
  GPU_OK(algo_find(COLL_ALLREDUCE, name, &premul.algo));
  begin(&premul.engines, 3, 2);
  cr_assert(ranks_run(&premul.engines.ranks, run_premul, &premul));
  for (int rank = 0; rank < 3; rank++) {
    cr_assert(premul.texts[rank][0] == '\0', "%s: %s", name, premul.texts[rank]);
  }
  end(&premul.engines);
}

Test(gpu_copy, premul_sum) {
  check_premul("ring");
  check_premul("double_tree");
}

/* ---- processes ------------------------------------------------------------------------------*/

/* As an assertion, for the bodies of ranks. */
#define TRY(call)                                                             \
  do {                                                                        \
    if ((call) != 0) return harness_fail("%s: %s", #call, base_last_error()); \
  } while (0)

static bool send_descriptor(int socket, int descriptor) {
  char byte = 0, control[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec data = {&byte, 1};
  struct msghdr message = {
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  return sendmsg(socket, &message, 0) == 1;
}

static int receive_descriptor(int socket) {
  char byte, control[CMSG_SPACE(sizeof(int))];
  int descriptor = -1;
  struct iovec data = {&byte, 1};
  struct msghdr message = {
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return -1;
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (header != NULL) memcpy(&descriptor, CMSG_DATA(header), sizeof(int));
  return descriptor;
}

static coll_status_t map_peer(engines_t *engines, int rank, const int sockets[2]) {
  int mine, theirs, peer = 1 - rank;
  COLL_TRY(cuda_memory_export(engines->driver, &engines->memory[rank], &mine));
  if (!send_descriptor(sockets[rank], mine)) return base_fail(COLL_ERROR_SYSTEM, "not sent");
  close(mine);
  theirs = receive_descriptor(sockets[rank]);
  coll_status_t status = cuda_memory_import(engines->driver, 0, theirs, engines->memory[rank].bytes,
                                            &engines->memory[peer]);
  close(theirs);
  return status;
}

typedef struct pair {
  int sockets[2], count;
  ranks_call_t row[RANKS_ROW_MAX];
} pair_t;

static int run_process(int rank, int size, void *context) {
  static engines_t engines;
  const pair_t *pair = context;
  char text[RANKS_TEXT_BYTES] = "";
  TRY(prepare(&engines, size, 1));
  TRY(allocate(&engines, rank));
  TRY(map_peer(&engines, rank, pair->sockets));
  for (int i = 0; i < size; i++) place_arena(&engines, i);
  TRY(create(&engines, rank));
  if (!ranks_carry_out_rank(&engines.ranks, rank, pair->row, pair->count, 9, text)) {
    return harness_fail("%s", text);
  }
  harness_barrier();
  TRY(destroy(&engines, rank));
  for (int i = 0; i < size; i++) TRY(cuda_memory_free(engines.driver, &engines.memory[i]));
  if (standin_leaks(text, sizeof text) > 0) return harness_fail("left: %s", text);
  return standin_misuses() == 0 ? 0 : harness_fail("misuse");
}

Test(gpu_copy, two_processes_share_a_gpu) {
  static pair_t pair;
  const plan_shape_t shape = {.size = 2};
  harness_result_t result;
  uint64_t random = 5;
  pair.count = ranks_row(&random, &shape, pair.row);
  cr_assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.sockets) == 0);
  cr_assert(harness_run(2, 20000, run_process, &pair, &result), "%s", result.text);
  close(pair.sockets[0]);
  close(pair.sockets[1]);
}

/* ---- abort ----------------------------------------------------------------------------------*/

#define ABORT_COUNT 100000 /* more operations than a launch queues at once */

typedef struct launcher {
  engines_t *engines;
  gpu_program_t *program;
  size_t count;
  float *data;
  atomic_int status; /* -1: it has not returned */
} launcher_t;

static void *run_launcher(void *argument) {
  launcher_t *launcher = argument;
  const gpu_request_t request = {.input = launcher->data,
                                 .output = launcher->data + launcher->count,
                                 .count = launcher->count,
                                 .dtype = COLL_FLOAT32,
                                 .op = COLL_SUM};
  atomic_store(&launcher->status,
               (int)cuda_copy_launch(launcher->engines->copies[0], launcher->program, &request,
                                     launcher->engines->streams[0]));
  return NULL;
}

static void abort_all(cuda_copy_t *copy) {
  bool idle = false;
  cr_assert(!cuda_copy_was_cut(copy));
  while (!idle) GPU_OK(cuda_copy_abort(copy, &idle));
  cr_assert(cuda_copy_was_cut(copy));
}

/* Rank 1 never launches. status: COLL_OK where all of the call fits into the queues. */
static void check_abort(size_t count, coll_status_t status) {
  const plan_shape_t shape = {.collective = COLL_ALLREDUCE, .size = 2};
  engines_t engines;
  launcher_t launcher = {.engines = &engines, .count = count, .status = -1};
  const algo_t *algo;
  plan_t *plan;
  pthread_t thread;
  begin(&engines, 2, 2);
  GPU_OK(algo_find(COLL_ALLREDUCE, "ring", &algo));
  GPU_OK(algo_build(algo, &shape, 0, false, &plan));
  GPU_OK(gpu_bind_program(plan, 0, &launcher.program));
  launcher.data = calloc(2 * count, sizeof(float));
  cr_assert(launcher.data != NULL);
  cr_assert(pthread_create(&thread, NULL, run_launcher, &launcher) == 0);
  if (status == COLL_OK) pthread_join(thread, NULL);
  while (status != COLL_OK && !atomic_load(&engines.blocked[0])) base_clock_sleep_ns(1000000);
  abort_all(engines.copies[0]);
  if (status != COLL_OK) pthread_join(thread, NULL);
  cr_assert(atomic_load(&launcher.status) == (int)status, "%d", atomic_load(&launcher.status));
  run_launcher(&launcher);
  cr_assert(atomic_load(&launcher.status) == COLL_ERROR_RANK_LOST);
  plan_free(plan);
  end(&engines);
  free(launcher.program);
  free(launcher.data);
}

Test(gpu_copy, abort_ends_waits) {
  check_abort(100, COLL_OK);
}

Test(gpu_copy, abort_ends_a_launch) {
  check_abort(ABORT_COUNT, COLL_ERROR_RANK_LOST);
}

Test(gpu_copy, refusals) {
  engines_t engines;
  gpu_program_t wide = {.lanes = LANES + 1};
  gpu_request_t request = {.dtype = COLL_FLOAT32};
  begin(&engines, 2, 2);
  GPU_FAILS(COLL_ERROR_UNSUPPORTED, "17 lanes",
            cuda_copy_launch(engines.copies[0], &wide, &request, engines.streams[0]));
  end(&engines);
}
