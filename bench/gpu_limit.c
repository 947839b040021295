/*
 * Speed of the GPUs' memories and of copies between them, by the copies of NVIDIA's driver: what
 * tools/gpu-check compares collectives with. Prints one JSON object:
 *
 *   {"gpus": [{"name", "copy_gbs"}], "peers": [[GB/s from GPU i to GPU j]], "queue_us"}
 *
 * copy_gbs counts the bytes that are loaded and those that are stored; queue_us is the time of a
 * copy of 8 bytes among others. Usage: gpu_limit BYTES COPIES
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/status.h"
#include "base/text.h"
#include "base/tool.h"
#include "bench/gpu.h"

#define GPUS_MAX 64
#define ROUNDS 3
#define QUEUED 1000

typedef struct side {
  bench_gpu_t gpu;
  char name[64];
  void *from, *to;
} side_t;

/* The shortest time of `copies` copies, in microseconds, of ROUNDS. */
static coll_status_t time_copies(const side_t *side, void *to, const void *from, size_t bytes,
                                 int copies, double *us) {
  *us = 0;
  COLL_TRY(bench_gpu_copy(&side->gpu, to, from, bytes));
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t begin_ns = base_clock_now_ns();
    for (int i = 0; i < copies; i++) COLL_TRY(bench_gpu_queue_copy(&side->gpu, to, from, bytes));
    COLL_TRY(bench_gpu_sync(&side->gpu));
    double took_us = (double)(base_clock_now_ns() - begin_ns) * 1e-3;
    if (round == 0 || took_us < *us) *us = took_us;
  }
  return COLL_OK;
}

static coll_status_t open_side(int index, size_t bytes, side_t *side) {
  COLL_TRY(bench_gpu_open(index, &side->gpu));
  COLL_TRY(bench_gpu_name(&side->gpu, side->name, (int)sizeof side->name));
  COLL_TRY(bench_gpu_alloc(bytes, &side->from));
  return bench_gpu_alloc(bytes, &side->to);
}

static coll_status_t measure(side_t sides[], int count, size_t bytes, int copies) {
  double us;
  for (int i = 0; i < count; i++) COLL_TRY(open_side(i, bytes, &sides[i]));
  printf("{\"gpus\": [");
  for (int i = 0; i < count; i++) {
    COLL_TRY(bench_gpu_select(&sides[i].gpu));
    COLL_TRY(time_copies(&sides[i], sides[i].to, sides[i].from, bytes, copies, &us));
    printf("%s{\"name\": \"%s\", \"copy_gbs\": %.1f}", i > 0 ? ", " : "", sides[i].name,
           2e-3 * (double)bytes * copies / us);
  }
  printf("], \"peers\": [");
  for (int i = 0; i < count; i++) {
    printf("%s[", i > 0 ? ", " : "");
    COLL_TRY(bench_gpu_select(&sides[i].gpu));
    for (int j = 0; j < count; j++) {
      us = 0;
      if (i != j) (void)bench_gpu_reach(&sides[j].gpu);
      if (i != j) COLL_TRY(time_copies(&sides[i], sides[j].to, sides[i].from, bytes, copies, &us));
      printf("%s%.1f", j > 0 ? ", " : "", us > 0 ? 1e-3 * (double)bytes * copies / us : 0.0);
    }
    printf("]");
  }
  COLL_TRY(bench_gpu_select(&sides[0].gpu));
  COLL_TRY(time_copies(&sides[0], sides[0].to, sides[0].from, 8, QUEUED, &us));
  printf("], \"queue_us\": %.3f}\n", us / QUEUED);
  return COLL_OK;
}

static coll_status_t parse(int argc, char **argv, uint64_t *bytes, int64_t *copies, bool *helped) {
  const base_command_t command = {
      .name = "gpu_limit",
      .usage = "BYTES COPIES",
      .summary =
          "Times copies of so many bytes within the GPUs and between them, by the driver. "
          "Prints JSON."};
  int first;
  COLL_TRY(base_options_parse(&command, argc, argv, &first, helped));
  if (*helped) return COLL_OK;
  if (first + 2 == argc && base_text_bytes(argv[first], bytes) && *bytes >= 8 &&
      base_text_integer(argv[first + 1], 1, 1000000, copies)) {
    return COLL_OK;
  }
  return base_fail(COLL_ERROR_INVALID, "give bytes, at least 8, and a number of copies");
}

static int run_tool(int argc, char **argv) {
  static side_t sides[GPUS_MAX];
  uint64_t bytes = 0;
  int64_t copies = 0;
  int count = 0;
  bool helped = false;
  coll_status_t status = parse(argc, argv, &bytes, &copies, &helped);
  if (status != COLL_OK) return base_tool_fail("gpu_limit", status);
  if (helped) return BASE_EXIT_DONE;
  status = bench_gpu_count(&count);
  if (count > GPUS_MAX) count = GPUS_MAX;
  if (status == COLL_OK) status = measure(sides, count, (size_t)bytes, (int)copies);
  for (int i = 0; i < count; i++) {
    if (sides[i].gpu.stream == NULL || bench_gpu_select(&sides[i].gpu) != COLL_OK) continue;
    bench_gpu_free(sides[i].from);
    bench_gpu_free(sides[i].to);
    bench_gpu_close(&sides[i].gpu);
  }
  return status == COLL_OK ? BASE_EXIT_DONE : base_tool_fail("gpu_limit", base_tool_input(status));
}

int main(int argc, char **argv) {
  return base_tool_main("gpu_limit", run_tool, argc, argv);
}
