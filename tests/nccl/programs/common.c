/*
 * What these programs share.
 */
#include "common.h"

#include <stdarg.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static bool on_host, on_two_hosts;

void fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  exit(1);
}

int program_start(int argc, char **argv) {
  const char *text = getenv("COLL_STANDIN_GPUS");
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--host") == 0) {
      on_host = true;
    } else if (strcmp(argv[i], "--two-hosts") == 0) {
      on_two_hosts = true;
    } else {
      text = argv[i];
    }
  }
  long gpus = text != NULL ? strtol(text, NULL, 10) : 2;
  if (gpus < 1 || gpus > PROGRAM_GPUS_MAX)
    fail("usage: %s [GPUS, 1 to 8] [--host] [--two-hosts]", argv[0]);
  return (int)gpus;
}

bool program_on_host(void) {
  return on_host;
}

/* ---- ranks -----------------------------------------------------------------------------------*/

int program_run_ranks(int size, void (*rank)(int rank, int size, const char *path)) {
  char path[] = "/tmp/nccl-program-XXXXXX";
  pid_t pids[PROGRAM_GPUS_MAX];
  int failed = 0;
  if (mkdtemp(path) == NULL) fail("cannot make a folder for the id");
  for (int i = 0; i < size; i++) {
    pids[i] = fork();
    if (pids[i] < 0) fail("cannot fork");
    if (pids[i] > 0) continue;
    if (on_two_hosts) setenv("NCCL_HOSTID", 2 * i < size ? "one" : "other", 1);
    rank(i, size, path);
    exit(0);
  }
  for (int i = 0; i < size; i++) {
    int status = 0;
    waitpid(pids[i], &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    fprintf(stderr, "rank %d: exit code %d, signal %d\n", i, WEXITSTATUS(status),
            WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    failed = 1;
  }
  char file[64];
  snprintf(file, sizeof file, "%s/id", path);
  unlink(file);
  rmdir(path);
  return failed;
}

static void write_id(const char *file, const ncclUniqueId *id) {
  char written[96];
  snprintf(written, sizeof written, "%s.new", file);
  FILE *out = fopen(written, "wb");
  REQUIRE(out != NULL && fwrite(id, sizeof *id, 1, out) == 1 && fclose(out) == 0, "cannot write %s",
          written);
  REQUIRE(rename(written, file) == 0, "cannot rename %s", written);
}

ncclUniqueId program_exchange_id(int rank, const char *path) {
  ncclUniqueId id;
  char file[64];
  snprintf(file, sizeof file, "%s/id", path);
  if (rank == 0) {
    NCCL(ncclGetUniqueId(&id));
    write_id(file, &id);
    return id;
  }
  for (int tries = 0; tries < 20000; tries++) {
    FILE *in = fopen(file, "rb");
    if (in != NULL) {
      REQUIRE(fread(&id, sizeof id, 1, in) == 1, "the id is not whole");
      fclose(in);
      return id;
    }
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  fail("rank %d: rank 0 wrote no id", rank);
}

/* ---- memory ----------------------------------------------------------------------------------*/

void program_use_gpu(int gpu) {
  if (!on_host) CUDA(cudaSetDevice(gpu));
}

void *memory_new(size_t bytes) {
  void *memory = NULL;
  if (on_host) {
    memory = calloc(1, bytes);
    REQUIRE(memory != NULL, "no memory");
    return memory;
  }
  CUDA(cudaMalloc(&memory, bytes));
  CUDA(cudaMemset(memory, 0, bytes));
  CUDA(cudaDeviceSynchronize());
  return memory;
}

void memory_free(void *memory) {
  if (on_host) {
    free(memory);
  } else {
    CUDA(cudaFree(memory));
  }
}

cudaStream_t stream_new(void) {
  cudaStream_t stream = NULL;
  if (!on_host) CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

void stream_free(cudaStream_t stream) {
  if (!on_host) CUDA(cudaStreamDestroy(stream));
}

void stream_wait(cudaStream_t stream) {
  if (!on_host) CUDA(cudaStreamSynchronize(stream));
}

void upload(void *memory, const void *host, size_t bytes, cudaStream_t stream) {
  if (on_host) {
    memcpy(memory, host, bytes);
  } else {
    CUDA(cudaMemcpyAsync(memory, host, bytes, cudaMemcpyHostToDevice, stream));
  }
}

void download(void *host, const void *memory, size_t bytes, cudaStream_t stream) {
  if (on_host) {
    memcpy(host, memory, bytes);
    return;
  }
  CUDA(cudaMemcpyAsync(host, memory, bytes, cudaMemcpyDeviceToHost, stream));
  CUDA(cudaStreamSynchronize(stream));
}

/* ---- elements --------------------------------------------------------------------------------*/

static float *host_floats(size_t count) {
  float *host = malloc(count * sizeof *host);
  REQUIRE(host != NULL, "no memory");
  return host;
}

void fill(float *memory, size_t count, size_t first, int rank, cudaStream_t stream) {
  float *host = host_floats(count);
  for (size_t i = 0; i < count; i++) host[i] = (float)(rank + 1) * (float)((first + i) % 7 + 1);
  upload(memory, host, count * sizeof *host, stream);
  free(host);
}

void expect(const float *memory, size_t count, size_t first, double factor, cudaStream_t stream,
            const char *what) {
  float *host = host_floats(count);
  download(host, memory, count * sizeof *host, stream);
  for (size_t i = 0; i < count; i++) {
    float expected = (float)(factor * (double)((first + i) % 7 + 1));
    REQUIRE(host[i] == expected, "%s: element %zu of %zu is %g instead of %g", what, i, count,
            (double)host[i], (double)expected);
  }
  free(host);
}
