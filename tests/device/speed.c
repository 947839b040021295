/*
 * Benchmark of the host device's tables: bytes of destination per second, by instruction set,
 * kernel and size, next to memcpy. All rows of a column are measured in turns, so that other load
 * on the machine affects them alike; the median of the turns is printed. With an argument N, N
 * processes measure at the same time and the first one prints.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/names.h"
#include "base/text.h"
#include "device/host/host.h"

#define TURNS 25
#define TURN_BYTES                                                               \
  ((size_t)256 << 10) /* smaller destinations are written several times per turn \
                       */
#define POOL_BYTES ((size_t)192 << 20)
#define ROWS_MAX 128

static const char *const isas[] = {"portable", "avx2", "avx512", "avx512bf16", "neon"};
static const size_t sizes[] = {16 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
enum { ISAS = sizeof isas / sizeof isas[0], SIZES = sizeof sizes / sizeof sizes[0] };

/* One row of the table. sources 0: memcpy, 1: copy, otherwise a sum. */
typedef struct row {
  const device_ops_t *ops;
  int sources;
  coll_dtype_t dtype;
  bool streamed;
  double took_ns[TURNS];
} row_t;

static void run_row(const row_t *row, char *memory, size_t bytes) {
  const void *sources[] = {memory + bytes, memory + 2 * bytes};
  void *dst = memory;
  size_t count = bytes / base_dtype_bytes(row->dtype);
  host_stream_set(row->streamed ? 1 : SIZE_MAX);
  if (row->sources == 0) {
    memcpy(dst, sources[0], bytes);
  } else if (row->sources == 1) {
    row->ops->copy(dst, sources[0], bytes, bytes);
  } else {
    row->ops->reduce(&dst, 1, 0, sources, row->sources, count, row->dtype, COLL_SUM, bytes);
  }
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void measure(row_t *rows, int row_count, char *memory, size_t bytes) {
  size_t times = bytes < TURN_BYTES ? TURN_BYTES / bytes : 1;
  for (int turn = 0; turn < TURNS; turn++) {
    for (int i = 0; i < row_count; i++) {
      uint64_t start = base_clock_now_ns();
      for (size_t k = 0; k < times; k++) run_row(&rows[i], memory, bytes);
      rows[i].took_ns[turn] = (double)(base_clock_now_ns() - start) / (double)times;
    }
  }
  for (int i = 0; i < row_count; i++) {
    qsort(rows[i].took_ns, TURNS, sizeof(double), ascending);
  }
}

static int make_rows(row_t rows[ROWS_MAX]) {
  int count = 0;
  rows[count++] = (row_t){.sources = 0};
  for (int i = 0; i < ISAS; i++) {
    const device_ops_t *ops = host_isa_find(isas[i]);
    if (ops == NULL) continue;
    for (int streamed = 0; streamed < (i > 0 ? 2 : 1); streamed++) {
      rows[count++] = (row_t){ops, 1, COLL_INT8, streamed == 1, {0}};
      for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++) {
        rows[count++] = (row_t){ops, 2, (coll_dtype_t)dtype, streamed == 1, {0}};
      }
    }
  }
  return count;
}

static void show(const row_t *rows, int row_count, double medians[][SIZES]) {
  char text[24];
  printf("%-14s %-8s %-12s %-8s", "table", "kernel", "dtype", "stores");
  for (int s = 0; s < SIZES; s++) printf(" %7s", base_text_from_bytes(sizes[s], text));
  printf("   (GB/s of destination)\n");
  for (int i = 0; i < row_count; i++) {
    const row_t *row = &rows[i];
    printf("%-14s %-8s %-12s %-8s", row->ops != NULL ? row->ops->name : "libc",
           row->sources < 2 ? "copy" : "sum of 2",
           row->sources < 2 ? "" : base_dtype_name(row->dtype), row->streamed ? "streamed" : "");
    for (int s = 0; s < SIZES; s++) printf(" %7.1f", (double)sizes[s] / medians[i][s]);
    printf("\n");
  }
}

int main(int argc, char **argv) {
  static row_t rows[ROWS_MAX];
  static double medians[ROWS_MAX][SIZES];
  int64_t processes = 1;
  if (argc > 1 && !base_text_integer(argv[1], 1, 256, &processes)) {
    fprintf(stderr, "speed: how many processes? '%s' is not a number from 1 to 256\n", argv[1]);
    return EXIT_FAILURE;
  }
  bool shows = true;
  for (int64_t p = 1; p < processes && shows; p++) shows = fork() != 0;
  char *memory = mmap(NULL, POOL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    perror("speed: mmap");
    return EXIT_FAILURE;
  }
  madvise(memory, POOL_BYTES, MADV_HUGEPAGE);
  memset(memory, 0x3c, POOL_BYTES);
  int row_count = make_rows(rows);
  for (int s = 0; s < SIZES; s++) {
    measure(rows, row_count, memory, sizes[s]);
    for (int i = 0; i < row_count; i++) medians[i][s] = rows[i].took_ns[TURNS / 2];
  }
  if (!shows) return EXIT_SUCCESS;
  while (wait(NULL) > 0) continue;
  show(rows, row_count, medians);
  return EXIT_SUCCESS;
}
