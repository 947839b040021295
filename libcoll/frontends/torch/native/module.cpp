/*
 * The Python module coll_torch.native.
 */
#include <torch/csrc/utils/pybind.h>

#include <torch/csrc/Dtype.h>

#include "backend.hpp"
#include "memory.hpp"

namespace {

namespace py = pybind11;
using coll_torch::Backend;
using coll_torch::BackendBase;

c10::intrusive_ptr<BackendBase> create(const c10::intrusive_ptr<c10d::Store> &store, int rank,
                                       int size, int64_t timeout_ms, const std::string &name) {
  return c10::make_intrusive<Backend>(store, rank, size, std::chrono::milliseconds(timeout_ms),
                                      name);
}

at::Tensor empty(const std::vector<int64_t> &shape, py::object dtype) {
  TORCH_CHECK_TYPE(THPDtype_Check(dtype.ptr()), "coll: dtype must be a torch.dtype");
  return coll_torch::empty_shared(shape, reinterpret_cast<THPDtype *>(dtype.ptr())->scalar_type);
}

std::string describe(const c10::intrusive_ptr<BackendBase> &backend) {
  auto *own = dynamic_cast<Backend *>(backend.get());
  TORCH_CHECK(own != nullptr, "coll: this process group is not one of backend coll");
  return own->describe();
}

}  // namespace

PYBIND11_MODULE(native, module) {
  module.doc() = "libcoll for torch.distributed; use the package coll_torch";
  module.def("create", &create, py::arg("store"), py::arg("rank"), py::arg("size"),
             py::arg("timeout_ms"), py::arg("name"), py::call_guard<py::gil_scoped_release>(),
             "The backend of a process group; see backend.h");
  module.def("describe", &describe, py::arg("backend"), py::call_guard<py::gil_scoped_release>(),
             "A table of what the ranks of a process group do");
  module.def("empty", &empty, py::arg("shape"), py::arg("dtype"),
             "A tensor of zeros in memory that the other ranks can map");
}
