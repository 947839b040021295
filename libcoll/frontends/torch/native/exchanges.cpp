/*
 * The collectives in which each pair of ranks exchanges data of its own.
 */
#include "backend.hpp"
#include "errors.hpp"
#include "issue.hpp"
#include "pack.hpp"

namespace coll_torch {

using c10d::OpType;

namespace {

/* Counts and displacements of one side of an exchange, in elements of the wire's dtype. */
struct Blocks {
  std::vector<size_t> counts, displs;
  void add(size_t count) {
    displs.push_back(counts.empty() ? 0 : displs.back() + counts.back());
    counts.push_back(count);
  }
};

/* The blocks of a tensor that is divided along its first dimension; without splits evenly. */
Blocks blocks_of(const at::Tensor &tensor, const std::vector<int64_t> &splits, int size,
                 size_t per_element, const char *which) {
  Blocks blocks;
  int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0), sum = 0;
  if (splits.empty()) {
    TORCH_CHECK(rows % size == 0, "coll: alltoall_base without splits: the first dimension of the ",
                which, " (", rows, ") is not a multiple of the number of ranks (", size, ")");
    for (int i = 0; i < size; i++) blocks.add(size_t(tensor.numel() / size) * per_element);
    return blocks;
  }
  TORCH_CHECK(splits.size() == size_t(size), "coll: alltoall_base: ", splits.size(),
              " splits of the ", which, " for ", size, " ranks");
  int64_t row = rows == 0 ? 0 : tensor.numel() / rows;
  for (int64_t split : splits) {
    TORCH_CHECK(split >= 0, "coll: alltoall_base: a split of the ", which, " is negative: ", split);
    sum += split;
    blocks.add(size_t(split * row) * per_element);
  }
  TORCH_CHECK(sum == rows, "coll: alltoall_base: the splits of the ", which, " add up to ", sum,
              ", but its first dimension is ", rows);
  return blocks;
}

/* The tensors one behind the other in one buffer. */
at::Tensor joined(const Tensors &list) {
  Tensors flat;
  for (const at::Tensor &tensor : list) flat.push_back(packed(tensor).view({-1}));
  return at::cat(flat);
}

Blocks blocks_of_list(const Tensors &list, const at::Tensor &like, const Wire &wire, int size) {
  Blocks blocks;
  TORCH_CHECK(list.size() == size_t(size), "coll: alltoall takes a tensor for each of the ", size,
              " ranks, but got ", list.size());
  for (const at::Tensor &tensor : list) {
    require_dense(tensor, "alltoall");
    TORCH_CHECK(tensor.scalar_type() == like.scalar_type(), "coll: alltoall: tensors differ in",
                " dtype: ", tensor.scalar_type(), " and ", like.scalar_type());
    blocks.add(wire_count(tensor, wire));
  }
  return blocks;
}

void exchange(const at::Tensor &from, const Blocks &sends, const at::Tensor &to,
              const Blocks &receives, const Wire &wire, coll_comm_t comm, coll_stream_t stream,
              const char *verb) {
  check(coll_alltoallv(from.data_ptr(), sends.counts.data(), sends.displs.data(), to.data_ptr(),
                       receives.counts.data(), receives.displs.data(), wire.dtype, comm, stream),
        comm, verb);
}

}  // namespace

WorkPtr Backend::alltoall_base(at::Tensor &output, at::Tensor &input,
                               std::vector<int64_t> &output_splits,
                               std::vector<int64_t> &input_splits,
                               const c10d::AllToAllOptions &options) {
  Wire wire = wire_to_move(input, "alltoall_base");
  require_dense(output, "alltoall_base");
  TORCH_CHECK(input.scalar_type() == output.scalar_type(), "coll: alltoall_base: input and output",
              " differ in dtype: ", input.scalar_type(), " and ", output.scalar_type());
  Blocks sends = blocks_of(input, input_splits, size_, wire.per_element, "input");
  Blocks receives = blocks_of(output, output_splits, size_, wire.per_element, "output");
  bool is_even = input_splits.empty() && output_splits.empty();
  TORCH_CHECK(!is_even || input.numel() == output.numel(), "coll: alltoall_base without splits: ",
              "input and output differ in size: ", input.numel(), " and ", output.numel());
  at::Tensor source = input, target = output;
  return issue(OpType::ALLTOALL_BASE, "coll:all_to_all", {input}, {output}, options,
               [=](coll_comm_t comm, coll_stream_t stream) {
                 at::Tensor from = packed(source), to = buffer_for(target);
                 if (is_even) {
                   check(coll_alltoall(from.data_ptr(), to.data_ptr(), sends.counts[0], wire.dtype,
                                       comm, stream),
                         comm, "alltoall_base");
                 } else {
                   exchange(from, sends, to, receives, wire, comm, stream, "alltoall_base");
                 }
                 unpack(to, target);
               });
}

WorkPtr Backend::alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options) {
  TORCH_CHECK(!inputs.empty(), "coll: alltoall takes a tensor for each rank");
  Wire wire = wire_to_move(inputs[0], "alltoall");
  Blocks sends = blocks_of_list(inputs, inputs[0], wire, size_);
  Blocks receives = blocks_of_list(outputs, inputs[0], wire, size_);
  return issue(OpType::ALLTOALL, "coll:all_to_all", inputs, outputs, options,
               [=](coll_comm_t comm, coll_stream_t stream) {
                 int64_t elements = 0;
                 at::Tensor from = joined(inputs);
                 for (const at::Tensor &tensor : outputs) elements += tensor.numel();
                 at::Tensor to = at::empty({elements}, outputs[0].options());
                 exchange(from, sends, to, receives, wire, comm, stream, "alltoall");
                 elements = 0;
                 for (const at::Tensor &tensor : outputs) {
                   copy_to(tensor, to.narrow(0, elements, tensor.numel()).view(tensor.sizes()));
                   elements += tensor.numel();
                 }
               });
}

}  // namespace coll_torch
