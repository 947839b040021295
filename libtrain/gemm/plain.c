/*
 * Products in plain C, for machines without a library. A panel of b of 32 columns and a panel of a
 * of 4 rows are copied so that the innermost loop reads both in order (Goto and van de Geijn 2008),
 * with the 4 x 32 sums in registers.
 */
#include <string.h>

#include "libtrain/common/vector.h"
#include "libtrain/gemm/backend.h"

#define LANES 16
#define ROWS 4
#define COLUMNS (2 * LANES)
#define DEPTH 256

typedef float vector_t __attribute__((vector_size(LANES * sizeof(float))));

static int min_int(int a, int b) {
  return a < b ? a : b;
}

/* ---- products ---- */

/* panel[depth][width] = the elements of a factor; those outside of it are 0. Element (k, i) is at
 * from[k * depth_step + i * step]. */
TRAIN_VECTORIZED
static void copy_panel(const float *from, size_t depth_step, size_t step, int depth, int count,
                       int width, float *restrict panel) {
  if (count < width) memset(panel, 0, (size_t)depth * (size_t)width * sizeof *panel);
  if (step == 1) {
    for (int k = 0; k < depth; k++) {
      memcpy(panel + k * width, from + (size_t)k * depth_step, (size_t)count * sizeof *panel);
    }
    return;
  }
  for (int i = 0; i < count; i++) {
    for (int k = 0; k < depth; k++) {
      panel[k * width + i] = from[(size_t)i * step + (size_t)k * depth_step];
    }
  }
}

TRAIN_VECTORIZED
static void multiply_panels(const float *a, const float *b, int depth, float *restrict sums) {
  vector_t low[ROWS] = {0}, high[ROWS] = {0};
  for (int k = 0; k < depth; k++) {
    vector_t b_low, b_high;
    memcpy(&b_low, b + k * COLUMNS, sizeof b_low);
    memcpy(&b_high, b + k * COLUMNS + LANES, sizeof b_high);
#pragma GCC unroll 4
    for (int row = 0; row < ROWS; row++) {
      low[row] += a[k * ROWS + row] * b_low;
      high[row] += a[k * ROWS + row] * b_high;
    }
  }
  for (int row = 0; row < ROWS; row++) {
    memcpy(sums + row * COLUMNS, &low[row], sizeof low[row]);
    memcpy(sums + row * COLUMNS + LANES, &high[row], sizeof high[row]);
  }
}

static void store(const float *sums, int rows, int columns, bool add, int stride, float *out) {
  for (int row = 0; row < rows; row++) {
    float *to = out + (size_t)row * (size_t)stride;
    for (int i = 0; i < columns; i++) {
      to[i] = add ? to[i] + sums[row * COLUMNS + i] : sums[row * COLUMNS + i];
    }
  }
}

/* One block of `depth` of all rows, and of some columns. */
static void multiply_block(const train_kernel_shape_t *s, const float *a, const float *b, int depth,
                           int columns, bool add, float *out) {
  float a_panel[DEPTH * ROWS], b_panel[DEPTH * COLUMNS], sums[ROWS * COLUMNS];
  size_t a_stride = (size_t)s->a_stride, b_stride = (size_t)s->b_stride;
  size_t a_step = s->a_transposed ? 1 : a_stride, a_depth_step = s->a_transposed ? a_stride : 1;
  copy_panel(b, s->b_transposed ? 1 : b_stride, s->b_transposed ? b_stride : 1, depth, columns,
             COLUMNS, b_panel);
  for (int row = 0; row < s->rows; row += ROWS) {
    int rows = min_int(ROWS, s->rows - row);
    copy_panel(a + (size_t)row * a_step, a_depth_step, a_step, depth, rows, ROWS, a_panel);
    multiply_panels(a_panel, b_panel, depth, sums);
    store(sums, rows, columns, add, s->out_stride, out + (size_t)row * (size_t)s->out_stride);
  }
}

static void run(void *state, void *kernel, const train_kernel_shape_t *s,
                const train_kernel_call_t *call) {
  (void)state, (void)kernel;
  for (int k = 0; k < s->depth; k += DEPTH) {
    const float *a = (const float *)call->a + (size_t)k * (s->a_transposed ? s->a_stride : 1);
    const float *b = (const float *)call->b + (size_t)k * (s->b_transposed ? 1 : s->b_stride);
    for (int column = 0; column < s->columns; column += COLUMNS) {
      multiply_block(s, a, b + (size_t)column * (s->b_transposed ? s->b_stride : 1),
                     min_int(DEPTH, s->depth - k), min_int(COLUMNS, s->columns - column),
                     s->add || k > 0, call->out + column);
    }
  }
}

static bool load(char label[TRAIN_BACKEND_LABEL]) {
  static const char text[] = "plain C";
  memcpy(label, text, sizeof text);
  return true;
}

static bool multiplies(train_dtype_t dtype) {
  return dtype == TRAIN_FLOAT32;
}

static coll_status_t create(int threads, void **state) {
  (void)threads;
  *state = NULL;
  return COLL_OK;
}

static void destroy(void *state) {
  (void)state;
}

static bool create_kernel(void *state, const train_kernel_shape_t *shape, void **kernel) {
  (void)state, (void)shape;
  *kernel = NULL;
  return true;
}

static void destroy_kernel(void *state, void *kernel) {
  (void)state, (void)kernel;
}

const train_backend_t train_backend_plain = {.name = "plain",
                                             .load = load,
                                             .multiplies = multiplies,
                                             .create = create,
                                             .destroy = destroy,
                                             .create_kernel = create_kernel,
                                             .destroy_kernel = destroy_kernel,
                                             .run = run};

/* ---- one row ---- */

TRAIN_VECTORIZED
static float dot(const float *a, const float *b, int count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int i = 0; i < count; i++) sum += a[i] * b[i];
  return sum;
}

TRAIN_VECTORIZED
static void add_scaled(float scale, const float *b, int count, float *restrict out) {
  for (int i = 0; i < count; i++) out[i] += scale * b[i];
}

static void row_by_columns(const train_kernel_shape_t *s, const float *a, const void *b, int first,
                           int count, float *out) {
  float buffer[DEPTH];
  for (int column = 0; column < s->columns; column++) {
    size_t at = (size_t)column * (size_t)s->b_stride + (size_t)first;
    out[column] += dot(a, train_dtype_read(s->dtype, b, at, (size_t)count, buffer), count);
  }
}

static void row_by_rows(const train_kernel_shape_t *s, const float *a, const void *b, int first,
                        int count, float *out) {
  float buffer[DEPTH];
  for (int column = 0; column < s->columns; column += DEPTH) {
    int columns = min_int(DEPTH, s->columns - column);
    for (int k = 0; k < count; k++) {
      size_t at = (size_t)(first + k) * (size_t)s->b_stride + (size_t)column;
      add_scaled(a[k], train_dtype_read(s->dtype, b, at, (size_t)columns, buffer), columns,
                 out + column);
    }
  }
}

void train_plain_row(const train_kernel_shape_t *s, const void *a, const void *b, float *out) {
  float buffer[DEPTH];
  if (!s->add) memset(out, 0, (size_t)s->columns * sizeof *out);
  for (int first = 0; first < s->depth; first += DEPTH) {
    int count = min_int(DEPTH, s->depth - first);
    const float *part = train_dtype_read(s->dtype, a, (size_t)first, (size_t)count, buffer);
    if (s->b_transposed) {
      row_by_columns(s, part, b, first, count, out);
    } else {
      row_by_rows(s, part, b, first, count, out);
    }
  }
}
