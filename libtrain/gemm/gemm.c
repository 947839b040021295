/* The tiles of all products form one list of tasks, ordered by product. */
#include "libtrain/gemm/gemm.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"

struct train_gemm {
  train_pool_t *pool;
  train_kernels_t *kernels;
};

/* ---- tiles ---- */

typedef struct tiling {
  int tile_rows, tile_columns;
  int tiles_per_row; /* tiles in a row of tiles */
  int tasks;
} tiling_t;

typedef struct work {
  train_kernels_t *kernels;
  const train_product_t *products;
  tiling_t tilings[TRAIN_PRODUCTS_MAX];
} work_t;

/* The size of equal tiles of at most `max`, rounded up to whole vectors. */
static int even_tile(int length, int max) {
  int parts = (length + max - 1) / max;
  int size = (length + parts - 1) / parts;
  return (size + 15) / 16 * 16;
}

/* Gradients of weights are sums over positions and have a small depth: larger tiles are faster. */
static tiling_t tiling_of(const train_product_t *product) {
  bool large = product->a_transposed && product->out != NULL;
  int max_rows = large ? 512 : TRAIN_TILE_ROWS, max_columns = large ? 768 : TRAIN_TILE_COLUMNS;
  tiling_t tiling = {.tile_rows = even_tile(product->rows, max_rows),
                     .tile_columns = even_tile(product->columns, max_columns)};
  int down = (product->rows + tiling.tile_rows - 1) / tiling.tile_rows;
  tiling.tiles_per_row = (product->columns + tiling.tile_columns - 1) / tiling.tile_columns;
  tiling.tasks = down * tiling.tiles_per_row;
  return tiling;
}

static int min_int(int a, int b) {
  return a < b ? a : b;
}

static train_kernel_shape_t shape_of(const train_product_t *p, int rows, int columns) {
  return (train_kernel_shape_t){.rows = rows,
                                .columns = columns,
                                .depth = p->depth,
                                .a_stride = p->a_stride,
                                .b_stride = p->b_stride,
                                .out_stride = p->out != NULL ? p->out_stride : TRAIN_TILE_COLUMNS,
                                .a_transposed = p->a_transposed,
                                .b_transposed = p->b_transposed,
                                .add = p->add && p->out != NULL,
                                .dtype = p->dtype};
}

static void multiply(train_kernels_t *kernels, int thread, const train_product_t *p,
                     const train_tile_t *tile) {
  size_t a_at = p->a_transposed ? (size_t)tile->row : (size_t)tile->row * (size_t)p->a_stride;
  size_t b_at = p->b_transposed ? (size_t)tile->column * (size_t)p->b_stride : (size_t)tile->column;
  const train_kernel_shape_t shape = shape_of(p, tile->rows, tile->columns);
  train_kernels_run(kernels, thread, &shape, train_dtype_const_at(p->dtype, p->a, a_at),
                    train_dtype_const_at(p->dtype, p->b, b_at), tile->values);
}

static void run_tile(void *context, int task, int thread) {
  const work_t *work = context;
  int i = 0;
  while (task >= work->tilings[i].tasks) task -= work->tilings[i++].tasks;
  const train_product_t *p = &work->products[i];
  const tiling_t *tiling = &work->tilings[i];
  train_tile_t tile = {.row = task / tiling->tiles_per_row * tiling->tile_rows,
                       .column = task % tiling->tiles_per_row * tiling->tile_columns};
  tile.rows = min_int(tiling->tile_rows, p->rows - tile.row);
  tile.columns = min_int(tiling->tile_columns, p->columns - tile.column);
  if (p->out != NULL) {
    tile.values = p->out + (size_t)tile.row * (size_t)p->out_stride + tile.column;
    tile.stride = p->out_stride;
  } else {
    tile.values = train_kernels_tile(work->kernels, thread);
    tile.stride = TRAIN_TILE_COLUMNS;
  }
  multiply(work->kernels, thread, p, &tile);
  if (p->epilogue != NULL) p->epilogue(p->context, &tile);
}

/* ---- engine ---- */

coll_status_t train_gemm_create(train_pool_t *pool, train_gemm_t **gemm) {
  void *memory;
  COLL_TRY(base_alloc(1, sizeof(train_gemm_t), "matrix products", &memory));
  train_gemm_t *created = memory;
  created->pool = pool;
  coll_status_t status = train_kernels_create(train_pool_threads(pool), &created->kernels);
  if (status != COLL_OK) {
    free(created);
    return status;
  }
  *gemm = created;
  return COLL_OK;
}

void train_gemm_destroy(train_gemm_t *gemm) {
  if (gemm == NULL) return;
  train_kernels_destroy(gemm->kernels);
  free(gemm);
}

size_t train_gemm_bytes(int threads) {
  return train_kernels_bytes(threads);
}

/* The tiles of a product have up to four shapes: those of the last row or column may be smaller. */
static void prepare(train_kernels_t *kernels, const train_product_t *p, const tiling_t *tiling) {
  int last_rows = (p->rows - 1) % tiling->tile_rows + 1;
  int last_columns = (p->columns - 1) % tiling->tile_columns + 1;
  const int rows[] = {min_int(tiling->tile_rows, p->rows), last_rows};
  const int columns[] = {min_int(tiling->tile_columns, p->columns), last_columns};
  for (int i = 0; i < 4; i++) {
    const train_kernel_shape_t shape = shape_of(p, rows[i / 2], columns[i % 2]);
    train_kernels_prepare(kernels, 0, &shape);
  }
}

void train_gemm_prepare(train_gemm_t *gemm, const train_product_t *product) {
  const tiling_t tiling = tiling_of(product);
  prepare(gemm->kernels, product, &tiling);
}

void train_gemm_run(train_gemm_t *gemm, const train_product_t *products, int count) {
  assert(count <= TRAIN_PRODUCTS_MAX);
  work_t work = {.kernels = gemm->kernels, .products = products};
  int tasks = 0;
  for (int i = 0; i < count; i++) {
    work.tilings[i] = tiling_of(&products[i]);
    prepare(gemm->kernels, &products[i], &work.tilings[i]);
    tasks += work.tilings[i].tasks;
  }
  train_pool_run(gemm->pool, tasks, run_tile, &work);
}

void train_gemm_run_serial(train_gemm_t *gemm, int thread, const train_product_t *product) {
  const train_tile_t all = {.rows = product->rows,
                            .columns = product->columns,
                            .values = product->out,
                            .stride = product->out_stride};
  multiply(gemm->kernels, thread, product, &all);
}

void train_gemm_describe(const train_gemm_t *gemm, train_kernel_visit_t *visit, void *context) {
  train_kernels_visit(gemm->kernels, visit, context);
}

/* ---- rate ---- */

#define SIZE 512     /* rows, columns and depth of the products of the rate measurement */
#define TRIES 8      /* without a better one, after which the rate is taken */
#define TRIES_MAX 64 /* on a busy machine most are disturbed */

/* Each thread multiplies its own matrices: two factors and their product. */
typedef struct rate_run {
  train_gemm_t *gemm;
  train_dtype_t dtype;
  float *matrices; /* [threads][3][SIZE][SIZE], the factors in the first parts of theirs */
} rate_run_t;

static train_product_t rate_product(const rate_run_t *run, int task) {
  const size_t elements = (size_t)SIZE * SIZE;
  float *first = run->matrices + (size_t)task * 3 * elements;
  return (train_product_t){.rows = SIZE,
                           .columns = SIZE,
                           .depth = SIZE,
                           .dtype = run->dtype,
                           .a = first,
                           .a_stride = SIZE,
                           .b = first + elements,
                           .b_stride = SIZE,
                           .b_transposed = true,
                           .out = first + 2 * elements,
                           .out_stride = SIZE};
}

static void rate_task(void *context, int task, int thread) {
  const rate_run_t *run = context;
  const train_product_t product = rate_product(run, task);
  train_gemm_run_serial(run->gemm, thread, &product);
}

static void fill(const rate_run_t *run, int threads) {
  float values[SIZE];
  for (int i = 0; i < SIZE; i++) values[i] = (float)(i % 7) - 3.0f;
  for (size_t i = 0; i < (size_t)threads * 3 * SIZE; i++) {
    train_dtype_narrow(run->dtype, values, SIZE, run->matrices + i * SIZE);
  }
}

/* The labels of the kernels for the measured type and for float32. */
typedef struct rate_labels {
  train_dtype_t dtype;
  bool widened;
  char own[TRAIN_BACKEND_LABEL], float32[TRAIN_BACKEND_LABEL];
} rate_labels_t;

static void find_labels(void *context, const train_kernel_info_t *info) {
  rate_labels_t *labels = context;
  bool is_own = info->shape.dtype == labels->dtype;
  if (info->widened) labels->widened = true;
  if (is_own) snprintf(labels->own, sizeof labels->own, "%s", info->backend);
  if (!is_own) snprintf(labels->float32, sizeof labels->float32, "%s", info->backend);
}

/* Converted operands are multiplied by the kernels for float32. */
static void write_backend(const train_gemm_t *gemm, train_dtype_t dtype, train_gemm_rate_t *rate) {
  rate_labels_t labels = {.dtype = dtype};
  train_gemm_describe(gemm, find_labels, &labels);
  snprintf(rate->backend, sizeof rate->backend, "%s%s%s", labels.widened ? labels.float32 : "",
           labels.widened ? ", " : "", labels.own);
}

static double rate_of(const rate_run_t *run, int threads) {
  double best = 0;
  rate_task((void *)(uintptr_t)run, 0, 0); /* selects the kernel while the other threads are idle */
  for (int i = 0, last = 0; i < TRIES_MAX && i - last < TRIES; i++) {
    uint64_t start_ns = base_clock_now_ns();
    train_pool_run(run->gemm->pool, threads, rate_task, (void *)(uintptr_t)run);
    double seconds = (double)(base_clock_now_ns() - start_ns) * 1e-9;
    double reached = 2.0 * SIZE * SIZE * SIZE * threads / seconds;
    if (reached > best * 1.01) last = i;
    best = reached > best ? reached : best;
  }
  return best;
}

coll_status_t train_gemm_measure(train_pool_t *pool, train_dtype_t dtype, train_gemm_rate_t *rate) {
  int threads = train_pool_threads(pool);
  rate_run_t run = {.dtype = dtype};
  void *memory;
  COLL_TRY(base_alloc((size_t)threads * 3 * SIZE * SIZE, sizeof(float), "measuring matrix products",
                      &memory));
  run.matrices = memory;
  coll_status_t status = train_gemm_create(pool, &run.gemm);
  if (status == COLL_OK) {
    fill(&run, threads);
    *rate = (train_gemm_rate_t){.flops = rate_of(&run, threads)};
    write_backend(run.gemm, dtype, rate);
    train_gemm_destroy(run.gemm);
  }
  free(memory);
  return status;
}
