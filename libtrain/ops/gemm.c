/* The tiles of all products form one list of tasks, ordered by product. */
#include "libtrain/ops/gemm.h"

#include <cblas.h>
#include <stdlib.h>

#include "base/memory.h"
#include "libtrain/ops/blas.h"

#define PRODUCTS_MAX 4

typedef struct tiling {
  int tile_rows, tile_columns;
  int tiles_per_row; /* tiles in a row of tiles */
  int tasks;
} tiling_t;

typedef struct work {
  const train_product_t *products;
  tiling_t tilings[PRODUCTS_MAX];
  int count;
} work_t;

/* The size of equal tiles of at most `max`, rounded up to whole vectors. */
static int even_tile(int length, int max) {
  int parts = (length + max - 1) / max;
  int size = (length + parts - 1) / parts;
  return (size + 15) / 16 * 16;
}

/* Gradients of weights are sums over positions and have a small depth: larger tiles are faster. */
static tiling_t tiling_of(const train_product_t *product) {
  int max_rows = product->a_transposed ? 512 : 256, max_columns = product->a_transposed ? 768 : 384;
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

static void multiply(const train_product_t *p, const train_tile_t *tile) {
  const float *a =
      (const float *)p->a + (p->a_transposed ? (size_t)tile->row : (size_t)tile->row * p->a_stride);
  const float *b = (const float *)p->b +
                   (p->b_transposed ? (size_t)tile->column * p->b_stride : (size_t)tile->column);
  if (p->rows == 1 && !p->a_transposed && p->b_transposed && !p->add) {
    /* A vector is too small for sgemm, whose copy of b would dominate the run time. */
    cblas_sgemv(CblasRowMajor, CblasNoTrans, tile->columns, p->depth, 1.0f, b, p->b_stride, a, 1,
                0.0f, tile->values, 1);
    return;
  }
  cblas_sgemm(CblasRowMajor, p->a_transposed ? CblasTrans : CblasNoTrans,
              p->b_transposed ? CblasTrans : CblasNoTrans, tile->rows, tile->columns, p->depth,
              1.0f, a, p->a_stride, b, p->b_stride, p->add ? 1.0f : 0.0f, tile->values,
              tile->stride);
}

static void run_tile(void *context, int task, int thread) {
  const work_t *work = context;
  int i = 0;
  (void)thread;
  while (task >= work->tilings[i].tasks) task -= work->tilings[i++].tasks;
  const train_product_t *p = &work->products[i];
  const tiling_t *tiling = &work->tilings[i];
  train_tile_t tile = {.row = task / tiling->tiles_per_row * tiling->tile_rows,
                       .column = task % tiling->tiles_per_row * tiling->tile_columns,
                       .stride = p->out_stride};
  tile.rows = min_int(tiling->tile_rows, p->rows - tile.row);
  tile.columns = min_int(tiling->tile_columns, p->columns - tile.column);
  tile.values = p->out + (size_t)tile.row * p->out_stride + tile.column;
  multiply(p, &tile);
  if (p->epilogue != NULL) p->epilogue(p->context, &tile);
}

struct train_gemm {
  train_pool_t *pool;
};

coll_status_t train_gemm_create(train_pool_t *pool, train_gemm_t **gemm) {
  void *memory;
  COLL_TRY(base_alloc(1, sizeof(train_gemm_t), "matrix products", &memory));
  *gemm = memory;
  (*gemm)->pool = pool;
  return COLL_OK;
}

void train_gemm_destroy(train_gemm_t *gemm) {
  free(gemm);
}

size_t train_gemm_bytes(int threads) {
  (void)threads;
  return 0;
}

void train_gemm_run(train_gemm_t *gemm, const train_product_t *products, int count) {
  work_t work = {.products = products, .count = count};
  int tasks = 0;
  train_blas_prepare();
  for (int i = 0; i < count; i++) {
    work.tilings[i] = tiling_of(&products[i]);
    tasks += work.tilings[i].tasks;
  }
  train_pool_run(gemm->pool, tasks, run_tile, &work);
}

void train_gemm_run_serial(train_gemm_t *gemm, int thread, const train_product_t *product) {
  (void)gemm, (void)thread;
  const train_tile_t all = {.rows = product->rows,
                            .columns = product->columns,
                            .values = product->out,
                            .stride = product->out_stride};
  multiply(product, &all);
}
