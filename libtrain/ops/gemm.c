/* Tiles of all products form one list of tasks, those of the first product first. */
#include "libtrain/ops/gemm.h"

#include <cblas.h>

#include "libtrain/ops/blas.h"

#define PRODUCTS_MAX 4

typedef struct cut {
  int tile_rows, tile_columns;
  int across; /* tiles side by side in a row of tiles */
  int tasks;
} cut_t;

typedef struct work {
  const train_gemm_t *products;
  cut_t cuts[PRODUCTS_MAX];
  int count;
} work_t;

/* The side of equal tiles of at most `most`, rounded up to whole vectors. */
static int even_share(int length, int most) {
  int parts = (length + most - 1) / most;
  int share = (length + parts - 1) / parts;
  return (share + 15) / 16 * 16;
}

/* Sums over positions, that is gradients of weights, are shallow: larger tiles pay off. */
static cut_t cut_of(const train_gemm_t *product) {
  int most_rows = product->a_transposed ? 512 : 256,
      most_columns = product->a_transposed ? 768 : 384;
  cut_t cut = {.tile_rows = even_share(product->rows, most_rows),
               .tile_columns = even_share(product->columns, most_columns)};
  int down = (product->rows + cut.tile_rows - 1) / cut.tile_rows;
  cut.across = (product->columns + cut.tile_columns - 1) / cut.tile_columns;
  cut.tasks = down * cut.across;
  return cut;
}

static int least(int a, int b) {
  return a < b ? a : b;
}

static void multiply(const train_gemm_t *p, const train_tile_t *tile) {
  const float *a = p->a + (p->a_transposed ? (size_t)tile->row : (size_t)tile->row * p->a_stride);
  const float *b =
      p->b + (p->b_transposed ? (size_t)tile->column * p->b_stride : (size_t)tile->column);
  if (p->rows == 1 && !p->a_transposed && p->b_transposed && !p->add) {
    /* Too little for a product of matrices to pay off its copies of b. */
    cblas_sgemv(CblasRowMajor, CblasNoTrans, tile->columns, p->depth, 1.0f, b, p->b_stride, a, 1,
                0.0f, tile->out, 1);
    return;
  }
  cblas_sgemm(CblasRowMajor, p->a_transposed ? CblasTrans : CblasNoTrans,
              p->b_transposed ? CblasTrans : CblasNoTrans, tile->rows, tile->columns, p->depth,
              1.0f, a, p->a_stride, b, p->b_stride, p->add ? 1.0f : 0.0f, tile->out,
              tile->out_stride);
}

static void run_tile(void *context, int task, int thread) {
  const work_t *work = context;
  int i = 0;
  (void)thread;
  while (task >= work->cuts[i].tasks) task -= work->cuts[i++].tasks;
  const train_gemm_t *p = &work->products[i];
  const cut_t *cut = &work->cuts[i];
  train_tile_t tile = {.row = task / cut->across * cut->tile_rows,
                       .column = task % cut->across * cut->tile_columns,
                       .out_stride = p->out_stride};
  tile.rows = least(cut->tile_rows, p->rows - tile.row);
  tile.columns = least(cut->tile_columns, p->columns - tile.column);
  tile.out = p->out + (size_t)tile.row * p->out_stride + tile.column;
  multiply(p, &tile);
  if (p->end != NULL) p->end(p->context, &tile);
}

void train_gemm_run(train_pool_t *pool, const train_gemm_t *products, int count) {
  work_t work = {.products = products, .count = count};
  int tasks = 0;
  train_blas_prepare();
  for (int i = 0; i < count; i++) {
    work.cuts[i] = cut_of(&products[i]);
    tasks += work.cuts[i].tasks;
  }
  train_pool_run(pool, tasks, run_tile, &work);
}

void train_gemm_here(const train_gemm_t *product) {
  const train_tile_t all = {.rows = product->rows,
                            .columns = product->columns,
                            .out = product->out,
                            .out_stride = product->out_stride};
  multiply(product, &all);
}
