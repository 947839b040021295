/*
 * Buffers that libcoll can use, for tensors that are not contiguous and for lists of tensors.
 */
#ifndef COLL_TORCH_PACK_H
#define COLL_TORCH_PACK_H

#include "tensors.hpp"

namespace coll_torch {

/* Whether the tensor's memory holds its elements in order. */
bool is_plain(const at::Tensor &tensor);

/* The tensor, or a packed copy of it. */
at::Tensor packed(const at::Tensor &tensor);

/* Where a call writes the elements of a tensor: the tensor, or a new buffer of its size. */
at::Tensor buffer_for(const at::Tensor &tensor);

/* The same in memory of the host, for tensors of any device. */
at::Tensor packed_on_host(const at::Tensor &tensor);
at::Tensor host_buffer_for(const at::Tensor &tensor);

/* Copies the elements, unseen by autograd. */
void copy_to(const at::Tensor &to, const at::Tensor &from);

/* Copies the buffer to its tensor, if it is another one. */
void unpack(const at::Tensor &buffer, const at::Tensor &tensor);

/* One buffer for tensors of equal size that follow each other: the tensors' own memory if they do
 * so already, as the chunks of one tensor do, else a new one. */
class ListBuffer {
 public:
  /* If `reads`, the buffer holds the tensors' elements. */
  ListBuffer(const Tensors &tensors, bool reads);
  void *data() const {
    return data_;
  }
  /* Copies the buffer to the tensors. */
  void unpack() const;

 private:
  const Tensors &tensors_;
  at::Tensor staged_; /* undefined if the tensors' own memory is used */
  void *data_;
};

/* Throws unless all tensors of the list have the dtype and number of elements of `like`, and there
 * are `size` of them. */
void require_list(const Tensors &tensors, const at::Tensor &like, size_t size, const char *verb);

}  // namespace coll_torch

#endif
