/*
 * The kernels form a hash table of linked lists. A kernel is complete before it is linked in with a
 * release store of its list's head, and neither it nor its `next` changes afterwards; therefore
 * readers follow the list without a lock after an acquire load of the head. Kernels are added under
 * a mutex.
 */
#include "libtrain/gemm/kernels.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "libtrain/gemm/choice.h"

#define LISTS 1024
#define VARIANT_BYTES 250

/* Converted operands: blocks of WIDE_DEPTH, whose rows are a few floats apart from a power of two,
 * which would map them to the same sets of the cache. */
#define WIDE_DEPTH 256
#define WIDE_STRIDE(length) ((length) + 16)
#define WIDE_A_FLOATS                                                       \
  (TRAIN_TILE_ROWS > WIDE_DEPTH ? TRAIN_TILE_ROWS * WIDE_STRIDE(WIDE_DEPTH) \
                                : WIDE_DEPTH * WIDE_STRIDE(TRAIN_TILE_ROWS))
#define WIDE_B_FLOATS (TRAIN_TILE_COLUMNS * WIDE_STRIDE(WIDE_DEPTH))

static const train_backend_t *const backends[] = {/* in order of preference */
#ifdef TRAIN_ONEDNN
                                                  &train_backend_onednn,
#endif
                                                  &train_backend_openblas, &train_backend_plain};

enum { BACKENDS = sizeof backends / sizeof *backends, WIDENED = BACKENDS, WAYS };

typedef struct kernel kernel_t;
struct kernel {
  kernel_t *next;
  train_kernel_shape_t shape;
  int way; /* a back end, or WIDENED */
  void *prepared;
  double flops;
};

/* Scratch memory of a thread. */
typedef struct scratch {
  _Alignas(BASE_CACHE_LINE) char pad[TRAIN_BACKEND_SCRATCHPAD];
  _Alignas(BASE_CACHE_LINE) float a[WIDE_A_FLOATS];
  _Alignas(BASE_CACHE_LINE) float b[WIDE_B_FLOATS];
  _Alignas(BASE_CACHE_LINE) float tile[TRAIN_TILE_ROWS * TRAIN_TILE_COLUMNS];
} scratch_t;

struct train_kernels {
  pthread_mutex_t mutex;
  bool forced;            /* by the user: nothing is measured */
  bool enabled[BACKENDS]; /* those not loaded or not wanted are not */
  void *states[BACKENDS];
  char labels[WAYS][TRAIN_BACKEND_LABEL];
  char variant[VARIANT_BYTES];
  scratch_t *scratch; /* [threads] */
  _Atomic(kernel_t *) lists[LISTS];
};

static int min_int(int a, int b) {
  return a < b ? a : b;
}

/* ---- creation ---- */

static coll_status_t fail_with_names(const train_kernels_t *kernels, const char *wanted) {
  char names[128] = "";
  for (int i = 0, length = 0; i < BACKENDS; i++) {
    if (!kernels->enabled[i]) continue;
    length += snprintf(names + length, sizeof names - (size_t)length, "%s%s",
                       length > 0 ? ", " : "", backends[i]->name);
  }
  return base_fail(COLL_ERROR_INVALID, "LIBTRAIN_GEMM is '%s'; available on this machine: %s",
                   wanted, names);
}

/* Plain C remains enabled in any case: it computes what the others do not. */
static coll_status_t force(train_kernels_t *kernels, const char *wanted) {
  int found = -1;
  for (int i = 0; i < BACKENDS; i++) {
    if (kernels->enabled[i] && strcmp(backends[i]->name, wanted) == 0) found = i;
  }
  if (found < 0) return fail_with_names(kernels, wanted);
  for (int i = 0; i + 1 < BACKENDS; i++) kernels->enabled[i] = i == found;
  kernels->forced = true;
  return COLL_OK;
}

static coll_status_t load_backends(train_kernels_t *kernels, int threads) {
  const char *wanted = getenv("LIBTRAIN_GEMM");
  for (int i = 0; i < BACKENDS; i++) kernels->enabled[i] = backends[i]->load(kernels->labels[i]);
  snprintf(kernels->labels[WIDENED], TRAIN_BACKEND_LABEL, "converted to float32");
  if (wanted != NULL && wanted[0] != '\0') COLL_TRY(force(kernels, wanted));
  for (int i = 0, length = 0; i < BACKENDS; i++) {
    if (!kernels->enabled[i]) continue;
    COLL_TRY(backends[i]->create(threads, &kernels->states[i]));
    length += snprintf(kernels->variant + length, sizeof kernels->variant - (size_t)length, "%s%s",
                       length > 0 ? ", " : "", kernels->labels[i]);
  }
  return COLL_OK;
}

size_t train_kernels_bytes(int threads) {
  return (size_t)threads * sizeof(scratch_t);
}

coll_status_t train_kernels_create(int threads, train_kernels_t **kernels) {
  void *memory;
  COLL_TRY(base_alloc(1, sizeof(train_kernels_t), "matrix products", &memory));
  train_kernels_t *created = memory;
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutex_init(&created->mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  created->scratch = aligned_alloc(BASE_CACHE_LINE, train_kernels_bytes(threads));
  coll_status_t status =
      created->scratch != NULL
          ? load_backends(created, threads)
          : base_fail(COLL_ERROR_MEMORY, "out of memory for matrix products of %d threads",
                      threads);
  if (status != COLL_OK) {
    train_kernels_destroy(created);
    return status;
  }
  *kernels = created;
  return COLL_OK;
}

void train_kernels_destroy(train_kernels_t *kernels) {
  if (kernels == NULL) return;
  for (int i = 0; i < LISTS; i++) {
    for (kernel_t *kernel = kernels->lists[i], *next; kernel != NULL; kernel = next) {
      next = kernel->next;
      if (kernel->way < BACKENDS) {
        backends[kernel->way]->destroy_kernel(kernels->states[kernel->way], kernel->prepared);
      }
      free(kernel);
    }
  }
  for (int i = 0; i < BACKENDS; i++) {
    if (kernels->enabled[i]) backends[i]->destroy(kernels->states[i]);
  }
  pthread_mutex_destroy(&kernels->mutex);
  free(kernels->scratch);
  free(kernels);
}

float *train_kernels_tile(train_kernels_t *kernels, int thread) {
  return kernels->scratch[thread].tile;
}

/* ---- table ---- */

static unsigned list_of(const train_kernel_shape_t *s) {
  const int numbers[] = {s->rows,
                         s->columns,
                         s->depth,
                         s->a_stride,
                         s->b_stride,
                         s->out_stride,
                         s->a_transposed + 2 * s->b_transposed + 4 * s->add + 8 * (int)s->dtype};
  uint64_t hash = 0;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    hash = (hash ^ (unsigned)numbers[i]) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return (unsigned)(hash % LISTS);
}

static bool same_shape(const train_kernel_shape_t *s, const train_kernel_shape_t *t) {
  return s->rows == t->rows && s->columns == t->columns && s->depth == t->depth &&
         s->a_stride == t->a_stride && s->b_stride == t->b_stride &&
         s->out_stride == t->out_stride && s->a_transposed == t->a_transposed &&
         s->b_transposed == t->b_transposed && s->add == t->add && s->dtype == t->dtype;
}

static const kernel_t *find(train_kernels_t *kernels, const train_kernel_shape_t *shape) {
  const kernel_t *kernel =
      atomic_load_explicit(&kernels->lists[list_of(shape)], memory_order_acquire);
  while (kernel != NULL && !same_shape(&kernel->shape, shape)) kernel = kernel->next;
  return kernel;
}

/* ---- running ---- */

static size_t at(int first, int step) {
  return (size_t)first * (size_t)step;
}

/* Converts `rows` stored rows of `count` elements. */
static void widen(train_dtype_t dtype, const void *from, int stride, int rows, int count,
                  int wide_stride, float *wide) {
  for (int row = 0; row < rows; row++) {
    train_dtype_widen(dtype, train_dtype_const_at(dtype, from, at(row, stride)), (size_t)count,
                      wide + at(row, wide_stride));
  }
}

/* The float32 product of a block that train_kernels_bytes has memory for. */
static train_kernel_shape_t wide_block(const train_kernel_shape_t *s, int row, int column, int k) {
  train_kernel_shape_t wide = *s;
  wide.dtype = TRAIN_FLOAT32;
  wide.rows = min_int(TRAIN_TILE_ROWS, s->rows - row);
  wide.columns = min_int(TRAIN_TILE_COLUMNS, s->columns - column);
  wide.depth = min_int(WIDE_DEPTH, s->depth - k);
  wide.a_stride = WIDE_STRIDE(s->a_transposed ? TRAIN_TILE_ROWS : WIDE_DEPTH);
  wide.b_stride = WIDE_STRIDE(s->b_transposed ? WIDE_DEPTH : TRAIN_TILE_COLUMNS);
  wide.add = s->add || k > 0;
  return wide;
}

typedef struct wide_call {
  const train_kernel_shape_t *shape;
  const void *a, *b;
  float *out;
} wide_call_t;

typedef void wide_visit_t(train_kernels_t *kernels, int thread, const wide_call_t *call, int row,
                          int column, int k);

static void for_each_wide_block(train_kernels_t *kernels, int thread, const wide_call_t *call,
                                wide_visit_t *visit) {
  const train_kernel_shape_t *s = call->shape;
  for (int row = 0; row < s->rows; row += TRAIN_TILE_ROWS) {
    for (int column = 0; column < s->columns; column += TRAIN_TILE_COLUMNS) {
      for (int k = 0; k < s->depth; k += WIDE_DEPTH) visit(kernels, thread, call, row, column, k);
    }
  }
}

static void prepare_wide_block(train_kernels_t *kernels, int thread, const wide_call_t *call,
                               int row, int column, int k) {
  const train_kernel_shape_t wide = wide_block(call->shape, row, column, k);
  train_kernels_prepare(kernels, thread, &wide);
}

static void run_wide_block(train_kernels_t *kernels, int thread, const wide_call_t *call, int row,
                           int column, int k) {
  const train_kernel_shape_t *s = call->shape;
  const train_kernel_shape_t wide = wide_block(s, row, column, k);
  scratch_t *scratch = &kernels->scratch[thread];
  size_t a_at =
      s->a_transposed ? at(k, s->a_stride) + (size_t)row : at(row, s->a_stride) + (size_t)k;
  size_t b_at =
      s->b_transposed ? at(column, s->b_stride) + (size_t)k : at(k, s->b_stride) + (size_t)column;
  widen(s->dtype, train_dtype_const_at(s->dtype, call->a, a_at), s->a_stride,
        s->a_transposed ? wide.depth : wide.rows, s->a_transposed ? wide.rows : wide.depth,
        wide.a_stride, scratch->a);
  widen(s->dtype, train_dtype_const_at(s->dtype, call->b, b_at), s->b_stride,
        s->b_transposed ? wide.columns : wide.depth, s->b_transposed ? wide.depth : wide.columns,
        wide.b_stride, scratch->b);
  train_kernels_run(kernels, thread, &wide, scratch->a, scratch->b,
                    call->out + at(row, s->out_stride) + column);
}

static void run_way(train_kernels_t *kernels, int thread, int way, void *prepared,
                    const train_kernel_shape_t *shape, const wide_call_t *call) {
  if (way == WIDENED) {
    for_each_wide_block(kernels, thread, call, run_wide_block);
    return;
  }
  const train_kernel_call_t run = {.thread = thread,
                                   .scratchpad = kernels->scratch[thread].pad,
                                   .a = call->a,
                                   .b = call->b,
                                   .out = call->out};
  backends[way]->run(kernels->states[way], prepared, shape, &run);
}

/* False if the way cannot compute the shape. */
static bool prepare_way(train_kernels_t *kernels, int way, const train_kernel_shape_t *shape,
                        void **prepared) {
  *prepared = NULL;
  if (way == WIDENED) return shape->dtype != TRAIN_FLOAT32;
  return kernels->enabled[way] && backends[way]->multiplies(shape->dtype) &&
         backends[way]->create_kernel(kernels->states[way], shape, prepared);
}

static void release_way(train_kernels_t *kernels, int way, void *prepared) {
  if (way < BACKENDS) backends[way]->destroy_kernel(kernels->states[way], prepared);
}

/* ---- choice ---- */

/* Shapes of similar size share a choice, which is measured with the largest of them. */
static int class_of(int length, int least, int most) {
  int size = least;
  while (size < length && size < most) size *= 2;
  return size;
}

static train_kernel_shape_t representative(const train_kernel_shape_t *s) {
  train_kernel_shape_t r = *s;
  r.rows = class_of(s->rows, 16, 512);
  r.columns = class_of(s->columns, 16, 512);
  r.depth = class_of(s->depth, 16, 1024);
  r.a_stride = r.a_transposed ? r.rows : r.depth;
  r.b_stride = r.b_transposed ? r.depth : r.columns;
  r.out_stride = r.columns;
  r.add = false;
  return r;
}

typedef struct trial {
  train_kernels_t *kernels;
  int thread;
  train_kernel_shape_t shape;
} trial_t;

/* Measured for at least 3 runs and until LEAST_NS, so that short products are not measured by
 * chance. */
static double best_rate(const trial_t *trial, int way, void *prepared, const wide_call_t *call) {
  enum { RUNS_LEAST = 3, RUNS_MOST = 1000, LEAST_NS = 2000000 };
  const train_kernel_shape_t *s = &trial->shape;
  double operations = 2.0 * s->rows * s->columns * s->depth, best = 0;
  uint64_t first_ns = train_choice_now_ns(), start_ns = first_ns;
  for (int i = 0; i < RUNS_MOST && (i <= RUNS_LEAST || start_ns - first_ns < LEAST_NS); i++) {
    run_way(trial->kernels, trial->thread, way, prepared, s, call);
    uint64_t end_ns = train_choice_now_ns();
    double rate = operations * 1e9 / (double)(end_ns - start_ns + 1);
    best = i > 0 && rate > best ? rate : best; /* the first run fills the caches */
    start_ns = end_ns;
  }
  return best;
}

static const char *way_name(int way) {
  return way == WIDENED ? "widened" : backends[way]->name;
}

/* Plain C is measured only if nothing else computes the shape. */
static bool measure_ways(const trial_t *trial, const wide_call_t *call, train_choice_t *choice) {
  train_kernels_t *kernels = trial->kernels;
  double preferred = 0;
  for (int i = 0; i < WAYS; i++) {
    void *prepared;
    int way = i == BACKENDS - 1 ? WIDENED : i == WIDENED ? BACKENDS - 1 : i;
    if (way == BACKENDS - 1 && preferred > 0) break;
    if (!prepare_way(kernels, way, &trial->shape, &prepared)) continue;
    double rate = best_rate(trial, way, prepared, call);
    release_way(kernels, way, prepared);
    if (preferred == 0) preferred = rate;
    if (rate <= choice->rate || (rate != preferred && rate < 1.05 * preferred)) continue;
    snprintf(choice->name, sizeof choice->name, "%s", way_name(way));
    choice->rate = rate;
  }
  return choice->rate > 0;
}

static void *operand(train_dtype_t dtype, size_t elements) {
  enum { PERIOD = 7 * 64 };
  float values[PERIOD];
  char *memory =
      aligned_alloc(BASE_CACHE_LINE, base_round_up(elements * sizeof(float), BASE_CACHE_LINE));
  if (memory == NULL) return NULL;
  for (int i = 0; i < PERIOD; i++) values[i] = (float)(i % 7) - 3.0f;
  for (size_t i = 0; i < elements; i += PERIOD) {
    size_t count = elements - i < PERIOD ? elements - i : PERIOD;
    train_dtype_narrow(dtype, values, count, train_dtype_at(dtype, memory, i));
  }
  return memory;
}

/* A train_choose_t of a trial. */
static bool measure(void *context, train_choice_t *choice) {
  const trial_t *trial = context;
  const train_kernel_shape_t *s = &trial->shape;
  void *a = operand(s->dtype, (size_t)s->rows * (size_t)s->depth);
  void *b = operand(s->dtype, (size_t)s->columns * (size_t)s->depth);
  void *out = operand(TRAIN_FLOAT32, (size_t)s->rows * (size_t)s->columns);
  const wide_call_t call = {.shape = s, .a = a, .b = b, .out = out};
  bool measured = false;
  *choice = (train_choice_t){.rate = 0};
  if (a != NULL && b != NULL && out != NULL) measured = measure_ways(trial, &call, choice);
  free(a);
  free(b);
  free(out);
  return measured;
}

/* The way chosen for a shape; -1 if there is no choice to make or none could be measured. */
static int choose(train_kernels_t *kernels, int thread, const train_kernel_shape_t *shape,
                  double *flops) {
  trial_t trial = {.kernels = kernels, .thread = thread, .shape = representative(shape)};
  const train_kernel_shape_t *s = &trial.shape;
  train_choice_t choice;
  char question[96];
  *flops = 0;
  if (kernels->forced) return -1;
  snprintf(question, sizeof question, "%s %dx%dx%d%s%s", train_dtype_name(s->dtype), s->rows,
           s->columns, s->depth, s->a_transposed ? " a transposed" : "",
           s->b_transposed ? " b transposed" : "");
  if (!train_choice_get(kernels->variant, question, measure, &trial, &choice)) return -1;
  *flops = choice.rate;
  for (int way = 0; way < WAYS; way++) {
    if (strcmp(choice.name, way_name(way)) == 0) return way;
  }
  return -1;
}

/* Prepares the chosen way, or else the first that computes the shape. Plain C comes last: either it
 * or conversion to float32 always does. */
static bool prepare_best(train_kernels_t *kernels, int chosen, kernel_t *kernel) {
  kernel->way = chosen;
  if (chosen >= 0 && prepare_way(kernels, chosen, &kernel->shape, &kernel->prepared)) return true;
  kernel->flops = 0;
  for (kernel->way = 0; kernel->way < WAYS; kernel->way++) {
    if (prepare_way(kernels, kernel->way, &kernel->shape, &kernel->prepared)) return true;
  }
  return false;
}

static const kernel_t *add_kernel(train_kernels_t *kernels, int thread,
                                  const train_kernel_shape_t *shape) {
  const kernel_t *found = find(kernels, shape); /* another thread may have added it */
  if (found != NULL) return found;
  kernel_t *kernel = calloc(1, sizeof *kernel);
  if (kernel == NULL) return NULL;
  kernel->shape = *shape;
  if (!prepare_best(kernels, choose(kernels, thread, shape, &kernel->flops), kernel)) {
    free(kernel);
    return NULL;
  }
  _Atomic(kernel_t *) *list = &kernels->lists[list_of(shape)];
  kernel->next = atomic_load_explicit(list, memory_order_relaxed);
  atomic_store_explicit(list, kernel, memory_order_release);
  return kernel;
}

/* NULL if there is no memory. A choice for narrow operands measures conversion to float32, whose
 * kernels must be known before, because that measurement makes choices itself. */
static const kernel_t *prepare(train_kernels_t *kernels, int thread,
                               const train_kernel_shape_t *shape) {
  const kernel_t *kernel = find(kernels, shape);
  if (kernel != NULL) return kernel;
  if (shape->dtype != TRAIN_FLOAT32) {
    const train_kernel_shape_t similar = representative(shape);
    for_each_wide_block(kernels, thread, &(wide_call_t){.shape = &similar}, prepare_wide_block);
    for_each_wide_block(kernels, thread, &(wide_call_t){.shape = shape}, prepare_wide_block);
  }
  if (pthread_mutex_lock(&kernels->mutex) != 0) return NULL; /* measuring, and out of memory */
  kernel = add_kernel(kernels, thread, shape);
  pthread_mutex_unlock(&kernels->mutex);
  return kernel;
}

static bool is_row(const train_kernel_shape_t *shape) {
  return shape->rows == 1 && !shape->a_transposed;
}

void train_kernels_prepare(train_kernels_t *kernels, int thread,
                           const train_kernel_shape_t *shape) {
  if (!is_row(shape)) prepare(kernels, thread, shape);
}

void train_kernels_run(train_kernels_t *kernels, int thread, const train_kernel_shape_t *shape,
                       const void *a, const void *b, float *out) {
  if (is_row(shape)) {
    train_plain_row(shape, a, b, out);
    return;
  }
  const kernel_t *kernel = prepare(kernels, thread, shape);
  const wide_call_t call = {.shape = shape, .a = a, .b = b, .out = out};
  if (kernel != NULL) {
    run_way(kernels, thread, kernel->way, kernel->prepared, shape, &call);
  } else { /* no memory for a kernel: what needs no preparation */
    run_way(kernels, thread, shape->dtype == TRAIN_FLOAT32 ? BACKENDS - 1 : WIDENED, NULL, shape,
            &call);
  }
}

void train_kernels_visit(const train_kernels_t *kernels, train_kernel_visit_t *visit,
                         void *context) {
  for (int i = 0; i < LISTS; i++) {
    for (const kernel_t *kernel = kernels->lists[i]; kernel != NULL; kernel = kernel->next) {
      visit(context, &(train_kernel_info_t){.shape = kernel->shape,
                                            .backend = kernels->labels[kernel->way],
                                            .widened = kernel->way == WIDENED,
                                            .flops = kernel->flops});
    }
  }
}
