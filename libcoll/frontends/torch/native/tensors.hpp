/*
 * Tensors as libcoll sees them: a pointer, a count and a dtype. A complex element travels as two
 * real ones, a bool as a byte. Tensors that are not contiguous are packed and unpacked.
 */
#ifndef COLL_TORCH_TENSORS_H
#define COLL_TORCH_TENSORS_H

#include <coll.h>
#include "c10d.hpp"

namespace coll_torch {

/* The dtype that an element travels as, and how many of them it takes. */
struct Wire {
  coll_dtype_t dtype;
  size_t per_element;
};

/* For collectives that only move data: every dtype of fixed size is possible. `verb` is for the
 * error text. */
Wire wire_to_move(const at::Tensor &tensor, const char *verb);

/* What `op` on tensors of a dtype is in libcoll. For PREMUL_SUM the factor is the scalar of the
 * operation, which the task creates (with_op). */
struct Reduction {
  Wire wire;
  coll_op_t op;
  bool is_premul;
  at::Tensor factor; /* one element of the tensors' dtype, if is_premul */
};

/* Throws a sentence if libcoll cannot reduce tensors of this dtype in this way. */
Reduction reduction_of(const at::Tensor &tensor, const c10d::ReduceOp &op, const char *verb);

/* Throws unless the tensor is a dense one in the memory of the CPU or of a GPU. */
void require_dense(const at::Tensor &tensor, const char *verb);

/* The device of all tensors of a call; throws if they are on several. Without tensors, the CPU. */
c10::Device common_device(const Tensors &inputs, const Tensors &outputs, const char *verb);

/* Throws unless the list has exactly one tensor, which is dense. */
at::Tensor only_tensor(const Tensors &tensors, const char *verb);

/* Throws unless `whole` has the dtype of `block` and `size` times its elements. */
void require_blocks(const at::Tensor &whole, const at::Tensor &block, int size, const char *verb);

/* A contiguous tensor of `count` times the elements of `like`, to stage lists of tensors. */
at::Tensor staging(const at::Tensor &like, int64_t count);

/* The number of elements of the wire's dtype in the tensor. */
size_t wire_count(const at::Tensor &tensor, const Wire &wire);

}  // namespace coll_torch

#endif
