/*
 * Memory of coll_mem_alloc as a tensor.
 */
#include "memory.hpp"

#include <unistd.h>

#include <coll.h>
#include "errors.hpp"

namespace coll_torch {

at::Tensor empty_shared(const std::vector<int64_t> &shape, at::ScalarType type) {
  size_t bytes = c10::elementSize(type);
  void *data;
  for (int64_t extent : shape) {
    TORCH_CHECK(extent >= 0, "coll: a tensor cannot have ", extent, " elements along a dimension");
    TORCH_CHECK(!__builtin_mul_overflow(bytes, size_t(extent), &bytes),
                "coll: the tensor is too large");
  }
  check(coll_mem_alloc(COLL_DEVICE_HOST, std::max(bytes, size_t(1)), &data), nullptr, "empty");
  /* A forked process leaves the memory to its parent. */
  auto release = [process = getpid()](void *memory) {
    if (process == getpid()) coll_mem_free(memory);
  };
  return at::from_blob(data, shape, release, at::TensorOptions().dtype(type).device(at::kCPU));
}

}  // namespace coll_torch
