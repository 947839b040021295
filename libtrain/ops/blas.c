/* Configures and queries OpenBLAS. */
#include "libtrain/ops/blas.h"

#include <cblas.h>
#include <pthread.h>

#include "libtrain/ops/gemm.h"

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

coll_status_t train_blas_rate(train_pool_t *pool, double *flops) {
  train_gemm_rate_t rate;
  COLL_TRY(train_gemm_measure(pool, TRAIN_FLOAT32, &rate));
  *flops = rate.flops;
  return COLL_OK;
}
