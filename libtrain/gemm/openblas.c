/*
 * OpenBLAS, loaded at run time: a machine without it can train, and OPENBLAS_CORETYPE, which
 * selects the kernels and is read when the library is loaded, can be set first. Its own choice of
 * kernels is not always the fastest, so all that fit the processor are timed, each in a child
 * process, unless the user has set the variable.
 */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "libtrain/gemm/backend.h"
#include "libtrain/gemm/choice.h"

#define LIBRARY "libopenblas.so.0"
#define CORE_TYPE "OPENBLAS_CORETYPE"
#define THREADS "OPENBLAS_NUM_THREADS"
#define SIZE 1024 /* rows, columns and depth of the timed product */
#define TRIES 6
#define LIMIT_NS UINT64_C(3000000000)

/* The values of cblas.h's enumerations. */
enum { ROW_MAJOR = 101, NOT_TRANSPOSED = 111, TRANSPOSED = 112 };

typedef void sgemm_t(int order, int transpose_a, int transpose_b, int rows, int columns, int depth,
                     float alpha, const float *a, int a_stride, const float *b, int b_stride,
                     float beta, float *out, int out_stride);
typedef void set_threads_t(int threads);
typedef char *text_t(void);

typedef struct library {
  sgemm_t *sgemm;
  set_threads_t *set_threads;
  text_t *config, *core;
} library_t;

static library_t loaded; /* after `once` */
static char loaded_label[TRAIN_BACKEND_LABEL];

/* ---- loading ---- */

static bool open_library(library_t *library) {
  void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) return false;
  *library = (library_t){.sgemm = (sgemm_t *)dlsym(handle, "cblas_sgemm"),
                         .set_threads = (set_threads_t *)dlsym(handle, "openblas_set_num_threads"),
                         .config = (text_t *)dlsym(handle, "openblas_get_config"),
                         .core = (text_t *)dlsym(handle, "openblas_get_corename")};
  return library->sgemm != NULL && library->set_threads != NULL && library->config != NULL &&
         library->core != NULL;
}

static bool is_in_process(void) {
  void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD);
  if (handle != NULL) dlclose(handle);
  return handle != NULL;
}

/* Loads the library with a core type, or its own choice if "". It starts no threads. Restores the
 * environment, which child processes inherit. */
static bool open_as(const char *core_type, library_t *library) {
  const char *threads = getenv(THREADS);
  char kept[32];
  snprintf(kept, sizeof kept, "%s", threads != NULL ? threads : "");
  setenv(THREADS, "1", 1);
  if (core_type[0] != '\0') setenv(CORE_TYPE, core_type, 1);
  bool opened = open_library(library);
  if (core_type[0] != '\0') unsetenv(CORE_TYPE);
  if (threads != NULL) {
    setenv(THREADS, kept, 1);
  } else {
    unsetenv(THREADS);
  }
  if (opened) library->set_threads(1);
  return opened;
}

/* ---- core type ---- */

static double rate_of(const library_t *library) {
  const size_t elements = (size_t)SIZE * SIZE;
  float *a = calloc(3 * elements, sizeof *a);
  if (a == NULL) return 0;
  double best = 0;
  for (size_t i = 0; i < 2 * elements; i++) a[i] = (float)(i % 7) - 3.0f;
  for (int i = 0; i < TRIES; i++) {
    uint64_t start_ns = train_choice_now_ns();
    library->sgemm(ROW_MAJOR, NOT_TRANSPOSED, TRANSPOSED, SIZE, SIZE, SIZE, 1.0f, a, SIZE,
                   a + elements, SIZE, 0.0f, a + 2 * elements, SIZE);
    double rate = 2.0 * SIZE * SIZE * SIZE * 1e9 / (double)(train_choice_now_ns() - start_ns);
    best = rate > best ? rate : best;
  }
  free(a);
  return best;
}

/* Reads a rate from a child, which is killed if it takes too long. */
static double receive_rate(int from, pid_t child) {
  double rate = 0;
  bool ends = base_deadline_poll(from, POLLIN, base_clock_now_ns() + LIMIT_NS);
  if (!ends || read(from, &rate, sizeof rate) != sizeof rate) rate = 0;
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  return rate;
}

/* 0 if it cannot be measured, or if the child fails with these kernels. */
static double rate_in_child(const char *core_type) {
  int ends[2];
  if (pipe(ends) != 0) return 0;
  pid_t child = fork();
  if (child == 0) {
    library_t library;
    double rate = open_as(core_type, &library) ? rate_of(&library) : 0;
    _exit(write(ends[1], &rate, sizeof rate) == sizeof rate ? 0 : 1);
  }
  close(ends[1]);
  double rate = child > 0 ? receive_rate(ends[0], child) : 0;
  close(ends[0]);
  return rate;
}

static bool fits_processor(const char *core_type) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (strcmp(core_type, "Cooperlake") == 0) return __builtin_cpu_supports("avx512bf16");
  if (strcmp(core_type, "SkylakeX") == 0) {
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  }
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  (void)core_type;
  return false;
#endif
}

/* "default" is the library's own choice, which others must exceed by 5 %. */
static bool choose_core_type(void *context, train_choice_t *choice) {
  static const char *const types[] = {"SkylakeX", "Cooperlake", "Zen", "Haswell"};
  (void)context;
  *choice = (train_choice_t){.name = "default", .rate = rate_in_child("")};
  double least = choice->rate * 1.05;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (!fits_processor(types[i])) continue;
    double rate = rate_in_child(types[i]);
    if (rate <= least || rate <= choice->rate) continue;
    snprintf(choice->name, sizeof choice->name, "%s", types[i]);
    choice->rate = rate;
  }
  return choice->rate > 0;
}

static void write_label(const library_t *library) {
  char version[24] = "";
  const char *config = library->config(); /* "OpenBLAS 0.3.21 DYNAMIC_ARCH ..." */
  const char *space = strchr(config, ' ');
  if (space != NULL) {
    snprintf(version, sizeof version, " %.*s", (int)strcspn(space + 1, " "), space + 1);
  }
  snprintf(loaded_label, sizeof loaded_label, "OpenBLAS%s %.24s", version, library->core());
}

static void load_once(void) {
  train_choice_t choice = {.name = "default"};
  library_t library;
  if (!is_in_process() && getenv(CORE_TYPE) == NULL) {
    train_choice_get(LIBRARY, "core type", choose_core_type, NULL, &choice);
  }
  if (!open_as(strcmp(choice.name, "default") == 0 ? "" : choice.name, &library)) return;
  write_label(&library);
  loaded = library;
}

static bool load(char label[TRAIN_BACKEND_LABEL]) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_once);
  memcpy(label, loaded_label, sizeof loaded_label);
  return loaded.sgemm != NULL;
}

/* ---- kernels ---- */

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

static void run(void *state, void *kernel, const train_kernel_shape_t *s,
                const train_kernel_call_t *call) {
  (void)state, (void)kernel;
  loaded.sgemm(ROW_MAJOR, s->a_transposed ? TRANSPOSED : NOT_TRANSPOSED,
               s->b_transposed ? TRANSPOSED : NOT_TRANSPOSED, s->rows, s->columns, s->depth, 1.0f,
               call->a, s->a_stride, call->b, s->b_stride, s->add ? 1.0f : 0.0f, call->out,
               s->out_stride);
}

const train_backend_t train_backend_openblas = {.name = "openblas",
                                                .load = load,
                                                .multiplies = multiplies,
                                                .create = create,
                                                .destroy = destroy,
                                                .create_kernel = create_kernel,
                                                .destroy_kernel = destroy_kernel,
                                                .run = run};
