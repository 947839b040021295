/*
 * Packing and unpacking. Tasks do both, not their issuers, as calls issued before may write the
 * same tensors.
 */
#include "pack.hpp"

#include <cstring>

namespace coll_torch {

bool is_plain(const at::Tensor &tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

at::Tensor packed(const at::Tensor &tensor) {
  return is_plain(tensor) ? tensor : tensor.resolve_conj().resolve_neg().contiguous();
}

at::Tensor buffer_for(const at::Tensor &tensor) {
  if (is_plain(tensor)) return tensor;
  return at::empty(tensor.sizes(), tensor.options().memory_format(at::MemoryFormat::Contiguous));
}

at::Tensor packed_on_host(const at::Tensor &tensor) {
  return packed(tensor.cpu());
}

at::Tensor host_buffer_for(const at::Tensor &tensor) {
  return tensor.is_cpu()
             ? buffer_for(tensor)
             : at::empty(tensor.sizes(), tensor.options().device(at::kCPU).memory_format(
                                             at::MemoryFormat::Contiguous));
}

/* Autograd sees this as little as it sees what libcoll writes. It would refuse to write a tensor of
 * the inference mode in a thread that is not in that mode. */
void copy_to(const at::Tensor &to, const at::Tensor &from) {
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  to.copy_(from);
}

void unpack(const at::Tensor &buffer, const at::Tensor &tensor) {
  if (!buffer.is_same(tensor)) copy_to(tensor, buffer);
}

namespace {

bool follow_each_other(const Tensors &tensors) {
  const char *next = static_cast<const char *>(tensors[0].data_ptr());
  for (const at::Tensor &tensor : tensors) {
    if (!is_plain(tensor) || tensor.data_ptr() != next) return false;
    next += tensor.nbytes();
  }
  return true;
}

/* The part of the buffer for tensor `index` of the list, in that tensor's shape. */
at::Tensor part(const at::Tensor &staged, const at::Tensor &tensor, size_t index) {
  return staged.narrow(0, int64_t(index) * tensor.numel(), tensor.numel()).view(tensor.sizes());
}

}  // namespace

ListBuffer::ListBuffer(const Tensors &tensors, bool reads) : tensors_(tensors) {
  if (follow_each_other(tensors)) {
    data_ = tensors[0].data_ptr();
    return;
  }
  staged_ = staging(tensors[0], int64_t(tensors.size()));
  data_ = staged_.data_ptr();
  for (size_t i = 0; reads && i < tensors.size(); i++)
    part(staged_, tensors[i], i).copy_(tensors[i]);
}

void ListBuffer::unpack() const {
  if (!staged_.defined()) return;
  for (size_t i = 0; i < tensors_.size(); i++) copy_to(tensors_[i], part(staged_, tensors_[i], i));
}

void require_list(const Tensors &tensors, const at::Tensor &like, size_t size, const char *verb) {
  TORCH_CHECK(tensors.size() == size, "coll: ", verb,
              " takes a list of one tensor for each of the ", size, " ranks, but got ",
              tensors.size());
  for (size_t i = 0; i < size; i++) {
    require_dense(tensors[i], verb);
    TORCH_CHECK(tensors[i].scalar_type() == like.scalar_type(), "coll: ", verb, ": tensor ", i,
                " of the list is of ", tensors[i].scalar_type(), ", and the other tensor of ",
                like.scalar_type());
    TORCH_CHECK(tensors[i].numel() == like.numel(), "coll: ", verb, ": tensor ", i,
                " of the list has ", tensors[i].numel(), " elements, but all need ", like.numel());
  }
}

}  // namespace coll_torch
