/* Headers of safetensors files, which are read from a file without a name. */
#include "libtrain/files/safetensors.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  char path[32], shape[96];
  train_input_t input;
  train_safetensors_t list;
  int fd = memfd_create("fuzz", MFD_CLOEXEC);
  fuzz_require(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes, "a file holds the input");
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  fuzz_require(train_input_open(path, &input) == COLL_OK, "the file opens");
  (void)train_safetensors_matches(data, bytes);
  if (train_safetensors_read(&input, &list) == COLL_OK) {
    for (size_t i = 0; i < list.count; i++) train_safetensor_shape(&list.tensors[i], shape);
    train_safetensors_free(&list);
  }
  train_input_close(&input);
  close(fd);
  return 0;
}
