/* The median of a few products of square matrices, large enough to be bound by arithmetic. */
#include "tools/gpt/speed.h"

#include <cblas.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"

#define SIDE 768
#define REPEATS 7

static int by_value(const void *a, const void *b) {
  double first = *(const double *)a, second = *(const double *)b;
  return (first > second) - (first < second);
}

/* FLOP/s of this rank; matrices holds three of SIDE x SIDE. */
static double measure(float *matrices) {
  const float *a = matrices, *b = matrices + SIDE * SIDE;
  float *c = matrices + 2 * SIDE * SIDE;
  double seconds[REPEATS];
  for (int i = -1; i < REPEATS; i++) { /* the first warms up */
    uint64_t start_ns = base_clock_now_ns();
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, SIDE, SIDE, SIDE, 1, a, SIDE, b, SIDE, 0,
                c, SIDE);
    if (i >= 0) seconds[i] = (double)(base_clock_now_ns() - start_ns) * 1e-9;
  }
  qsort(seconds, REPEATS, sizeof seconds[0], by_value);
  return 2.0 * SIDE * SIDE * SIDE / seconds[REPEATS / 2];
}

coll_status_t gpt_speed_measure(const train_layout_t *layout, const train_team_t *team, int threads,
                                gpt_speed_t *speed) {
  void *memory = NULL;
  size_t count = 3 * SIDE * SIDE;
  COLL_TRY(train_team_agree(team, base_alloc(count, sizeof(float), "measuring sgemm", &memory)));
  float *matrices = memory;
  for (size_t i = 0; i < count; i++) matrices[i] = (float)(i % 7) - 3;
  int used = openblas_get_num_threads();
  openblas_set_num_threads(threads);
  double rate = measure(matrices);
  openblas_set_num_threads(used);
  free(memory);
  COLL_TRY(train_team_sum_doubles(team, &rate, 1));
  const train_model_config_t *config = &layout->config;
  *speed = (gpt_speed_t){
      .flops_per_token = 6.0 * (double)layout->parameter_count +
                         12.0 * config->layers * (double)config->width * config->context,
      .sgemm_per_s = rate};
  return COLL_OK;
}

double gpt_speed_fraction(const gpt_speed_t *speed, double tokens_per_s) {
  return speed->flops_per_token * tokens_per_s / speed->sgemm_per_s;
}
