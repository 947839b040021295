/*
 * Runs a fuzz target without libFuzzer: on every file of its corpus, on mutations of each by a
 * generator with a fixed seed, and on deeply nested inputs of 10 MB. Each file and its mutations
 * run in a process of their own, so that an error is reported with the input. Prints TAP.
 *
 *     replay CORPUS-FOLDER
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuzz.h"
#include "tests/harness/sample.h"

#define FILE_BYTES_MAX 65536
#define NESTED_BYTES ((size_t)10 << 20)
#define MUTATIONS (harness_full() ? 1000 : 200)

typedef struct input {
  uint8_t data[2 * FILE_BYTES_MAX];
  size_t bytes;
} input_t;

/* SplitMix64 (Steele, Lea and Flood 2014). */
static uint64_t next_random(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static size_t below(uint64_t *state, size_t limit) {
  return (size_t)(next_random(state) % limit);
}

static void insert(input_t *input, size_t at, const void *bytes, size_t count) {
  if (input->bytes + count > sizeof input->data) return;
  memmove(input->data + at + count, input->data + at, input->bytes - at);
  memmove(input->data + at, bytes, count);
  input->bytes += count;
}

static void delete_range(input_t *input, size_t at, size_t count) {
  memmove(input->data + at, input->data + at + count, input->bytes - at - count);
  input->bytes -= count;
}

static void insert_word(input_t *input, size_t at, uint64_t *state) {
  static const char *const words[] = {"-1",    "0",    "2147483648", "18446744073709551616",
                                      "1e999", "\"",   "{",          "]",
                                      "<a>",   "</a>", "/>",         "\n",
                                      "&lt;",  "\xff"};
  const char *word = words[below(state, sizeof words / sizeof words[0])];
  insert(input, at, word, strlen(word));
}

static void mutate(input_t *input, uint64_t *state) {
  size_t at = below(state, input->bytes + 1);
  size_t count = below(state, (input->bytes - at < 64 ? input->bytes - at : 64) + 1);
  uint8_t copied[64];
  memcpy(copied, input->data + at, count);
  switch (below(state, 6)) {
    case 0:
      if (at < input->bytes) input->data[at] ^= (uint8_t)(1u << below(state, 8));
      break;
    case 1:
      if (at < input->bytes) input->data[at] = (uint8_t)next_random(state);
      break;
    case 2: delete_range(input, at, count); break;
    case 3: insert(input, below(state, input->bytes + 1), copied, count); break;
    case 4: insert_word(input, at, state); break;
    default:
      if (below(state, 8) == 0) input->bytes = at;
      break;
  }
}

static bool load(const char *folder, const char *name, input_t *input) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *in = fopen(path, "r");
  if (in == NULL) return false;
  input->bytes = fread(input->data, 1, FILE_BYTES_MAX, in);
  return fclose(in) == 0;
}

/* What is run: in memory that the parent reads when the process has died. */
static char (*current)[256];

/* Copies the input into memory of its size, so that a sanitizer sees reads past its end. */
static void run(const uint8_t *data, size_t bytes) {
  uint8_t *exact = malloc(bytes > 0 ? bytes : 1);
  fuzz_require(exact != NULL, "there is memory for an input");
  memcpy(exact, data, bytes);
  LLVMFuzzerTestOneInput(exact, bytes);
  free(exact);
}

static void run_file(const char *folder, const char *name) {
  static input_t original, input;
  fuzz_require(load(folder, name, &original), "the file can be read");
  snprintf(*current, sizeof *current, "%s", name);
  run(original.data, original.bytes);
  for (int i = 0; i < MUTATIONS; i++) {
    uint64_t state = (uint64_t)i;
    memcpy(input.data, original.data, original.bytes);
    input.bytes = original.bytes;
    for (size_t changes = 1 + below(&state, 4); changes > 0; changes--) mutate(&input, &state);
    snprintf(*current, sizeof *current, "%s, mutation %d", name, i);
    run(input.data, input.bytes);
  }
  snprintf(*current, sizeof *current, "%s and %d mutations", name, MUTATIONS);
}

static void run_nested(void) {
  static const char *const openers[] = {
      "[", "{\"nodes\":", "{\"\":", "<a>", "<cpu numaid='0'>", "rank 0\n", "\n"};
  uint8_t *data = malloc(NESTED_BYTES);
  fuzz_require(data != NULL, "there is memory for an input");
  for (size_t i = 0; i < sizeof openers / sizeof openers[0]; i++) {
    size_t length = strlen(openers[i]);
    for (size_t at = 0; at < NESTED_BYTES; at++) data[at] = (uint8_t)openers[i][at % length];
    snprintf(*current, sizeof *current, "10 MB of nesting, number %zu", i);
    LLVMFuzzerTestOneInput(data, NESTED_BYTES);
  }
  free(data);
  snprintf(*current, sizeof *current, "10 MB of nesting");
}

/* name NULL: nested inputs. Returns whether no error was found. */
static bool run_in_process(const char *folder, const char *name) {
  int status;
  fflush(stdout);
  pid_t child = fork();
  fuzz_require(child >= 0, "a process can be made");
  if (child == 0) {
    if (name != NULL) run_file(folder, name);
    if (name == NULL) run_nested();
    exit(0);
  }
  fuzz_require(waitpid(child, &status, 0) == child, "the process ends");
  bool passed = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  printf("%s - %s\n", passed ? "ok" : "not ok", *current);
  return passed;
}

static int is_visible(const struct dirent *entry) {
  return entry->d_name[0] != '.';
}

int main(int argc, char **argv) {
  struct dirent **entries;
  const char *folder = argc > 1 ? argv[1] : "";
  int count = scandir(folder, &entries, is_visible, alphasort);
  if (count <= 0) {
    fprintf(stderr, "%s: no files in '%s': give the folder of a corpus\n", argv[0], folder);
    return 2;
  }
  current = mmap(NULL, sizeof *current, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  fuzz_require(current != MAP_FAILED, "there is shared memory");
  printf("1..%d\n", count + 1);
  bool passed = true;
  for (int i = 0; i < count; i++) {
    if (!run_in_process(folder, entries[i]->d_name)) passed = false;
    free(entries[i]);
  }
  free(entries);
  if (!run_in_process(folder, NULL)) passed = false;
  return passed ? 0 : 1;
}
