/*
 * oneDNN: one matmul primitive for each shape, on the user's strided matrices. A primitive may run
 * in several threads at once, but its memory objects, whose addresses each run sets, may not:
 * every thread has its own.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "libtrain/gemm/backend.h"
#include "libtrain/gemm/onednn_matmul.h"

/* The arguments of a primitive's execution. */
enum { A, B, OUT, SCRATCHPAD, ARGUMENTS };

typedef struct state {
  int threads;
  dnnl_engine_t engine;
  dnnl_stream_t *streams; /* [threads] */
} state_t;

typedef struct kernel {
  dnnl_primitive_t primitive;
  dnnl_exec_arg_t arguments[][ARGUMENTS]; /* [threads] */
} kernel_t;

/* ---- OpenMP ---- */

typedef void set_threads_t(int threads);
static set_threads_t *omp_set_threads; /* NULL if the library is sequential */

/* Limits OpenMP in the calling thread, so that oneDNN starts no threads of its own. The number of
 * threads is a property of each thread that starts parallel regions. */
static void limit_openmp(void) {
  static _Thread_local bool is_limited;
  if (is_limited || omp_set_threads == NULL) return;
  is_limited = true;
  omp_set_threads(1);
}

/* ---- library ---- */

static bool is_usable;

/* Other runtimes than OpenMP have no limit for each thread. */
static void check_library(void) {
  unsigned runtime = dnnl_version()->cpu_runtime;
  if (runtime == DNNL_RUNTIME_OMP) {
    omp_set_threads = (set_threads_t *)dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    is_usable = omp_set_threads != NULL;
  } else {
    is_usable = runtime == DNNL_RUNTIME_SEQ;
  }
}

static bool load(char label[TRAIN_BACKEND_LABEL]) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  const dnnl_version_t *version = dnnl_version();
  pthread_once(&once, check_library);
  snprintf(label, TRAIN_BACKEND_LABEL, "oneDNN %d.%d.%d", version->major, version->minor,
           version->patch);
  return is_usable && version->major == DNNL_VERSION_MAJOR;
}

static bool multiplies(train_dtype_t dtype) {
  (void)dtype;
  return true;
}

static void destroy(void *memory) {
  state_t *state = memory;
  if (state == NULL) return;
  for (int i = 0; i < state->threads && state->streams != NULL; i++) {
    if (state->streams[i] != NULL) dnnl_stream_destroy(state->streams[i]);
  }
  if (state->engine != NULL) dnnl_engine_destroy(state->engine);
  free(state->streams);
  free(state);
}

static coll_status_t create(int threads, void **result) {
  void *memory;
  COLL_TRY(base_alloc(1, sizeof(state_t), "oneDNN", &memory));
  state_t *state = memory;
  state->threads = threads;
  coll_status_t status = base_alloc((size_t)threads, sizeof(dnnl_stream_t), "oneDNN", &memory);
  if (status != COLL_OK) goto failed;
  state->streams = memory;
  dnnl_status_t done = dnnl_engine_create(&state->engine, dnnl_cpu, 0);
  for (int i = 0; i < threads && done == dnnl_success; i++) {
    done = dnnl_stream_create(&state->streams[i], state->engine, dnnl_stream_default_flags);
  }
  if (done != dnnl_success) {
    status = base_fail(COLL_ERROR_SYSTEM,
                       "oneDNN cannot start (status %d); set LIBTRAIN_GEMM=openblas", (int)done);
    goto failed;
  }
  *result = state;
  return COLL_OK;
failed:
  destroy(state);
  return status;
}

/* ---- kernels ---- */

static train_onednn_matrix_t matrix(int rows, int columns, int stride, bool transposed,
                                    dnnl_data_type_t type) {
  return (train_onednn_matrix_t){.dims = {rows, columns},
                                 .strides = {transposed ? 1 : stride, transposed ? stride : 1},
                                 .type = type};
}

static dnnl_status_t describe(dnnl_engine_t engine, const train_kernel_shape_t *s,
                              dnnl_primitive_desc_t *desc) {
  static const dnnl_data_type_t types[] = {
      [TRAIN_FLOAT32] = dnnl_f32, [TRAIN_BFLOAT16] = dnnl_bf16, [TRAIN_FLOAT16] = dnnl_f16};
  dnnl_data_type_t type = types[s->dtype];
  train_onednn_matrix_t a = matrix(s->rows, s->depth, s->a_stride, s->a_transposed, type);
  train_onednn_matrix_t b = matrix(s->depth, s->columns, s->b_stride, s->b_transposed, type);
  train_onednn_matrix_t out = matrix(s->rows, s->columns, s->out_stride, false, dnnl_f32);
  dnnl_primitive_attr_t attributes = NULL;
  dnnl_post_ops_t ops = NULL;
  dnnl_status_t status = dnnl_primitive_attr_create(&attributes);
  if (status == dnnl_success) status = dnnl_post_ops_create(&ops);
  if (status == dnnl_success && s->add) status = train_onednn_append_sum(ops);
  if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(attributes, ops);
  if (status == dnnl_success) {
    status = dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
  }
  if (status == dnnl_success) {
    status = train_onednn_describe_matmul(engine, &a, &b, &out, attributes, desc);
  }
  if (ops != NULL) dnnl_post_ops_destroy(ops);
  if (attributes != NULL) dnnl_primitive_attr_destroy(attributes);
  return status;
}

/* The reference implementation, "ref:any", has no vector code. */
static bool is_fast(const_dnnl_primitive_desc_t desc) {
  const char *implementation = NULL;
  if (dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, (void *)&implementation) !=
      dnnl_success) {
    return false;
  }
  return strncmp(implementation, "ref", 3) != 0;
}

static void destroy_kernel(void *memory, void *kernel_memory) {
  const state_t *state = memory;
  kernel_t *kernel = kernel_memory;
  if (kernel == NULL) return;
  for (int i = 0; i < state->threads; i++) {
    for (int j = 0; j < ARGUMENTS; j++) {
      if (kernel->arguments[i][j].memory != NULL) {
        dnnl_memory_destroy(kernel->arguments[i][j].memory);
      }
    }
  }
  if (kernel->primitive != NULL) dnnl_primitive_destroy(kernel->primitive);
  free(kernel);
}

static bool create_primitive(const state_t *state, const_dnnl_primitive_desc_t desc,
                             kernel_t *kernel) {
  static const dnnl_query_t queries[] = {dnnl_query_src_md, dnnl_query_weights_md,
                                         dnnl_query_dst_md, dnnl_query_scratchpad_md};
  static const int names[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD};
  if (dnnl_primitive_create(&kernel->primitive, desc) != dnnl_success) return false;
  for (int i = 0; i < state->threads; i++) {
    for (int j = 0; j < ARGUMENTS; j++) {
      dnnl_exec_arg_t *argument = &kernel->arguments[i][j];
      argument->arg = names[j];
      if (dnnl_memory_create(&argument->memory, dnnl_primitive_desc_query_md(desc, queries[j], 0),
                             state->engine, DNNL_MEMORY_NONE) != dnnl_success) {
        return false;
      }
    }
  }
  return true;
}

static bool create_alone(void *memory, const train_kernel_shape_t *shape, void **result) {
  const state_t *state = memory;
  dnnl_primitive_desc_t desc = NULL;
  kernel_t *kernel = NULL;
  bool created = false;
  limit_openmp();
  if (describe(state->engine, shape, &desc) != dnnl_success) return false;
  size_t scratchpad =
      dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0));
  if (is_fast(desc) && scratchpad <= TRAIN_BACKEND_SCRATCHPAD) {
    kernel =
        calloc(1, sizeof *kernel + (size_t)state->threads * ARGUMENTS * sizeof(dnnl_exec_arg_t));
    created = kernel != NULL && create_primitive(state, desc, kernel);
  }
  dnnl_primitive_desc_destroy(desc);
  if (!created) {
    destroy_kernel(memory, kernel);
    return false;
  }
  *result = kernel;
  return true;
}

/* Engines of several ranks in one process create kernels at the same time. oneDNN's caches of
 * primitives are safe for that, but a lock of our own also shows it to ThreadSanitizer, which does
 * not see into the library. */
static bool create_kernel(void *memory, const train_kernel_shape_t *shape, void **result) {
  static pthread_mutex_t library = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&library);
  bool created = create_alone(memory, shape, result);
  pthread_mutex_unlock(&library);
  return created;
}

/* The API takes addresses of inputs that are not const; it only reads them. */
static void set_address(const dnnl_exec_arg_t *argument, const void *address) {
  dnnl_memory_set_data_handle(argument->memory, (void *)(uintptr_t)address);
}

static void run(void *memory, void *kernel_memory, const train_kernel_shape_t *shape,
                const train_kernel_call_t *call) {
  const state_t *state = memory;
  kernel_t *kernel = kernel_memory;
  const dnnl_exec_arg_t *arguments = kernel->arguments[call->thread];
  (void)shape;
  limit_openmp();
  set_address(&arguments[A], call->a);
  set_address(&arguments[B], call->b);
  set_address(&arguments[OUT], call->out);
  set_address(&arguments[SCRATCHPAD], call->scratchpad);
  dnnl_primitive_execute(kernel->primitive, state->streams[call->thread], ARGUMENTS, arguments);
}

const train_backend_t train_backend_onednn = {.name = "onednn",
                                              .load = load,
                                              .multiplies = multiplies,
                                              .create = create,
                                              .destroy = destroy,
                                              .create_kernel = create_kernel,
                                              .destroy_kernel = destroy_kernel,
                                              .run = run};
