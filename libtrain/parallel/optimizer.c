/* Updates run as tasks, and tasks as blocks of a few elements each, so that each array passes
 * through the caches once, also where types are converted. */
#include "libtrain/parallel/optimizer.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "libtrain/common/random.h"
#include "libtrain/common/vector.h"

#define FINAL_RATE_FRACTION 0.1
#define STEP_ELEMENTS ((size_t)1 << 16) /* per task */
#define BLOCK ((size_t)1 << 10)
#define ROUNDING_SEED 1
#define SUM_PARTS 256

/* Constants of a step. The bias corrections are included in rate and inverse_root2. */
typedef struct adamw_step {
  float beta1, beta2, epsilon;
  float gradient_scale;
  float rate;          /* learning rate / (1 - beta1^step) */
  float inverse_root2; /* 1 / sqrt(1 - beta2^step) */
} adamw_step_t;

TRAIN_VECTORIZED
static void step_elements(const adamw_step_t *step, float decay, size_t count,
                          const float *restrict gradients, float *restrict parameters,
                          float *restrict first, float *restrict second) {
  const float beta1 = step->beta1, beta2 = step->beta2, epsilon = step->epsilon;
  const float scale = step->gradient_scale, rate = step->rate, root = step->inverse_root2;
  for (size_t i = 0; i < count; i++) {
    float g = gradients[i] * scale;
    float m = beta1 * first[i] + (1.0f - beta1) * g;
    float v = beta2 * second[i] + (1.0f - beta2) * g * g;
    first[i] = m;
    second[i] = v;
    parameters[i] -= decay * parameters[i] + rate * m / (sqrtf(v) * root + epsilon);
  }
}

/* ---- stochastic rounding ---- */

/* The finalizer of MurmurHash3 (Appleby 2011), which compilers vectorize. */
static inline uint32_t hash(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return x ^ (x >> 16);
}

/* Adds a random number of 16 bits to the half of the significand that bfloat16 lacks, and cuts that
 * half off. narrow[i] is number first + i of the flat space. A NaN stays one: adding could carry
 * into its sign. */
TRAIN_VECTORIZED
static void round_stochastically(uint64_t key, size_t first, const float *restrict wide,
                                 size_t count, uint16_t *restrict narrow) {
  const uint32_t low = (uint32_t)key, high = (uint32_t)(key >> 32), start = (uint32_t)first;
  for (size_t i = 0; i < count; i++) {
    uint32_t random = hash(hash((start + (uint32_t)i) ^ low) ^ high);
    uint32_t bits;
    memcpy(&bits, &wide[i], sizeof bits);
    uint32_t rounded = bits + (random >> 16), quiet = bits | 0x400000u;
    narrow[i] = (uint16_t)(((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded) >> 16);
  }
}

/* ---- a step ---- */

/* The arguments of train_adamw_step. */
typedef struct range_step {
  adamw_step_t constants;
  float decay;           /* for tensors to which weight decay applies */
  uint64_t rounding_key; /* of the random numbers of this step */
  const train_policy_t *policy;
  const train_layout_t *layout;
  size_t first, count;
  train_adamw_arrays_t arrays;
} range_step_t;

static size_t min_size(size_t a, size_t b) {
  return a < b ? a : b;
}

/* Random numbers are those of the element's place in the whole model, so that ranks which hold the
 * same elements round them alike. */
static void round_elements(const range_step_t *s, size_t at, size_t count, const float *wide,
                           uint16_t *narrow) {
  for (size_t done = 0; done < count;) {
    size_t full, run = train_layout_run(s->layout, s->first + at + done, &full);
    size_t here = min_size(run, count - done);
    round_stochastically(s->rounding_key, full, wide + done, here, narrow + done);
    done += here;
  }
}

/* Updates elements at .. at + count - 1 of the range, count <= BLOCK. Narrow parameters are
 * converted in a buffer; it, and the parameters from which the weights are rounded, are in the
 * first-level cache. */
static void step_block(const range_step_t *s, float decay, size_t at, size_t count) {
  const train_adamw_arrays_t *arrays = &s->arrays;
  const train_dtype_t *stored = s->policy->stored;
  train_dtype_t dtype = stored[TRAIN_KIND_PARAMETERS];
  void *parameters = train_dtype_at(dtype, arrays->parameters, at);
  float buffer[BLOCK], *wide = dtype == TRAIN_FLOAT32 ? parameters : buffer;
  if (wide == buffer) train_dtype_widen(dtype, parameters, count, buffer);
  step_elements(&s->constants, decay, count, arrays->gradients + at, wide,
                arrays->first_moments + at, arrays->second_moments + at);
  if (s->policy->stochastic_rounding) {
    round_elements(s, at, count, wide, parameters);
  } else if (arrays->weights != NULL) {
    dtype = stored[TRAIN_KIND_WEIGHTS];
    train_dtype_narrow(dtype, wide, count, train_dtype_at(dtype, arrays->weights, at));
  }
}

/* Whether decay applies is determined once per tensor and task. */
static void step_task(void *context, int task, int thread) {
  const range_step_t *s = context;
  const train_layout_t *layout = s->layout;
  size_t begin = s->first + (size_t)task * STEP_ELEMENTS;
  size_t end = min_size(begin + STEP_ELEMENTS, s->first + s->count);
  (void)thread;
  for (int i = 0; i < layout->tensor_count; i++) {
    const train_tensor_t *tensor = &layout->tensors[i];
    size_t tensor_end = tensor->offset + (size_t)tensor->rows * (size_t)tensor->columns;
    size_t from = tensor->offset > begin ? tensor->offset : begin, to = min_size(tensor_end, end);
    for (size_t at = from; at < to; at += BLOCK) {
      step_block(s, tensor->decays ? s->decay : 0.0f, at - s->first, min_size(BLOCK, to - at));
    }
  }
}

void train_adamw_step(train_pool_t *pool, const train_adamw_t *adamw, const train_layout_t *layout,
                      size_t first, size_t count, const train_adamw_arrays_t *arrays,
                      float gradient_scale, float rate, uint64_t step) {
  const train_policy_t *policy = train_policy_of(arrays->precision);
  assert(policy->stochastic_rounding == (policy->stored[TRAIN_KIND_PARAMETERS] == TRAIN_BFLOAT16));
  assert((arrays->weights != NULL) == train_precision_copies_weights(arrays->precision));
  range_step_t s = {
      .constants = {.beta1 = adamw->beta1,
                    .beta2 = adamw->beta2,
                    .epsilon = adamw->epsilon,
                    .gradient_scale = gradient_scale,
                    .rate = (float)(rate / (1.0 - pow(adamw->beta1, (double)step))),
                    .inverse_root2 = (float)(1.0 / sqrt(1.0 - pow(adamw->beta2, (double)step)))},
      .decay = rate * adamw->weight_decay,
      .rounding_key = train_random_bits(ROUNDING_SEED, TRAIN_RANDOM_ROUNDING, step),
      .policy = policy,
      .layout = layout,
      .first = first,
      .count = count,
      .arrays = *arrays};
  train_pool_run(pool, (int)((count + STEP_ELEMENTS - 1) / STEP_ELEMENTS), step_task, &s);
}

/* ---- norms and rates ---- */

typedef struct square_sum {
  const float *values;
  size_t count;
  double sums[SUM_PARTS];
} square_sum_t;

TRAIN_VECTORIZED
static double sum_squares(const float *values, size_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (size_t i = 0; i < count; i++) sum += (double)values[i] * (double)values[i];
  return sum;
}

static void sum_task(void *context, int part, int thread) {
  square_sum_t *s = context;
  size_t each = (s->count + SUM_PARTS - 1) / SUM_PARTS,
         from = min_size(each * (size_t)part, s->count);
  (void)thread;
  s->sums[part] = sum_squares(s->values + from, min_size(each, s->count - from));
}

double train_square_sum(train_pool_t *pool, const float *values, size_t count) {
  square_sum_t s = {.values = values, .count = count};
  double sum = 0;
  train_pool_run(pool, SUM_PARTS, sum_task, &s);
  for (int i = 0; i < SUM_PARTS; i++) sum += s.sums[i];
  return sum;
}

float train_gradient_clip(double norm, double max) {
  return norm > max ? (float)(max / norm) : 1.0f;
}

float train_learning_rate_at(double peak, double warmup, double progress) {
  if (progress < warmup) return (float)(peak * progress / warmup);
  double decayed = warmup < 1 ? (progress - warmup) / (1 - warmup) : 1;
  double cosine = 0.5 * (1 + cos(3.141592653589793 * decayed));
  return (float)(peak * (FINAL_RATE_FRACTION + (1 - FINAL_RATE_FRACTION) * cosine));
}
