/*
 * What the memory of one GPU does for collectives: the time of a flag between multiprocessors and
 * of fences, and the bandwidth of copies and reductions by 1, 2, 4 ... multiprocessors. It depends
 * on CUDA's runtime alone, so nvcc on a machine with a GPU compiles it as it is:
 *
 *   nvcc -std=c++17 -O3 -arch=native -I. -o gpu_memory bench/gpu_memory.cu
 *
 * Its lines of JSON are of "gpu", "hop" (flags), "fence", "copy" and "reduce".
 */
#include "bench/gpu_memory/fences.cuh"
#include "bench/gpu_memory/flags.cuh"
#include "bench/gpu_memory/host.cuh"
#include "bench/gpu_memory/moves.cuh"

#define PAIRS 8 /* of multiprocessors */
#define FENCES 256
#define BLOCK_BYTES ((size_t)16 << 20) /* that a block moves in a launch, at most */
#define LAUNCHES 4                     /* of a round, each on other memory while that lasts */

/* ---- flags -----------------------------------------------------------------------------------*/

/* Nanoseconds from the first block to the `second` one; 0: both ran on one multiprocessor. */
template <way WAY>
static double time_hop(session *on, uint32_t second) {
  mailbox *boxes = (mailbox *)on->room[0];
  std::vector<double> times;
  for (int round = 0; round < on->chosen.rounds; round++) {
    must(cudaMemset(boxes, 0, 2 * sizeof *boxes), "cudaMemset");
    launch(pass_messages<WAY>, on->blocks, 1, boxes, 0, second, on->chosen.messages, on->result);
    outcome found = finish(on, "flags");
    if (found.multiprocessors[0] == found.multiprocessors[1]) return 0;
    times.push_back((double)found.ns / (2.0 * on->chosen.messages));
  }
  return median(times);
}

template <way WAY>
static void measure_hops(session *on, const char *name, const char *text) {
  std::vector<double> times;
  int pairs = std::min(PAIRS, on->blocks - 1);
  for (int i = 0; i < pairs; i++) {
    double ns = time_hop<WAY>(on, 1 + i * (on->blocks - 1) / pairs);
    if (ns > 0) times.push_back(ns);
  }
  if (times.empty()) {
    printf("  %-34s not measured: no two blocks ran on different multiprocessors\n", text);
    return;
  }
  auto range = std::minmax_element(times.begin(), times.end());
  double least = *range.first, most = *range.second;
  printf("  %-34s %8.0f %8.0f %8.0f\n", text, median(times), least, most);
  figure(on,
         "\"figure\": \"hop\", \"way\": \"%s\", \"ns\": %.1f, \"least_ns\": %.1f, "
         "\"most_ns\": %.1f, \"pairs\": %zu",
         name, median(times), least, most, times.size());
}

static void measure_flags(session *on) {
  printf("%-36s %8s %8s %8s\n", "ns between two multiprocessors", "median", "least", "most");
  measure_hops<WAY_RELAXED>(on, "relaxed", "flag without data, relaxed");
  measure_hops<WAY_RELEASE>(on, "release", "8 B, st.release and ld.acquire");
  measure_hops<WAY_LL>(on, "ll", "4 B with a flag in 8 B");
  measure_hops<WAY_LL16>(on, "ll16", "12 B with a flag in 16 B");
}

/* ---- fences ----------------------------------------------------------------------------------*/

template <bool IS_SYSTEM, fence_load LOAD>
static double time_fence(session *on, uint32_t blocks, uint32_t threads) {
  uint64_t *words = (uint64_t *)on->room[0];
  fence_call call = {words, words + WARP, (uint4 *)on->room[1], on->chosen.bytes / sizeof(uint4),
                     FENCES};
  std::vector<double> times;
  for (int round = 0; round < on->chosen.rounds; round++) {
    must(cudaMemset(words, 0, sizeof *words), "cudaMemset");
    launch(measure_fences<IS_SYSTEM, LOAD>, blocks, threads, call, on->result);
    times.push_back((double)finish(on, "fences").ns / FENCES);
  }
  return median(times);
}

static void print_fence(session *on, const char *load, const char *text, double system_ns,
                        double device_ns) {
  printf("  %-34s %8.0f %8.0f\n", text, system_ns, device_ns);
  figure(on, "\"figure\": \"fence\", \"load\": \"%s\", \"system_ns\": %.1f, \"device_ns\": %.1f",
         load, system_ns, device_ns);
}

static void measure_all_fences(session *on) {
  printf("%-36s %8s %8s\n", "ns of a fence of a thread", "system", "device");
  print_fence(on, "idle", "nothing is stored", time_fence<true, LOAD_NONE>(on, 1, WARP),
              time_fence<false, LOAD_NONE>(on, 1, WARP));
  print_fence(on, "own", "behind a store of the thread", time_fence<true, LOAD_OWN>(on, 1, WARP),
              time_fence<false, LOAD_OWN>(on, 1, WARP));
  print_fence(on, "block", "while the block stores",
              time_fence<true, LOAD_BLOCK>(on, 1, on->chosen.threads),
              time_fence<false, LOAD_BLOCK>(on, 1, on->chosen.threads));
  print_fence(on, "gpu", "while all multiprocessors store",
              time_fence<true, LOAD_BLOCK>(on, on->blocks, on->chosen.threads),
              time_fence<false, LOAD_BLOCK>(on, on->blocks, on->chosen.threads));
}

/* ---- bandwidth -------------------------------------------------------------------------------*/

/* So that each launch of a cell has memory that is in no cache, they take turns. */
struct region {
  size_t vectors, at;
};

static void next_region(const session *on, region *where) {
  where->at += where->vectors;
  if (where->at + where->vectors > on->chosen.bytes / sizeof(float4)) where->at = 0;
}

template <bool IS_REDUCTION, int UNROLL>
static void launch_move(session *on, int blocks, const region *where) {
  buffers all = {(float4 *)on->room[0] + where->at, (const float4 *)on->room[1] + where->at,
                 (const float4 *)on->room[2] + where->at, where->vectors};
  launch(move_all<IS_REDUCTION, UNROLL>, blocks, on->chosen.threads, all, on->result);
}

/* Milliseconds of LAUNCHES launches. */
template <bool IS_REDUCTION, int UNROLL>
static double time_moves(session *on, int blocks, region *where, cudaEvent_t events[2]) {
  float ms;
  must(cudaEventRecord(events[0], 0), "cudaEventRecord");
  for (int i = 0; i < LAUNCHES; i++) {
    next_region(on, where);
    launch_move<IS_REDUCTION, UNROLL>(on, blocks, where);
  }
  must(cudaEventRecord(events[1], 0), "cudaEventRecord");
  finish(on, IS_REDUCTION ? "reduce" : "copy");
  must(cudaEventElapsedTime(&ms, events[0], events[1]), "cudaEventElapsedTime");
  return ms;
}

template <bool IS_REDUCTION, int UNROLL>
static double measure_cell(session *on, int blocks, cudaEvent_t events[2]) {
  region where = {std::min(on->chosen.bytes, blocks * BLOCK_BYTES) / sizeof(float4), 0};
  std::vector<double> speeds;
  must(cudaMemset(on->room[0], 0, on->chosen.bytes), "cudaMemset");
  time_moves<IS_REDUCTION, UNROLL>(on, blocks, &where, events);
  for (int round = 0; round < on->chosen.rounds; round++) {
    double ms = time_moves<IS_REDUCTION, UNROLL>(on, blocks, &where, events);
    double bytes = (IS_REDUCTION ? 3.0 : 2.0) * LAUNCHES * where.vectors * sizeof(float4);
    speeds.push_back(bytes / ms * 1e-6);
  }
  launch(check, on->blocks, on->chosen.threads, (const float4 *)on->room[0], where.at,
         where.vectors, IS_REDUCTION ? 3.0f : 1.0f, on->result);
  finish(on, IS_REDUCTION ? "reduce" : "copy");
  printf(" %8.0f", median(speeds));
  figure(on, "\"figure\": \"%s\", \"blocks\": %d, \"threads\": %u, \"unroll\": %d, \"gbs\": %.2f",
         IS_REDUCTION ? "reduce" : "copy", blocks, on->chosen.threads, UNROLL, median(speeds));
  return median(speeds);
}

template <bool IS_REDUCTION>
static void measure_moves(session *on, cudaEvent_t events[2]) {
  printf("GB/s loaded and stored, %-10s %8s %8s %8s %8s\n", IS_REDUCTION ? "reduce" : "copy",
         "unroll 1", "2", "4", "8");
  for (int blocks = 1;; blocks = std::min(2 * blocks, on->blocks)) {
    printf("  %4d %-27s", blocks, blocks == 1 ? "block" : "blocks");
    measure_cell<IS_REDUCTION, 1>(on, blocks, events);
    measure_cell<IS_REDUCTION, 2>(on, blocks, events);
    measure_cell<IS_REDUCTION, 4>(on, blocks, events);
    measure_cell<IS_REDUCTION, 8>(on, blocks, events);
    printf("\n");
    if (blocks == on->blocks) return;
  }
}

static void measure_bandwidth(session *on) {
  cudaEvent_t events[2];
  for (int i = 0; i < 2; i++) must(cudaEventCreate(&events[i]), "cudaEventCreate");
  for (int i = 1; i < 3; i++) {
    launch(fill, on->blocks, on->chosen.threads, (float4 *)on->room[i],
           on->chosen.bytes / sizeof(float4), (float)i, on->result);
  }
  finish(on, "fill");
  if (is_chosen(on, "copy")) measure_moves<false>(on, events);
  if (is_chosen(on, "reduce")) measure_moves<true>(on, events);
  for (int i = 0; i < 2; i++) must(cudaEventDestroy(events[i]), "cudaEventDestroy");
}

/* ---- all of it -------------------------------------------------------------------------------*/

static void open_session(session *on) {
  cudaDeviceProp properties;
  must(cudaSetDevice(0), "the first GPU");
  must(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  on->blocks = properties.multiProcessorCount;
  if (on->chosen.json != nullptr) {
    on->json = fopen(on->chosen.json, "w");
    if (on->json == nullptr) fail("%s: %s", on->chosen.json, strerror(errno));
  }
  must(cudaMalloc((void **)&on->result, sizeof *on->result), "cudaMalloc");
  must(cudaMemset(on->result, 0, sizeof *on->result), "cudaMemset");
  for (void *&room : on->room) must(cudaMalloc(&room, on->chosen.bytes), "cudaMalloc");
  printf("%s, %d multiprocessors\n", properties.name, on->blocks);
  figure(on, "\"figure\": \"gpu\", \"name\": \"%s\", \"multiprocessors\": %d", properties.name,
         on->blocks);
}

static void close_session(session *on) {
  for (void *room : on->room) must(cudaFree(room), "cudaFree");
  must(cudaFree(on->result), "cudaFree");
  if (on->json != nullptr && (ferror(on->json) | fclose(on->json)) != 0) {
    fail("%s: cannot be written", on->chosen.json);
  }
  if (fflush(stdout) != 0) fail("standard output cannot be written");
}

int main(int argc, char **argv) {
  session on = {};
  on.chosen = parse(argc, argv);
  open_session(&on);
  if (is_chosen(&on, "flags")) measure_flags(&on);
  if (is_chosen(&on, "fences")) measure_all_fences(&on);
  if (is_chosen(&on, "copy") || is_chosen(&on, "reduce")) measure_bandwidth(&on);
  close_session(&on);
  return 0;
}
