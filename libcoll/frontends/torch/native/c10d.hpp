/*
 * The parts of PyTorch that the front end builds on, under the same names for all its versions.
 * Up to PyTorch 1.13 a backend derives from c10d::ProcessGroup, since then from c10d::Backend.
 * What versions name or declare differently is declared here once; what a version lacks altogether
 * (dtypes, functions of Backend) has a condition where it is used.
 */
#ifndef COLL_TORCH_C10D_H
#define COLL_TORCH_C10D_H

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <vector>

#define COLL_TORCH_AT_LEAST(major, minor) \
  (COLL_TORCH_VERSION_MAJOR > (major) ||  \
   (COLL_TORCH_VERSION_MAJOR == (major) && COLL_TORCH_VERSION_MINOR >= (minor)))

#if COLL_TORCH_AT_LEAST(2, 0)
#include <torch/csrc/distributed/c10d/Backend.hpp>
#else
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace coll_torch {

#if COLL_TORCH_AT_LEAST(2, 0)
using BackendBase = c10d::Backend;
#else
using BackendBase = c10d::ProcessGroup;
#endif

/* Throws what Python sees as torch.distributed.DistBackendError, a RuntimeError; before 2.0 a
 * RuntimeError alone. */
[[noreturn]] inline void throw_backend_error(const std::string &text) {
#if COLL_TORCH_AT_LEAST(2, 0)
  C10_THROW_ERROR(DistBackendError, text);
#else
  throw c10::Error(text, "");
#endif
}

/* The types of the coalesced calls, which are for profilers. */
#if COLL_TORCH_AT_LEAST(2, 1)
constexpr auto kReduceScatterCoalesced = c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED;
constexpr auto kAllgatherCoalesced = c10d::OpType::ALLGATHER_INTO_TENSOR_COALESCED;
#else
constexpr auto kReduceScatterCoalesced = c10d::OpType::_REDUCE_SCATTER_BASE;
constexpr auto kAllgatherCoalesced = c10d::OpType::_ALLGATHER_BASE;
#endif

/* The factor of a PREMUL_SUM, a tensor of one element; undefined if the operation has none. */
inline at::Tensor premul_factor(const c10d::ReduceOp &op) {
#if COLL_TORCH_AT_LEAST(2, 9)
  using Supplement = c10d::PreMulSumSupplement;
#else
  using Supplement = c10d::NCCLPreMulSumSupplement;
#endif
  auto *supplement = dynamic_cast<Supplement *>(op.supplement_.get());
  if (supplement == nullptr) return at::Tensor();
#if COLL_TORCH_AT_LEAST(2, 0)
  at::Tensor factor = supplement->tensor_factor;
#else
  at::Tensor factor;
  if (!supplement->tensor_factors.empty()) factor = supplement->tensor_factors[0];
#endif
  if (factor.defined()) return factor.detach().cpu();
  return at::scalar_tensor(supplement->double_factor, at::kDouble);
}

using Milliseconds = std::chrono::milliseconds;
using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<std::vector<at::Tensor>>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

}  // namespace coll_torch

#endif
