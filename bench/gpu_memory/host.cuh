/* The host's side: options, failures, what is allocated, medians, and figures. */
#ifndef BENCH_GPU_MEMORY_HOST_CUH
#define BENCH_GPU_MEMORY_HOST_CUH

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/gpu_memory/device.cuh"

struct options {
  const char *json = nullptr; /* a file; NULL: none */
  std::string only = "flags,fences,copy,reduce";
  size_t bytes = (size_t)512 << 20; /* of each of three buffers */
  uint32_t threads = 512;           /* of a block that copies or reduces */
  uint32_t messages = 1000;         /* of two blocks, each way */
  int rounds = 5;                   /* of which a figure is the median */
};

struct session {
  options chosen;
  int blocks; /* one for each multiprocessor */
  FILE *json;
  outcome *result; /* on the GPU */
  void *room[3];   /* of chosen.bytes each, on the GPU */
};

/* Where a figure is already a failure, nothing can be measured: the program ends. */
[[noreturn]] static void fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "gpu_memory: ");
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "\n");
  va_end(arguments);
  exit(1);
}

static void must(cudaError_t error, const char *what) {
  if (error != cudaSuccess) fail("%s: %s", what, cudaGetErrorString(error));
}

static double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

static bool is_chosen(const session *on, const char *part) {
  return ("," + on->chosen.only + ",").find("," + std::string(part) + ",") != std::string::npos;
}

/* Waits for what was launched, and takes its outcome. */
static outcome finish(session *on, const char *what) {
  outcome found;
  must(cudaGetLastError(), what);
  must(cudaDeviceSynchronize(), what);
  must(cudaMemcpy(&found, on->result, sizeof found, cudaMemcpyDeviceToHost), what);
  if (found.expired) fail("%s: the kernel ended itself after 5 s", what);
  if (found.wrong > 0) fail("%s: %u values are wrong", what, found.wrong);
  must(cudaMemset(on->result, 0, sizeof found), what);
  return found;
}

/* A line of the JSON file; the format has what is between the braces. */
static void figure(session *on, const char *format, ...) {
  if (on->json == nullptr) return;
  va_list arguments;
  va_start(arguments, format);
  fprintf(on->json, "{");
  vfprintf(on->json, format, arguments);
  fprintf(on->json, "}\n");
  va_end(arguments);
}

/* ---- options ---------------------------------------------------------------------------------*/

static const char *const USAGE =
    "gpu_memory [--only LIST] [--bytes N] [--threads N] [--messages N] [--rounds N] [--json FILE]\n"
    "\n"
    "Measures on the first GPU how long a flag takes from one multiprocessor to another and how\n"
    "long a fence takes, and how fast 1, 2, 4 ... multiprocessors copy and reduce. Takes some\n"
    "seconds. No kernel runs for longer than 5 s.\n"
    "\n"
    "  gpu_memory                          all of it, as a table\n"
    "  gpu_memory --json figures.jsonl     the figures also to a file, one JSON object a line\n"
    "  gpu_memory --only flags,fences      some of flags, fences, copy, reduce\n"
    "  gpu_memory --only copy --threads 384   with blocks of another size (512)\n"
    "\n"
    "  --bytes N     of each of three buffers, from 1M on (512M)\n"
    "  --messages N  of two multiprocessors that pass on flags, each way (1000)\n"
    "  --rounds N    a figure is the median of so many (5)\n"
    "\n"
    "Exit codes: 0, 1 something failed, 2 the command line is wrong.\n";

[[noreturn]] static void refuse(const char *option, const char *value, const char *reason) {
  fprintf(stderr, "gpu_memory: %s %s: %s; see --help\n", option, value, reason);
  exit(2);
}

static size_t number(const char *option, const char *text, size_t least, size_t most) {
  char *end;
  unsigned long long value = strtoull(text, &end, 10);
  int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
  bool is_number = end != text && *(shift ? end + 1 : end) == '\0' && text[0] != '-';
  if (!is_number || value > most >> shift || value << shift < least) {
    refuse(option, text, "not a number that is allowed here");
  }
  return value << shift;
}

static void check_parts(const char *list) {
  for (const char *at = list;;) {
    size_t length = strcspn(at, ",");
    std::string part(at, length);
    if (part != "flags" && part != "fences" && part != "copy" && part != "reduce") {
      refuse("--only", list, "there are flags, fences, copy and reduce");
    }
    if (at[length] == '\0') return;
    at += length + 1;
  }
}

static options parse(int argc, char **argv) {
  options chosen;
  for (int i = 1; i < argc; i += 2) {
    std::string option = argv[i];
    if (option == "--help" || option == "-h") {
      fputs(USAGE, stdout);
      exit(fflush(stdout) == 0 ? 0 : 1);
    }
    if (i + 1 == argc) refuse(argv[i], "", "unknown, or without a value");
    const char *value = argv[i + 1];
    if (option == "--json") {
      chosen.json = value;
    } else if (option == "--only") {
      check_parts(value);
      chosen.only = value;
    } else if (option == "--bytes") {
      chosen.bytes = number(argv[i], value, 1 << 20, (size_t)64 << 30) / 4096 * 4096;
    } else if (option == "--threads") {
      chosen.threads = (uint32_t)number(argv[i], value, 1, 1024);
    } else if (option == "--messages") {
      chosen.messages = (uint32_t)number(argv[i], value, 1, 1000000);
    } else if (option == "--rounds") {
      chosen.rounds = (int)number(argv[i], value, 1, 1000);
    } else {
      refuse(argv[i], value, "unknown");
    }
  }
  return chosen;
}

#endif
