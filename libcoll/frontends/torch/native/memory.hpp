/*
 * Tensors in memory that the other ranks of this machine can map, which makes large calls faster.
 */
#ifndef COLL_TORCH_MEMORY_H
#define COLL_TORCH_MEMORY_H

#include <vector>

#include "c10d.hpp"

namespace coll_torch {

/* A tensor of zeros of this shape. It is freed when nothing uses it any more. */
at::Tensor empty_shared(const std::vector<int64_t> &shape, at::ScalarType type);

}  // namespace coll_torch

#endif
