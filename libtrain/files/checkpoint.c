/* The header fixes the file's length to the byte, so a wrong length is known before reading on. */
#include "libtrain/files/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "libtrain/random.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "checkpoints are little-endian; a big-endian machine needs to swap here"
#endif

#define VERSION 2
#define ARRAYS 3 /* parameters, first moments, second moments */

static const char magic[8] = "collgpt";

typedef struct header {
  char magic[8];
  uint32_t version;
  train_model_config_t config;
  uint64_t step;
  uint64_t parameter_count;
  uint64_t digest; /* of the header with digest 0, then of the arrays */
} header_t;

_Static_assert(sizeof(header_t) == 56, "the header has no padding");

coll_status_t train_state_create(const train_model_config_t *config, train_state_t *state) {
  train_state_t created = {0};
  void *memory;
  COLL_TRY(train_layout_create(config, &created.layout));
  size_t count = created.layout->parameter_count;
  coll_status_t status =
      base_alloc(ARRAYS * count, sizeof(float), "the parameters and the optimizer", &memory);
  if (status != COLL_OK) {
    train_layout_destroy(created.layout);
    return status;
  }
  created.parameters = memory;
  created.first_moments = created.parameters + count;
  created.second_moments = created.first_moments + count;
  *state = created;
  return COLL_OK;
}

void train_state_free(train_state_t *state) {
  free(state->parameters);
  train_layout_destroy(state->layout);
  *state = (train_state_t){0};
}

static void arrays_of(const train_state_t *state, float *arrays[ARRAYS]) {
  arrays[0] = state->parameters;
  arrays[1] = state->first_moments;
  arrays[2] = state->second_moments;
}

static uint64_t digest_of(header_t header, const train_state_t *state) {
  float *arrays[ARRAYS];
  arrays_of(state, arrays);
  header.digest = 0;
  uint64_t digest = train_random_digest(0, &header, sizeof header);
  for (int i = 0; i < ARRAYS; i++) {
    digest = train_random_digest(digest, arrays[i], header.parameter_count * sizeof(float));
  }
  return digest;
}

/* The name under which the file is written until it is whole. */
static coll_status_t aside_of(const char *path, char aside[PATH_MAX]) {
  if (snprintf(aside, PATH_MAX, "%s.part", path) < PATH_MAX) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "checkpoint path too long: %s", path);
}

static coll_status_t open_aside(const char *path, char aside[PATH_MAX], int *file) {
  struct stat found;
  COLL_TRY(aside_of(path, aside));
  if (stat(path, &found) == 0 && !S_ISREG(found.st_mode)) {
    return base_fail(COLL_ERROR_INVALID, "cannot write checkpoint %s: it is not a file", path);
  }
  int opened = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (opened < 0) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write checkpoint %s", path);
  *file = opened;
  return COLL_OK;
}

coll_status_t train_checkpoint_probe(const char *path) {
  char aside[PATH_MAX];
  int file = -1;
  COLL_TRY(open_aside(path, aside, &file));
  close(file);
  unlink(aside);
  return COLL_OK;
}

static bool write_all(int file, const void *bytes, size_t count) {
  const char *from = bytes;
  while (count > 0) {
    ssize_t wrote = write(file, from, count);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return false;
    from += wrote;
    count -= (size_t)wrote;
  }
  return true;
}

static bool write_state(int file, const train_state_t *state) {
  header_t header = {.version = VERSION,
                     .config = state->layout->config,
                     .step = state->step,
                     .parameter_count = state->layout->parameter_count};
  memcpy(header.magic, magic, sizeof magic);
  header.digest = digest_of(header, state);
  float *arrays[ARRAYS];
  arrays_of(state, arrays);
  bool wrote = write_all(file, &header, sizeof header);
  for (int i = 0; wrote && i < ARRAYS; i++) {
    wrote = write_all(file, arrays[i], header.parameter_count * sizeof(float));
  }
  return wrote && fsync(file) == 0;
}

/* Makes a rename in the file's folder last. A folder that cannot be synced is no failure: some
 * file systems have no such thing. */
static void sync_folder_of(const char *path) {
  char copy[PATH_MAX];
  snprintf(copy, sizeof copy, "%s", path);
  int folder = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  fsync(folder);
  close(folder);
}

coll_status_t train_checkpoint_save(const char *path, const train_state_t *state) {
  char aside[PATH_MAX];
  int file = -1;
  COLL_TRY(open_aside(path, aside, &file));
  bool wrote = write_state(file, state);
  int error = errno;
  if (close(file) != 0 && wrote) {
    wrote = false;
    error = errno;
  }
  if (wrote && rename(aside, path) != 0) {
    wrote = false;
    error = errno;
  }
  if (!wrote) {
    unlink(aside);
    errno = error;
    return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write checkpoint %s", path);
  }
  sync_folder_of(path);
  return COLL_OK;
}

static coll_status_t check_header(const char *path, const header_t *header, size_t file_bytes) {
  if (memcmp(header->magic, magic, sizeof magic) != 0) {
    return base_fail(COLL_ERROR_INVALID, "%s is not a checkpoint of gpt train", path);
  }
  if (header->version != VERSION) {
    return base_fail(COLL_ERROR_INVALID, "checkpoint %s has format %u, this program reads %d", path,
                     header->version, VERSION);
  }
  size_t expected = sizeof *header + ARRAYS * sizeof(float) * header->parameter_count;
  if (file_bytes != expected) {
    return base_fail(COLL_ERROR_INVALID,
                     "checkpoint %s is cut short or padded: %zu bytes where its header says %zu",
                     path, file_bytes, expected);
  }
  return COLL_OK;
}

static coll_status_t damaged(const char *path) {
  return base_fail(COLL_ERROR_INVALID, "checkpoint %s is damaged: its digest does not match", path);
}

static coll_status_t read_arrays(const char *path, FILE *file, const header_t *header,
                                 train_state_t *state) {
  float *arrays[ARRAYS];
  arrays_of(state, arrays);
  for (int i = 0; i < ARRAYS; i++) {
    if (fread(arrays[i], sizeof(float), header->parameter_count, file) != header->parameter_count) {
      return base_fail_errno(COLL_ERROR_SYSTEM, "cannot read checkpoint %s", path);
    }
  }
  return digest_of(*header, state) == header->digest ? COLL_OK : damaged(path);
}

static coll_status_t load_from(const char *path, FILE *file, train_state_t *state) {
  struct stat found;
  header_t header = {0};
  train_state_t loaded;
  if (fstat(fileno(file), &found) != 0 || !S_ISREG(found.st_mode)) {
    return base_fail(COLL_ERROR_INVALID, "%s is not a checkpoint of gpt train", path);
  }
  if (fread(&header, sizeof header, 1, file) != 1) {
    return base_fail(COLL_ERROR_INVALID, "%s is too short to be a checkpoint of gpt train", path);
  }
  COLL_TRY(check_header(path, &header, (size_t)found.st_size));
  if (train_model_config_check(&header.config) != COLL_OK) return damaged(path);
  COLL_TRY(train_state_create(&header.config, &loaded));
  coll_status_t status = header.parameter_count == loaded.layout->parameter_count
                             ? read_arrays(path, file, &header, &loaded)
                             : damaged(path);
  if (status != COLL_OK) {
    train_state_free(&loaded);
    return status;
  }
  loaded.step = header.step;
  *state = loaded;
  return COLL_OK;
}

coll_status_t train_checkpoint_load(const char *path, train_state_t *state) {
  FILE *file = fopen(path, "rbe");
  if (file == NULL) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot read checkpoint %s", path);
  coll_status_t status = load_from(path, file, state);
  fclose(file);
  return status;
}
