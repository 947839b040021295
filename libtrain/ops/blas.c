/* Configures and queries OpenBLAS. */
#include "libtrain/ops/blas.h"

#include <cblas.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"

#define SIZE 1024 /* rows and columns of the matrices of the rate measurement */
#define TRIES 8

static void set_one_thread(void) {
  openblas_set_num_threads(1);
}

void train_blas_prepare(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, set_one_thread);
}

const char *train_blas_kernels(void) {
  return openblas_get_corename();
}

/* Uses three SIZE x SIZE matrices per thread: two factors and their product. */
static void multiply(void *context, int task, int thread) {
  const size_t elements = (size_t)SIZE * SIZE;
  float *a = (float *)context + (size_t)task * 3 * elements, *b = a + elements, *c = b + elements;
  (void)thread;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, SIZE, SIZE, SIZE, 1.0f, a, SIZE, b, SIZE,
              0.0f, c, SIZE);
}

coll_status_t train_blas_rate(train_pool_t *pool, double *flops) {
  int threads = train_pool_threads(pool);
  size_t floats = (size_t)threads * 3 * SIZE * SIZE;
  void *memory;
  COLL_TRY(base_alloc(floats, sizeof(float), "measuring matrix products", &memory));
  float *matrices = memory;
  for (size_t i = 0; i < floats; i++) matrices[i] = (float)(i % 7) - 3.0f;
  train_blas_prepare();
  double best = 0;
  for (int i = 0; i < TRIES; i++) {
    uint64_t start_ns = base_clock_now_ns();
    train_pool_run(pool, threads, multiply, matrices);
    double seconds = (double)(base_clock_now_ns() - start_ns) * 1e-9;
    double reached = 2.0 * SIZE * SIZE * SIZE * threads / seconds;
    best = reached > best ? reached : best;
  }
  free(memory);
  *flops = best;
  return COLL_OK;
}
