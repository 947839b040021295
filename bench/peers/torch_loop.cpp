/*
 * Allreduces of a backend of torch.distributed without Python between them. Compiled for PyTorch by
 * torch_calls.py.
 */
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <chrono>

namespace {

/* Makes `calls` allreduces of the tensor, one after the other; returns the time of one in us. */
double allreduce_us(c10d::Backend &backend, const at::Tensor &tensor, int calls) {
  pybind11::gil_scoped_release no_gil;
  std::vector<at::Tensor> tensors = {tensor};
  c10d::AllreduceOptions options;
  options.asyncOp = false;
  auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; i++) backend.allreduce(tensors, options)->wait();
  std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  return took.count() / calls;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.def("allreduce_us", &allreduce_us);
}
