/*
 * The collectives that compute: allreduce, reduce and reduce_scatter, and their coalesced forms.
 */
#include "backend.hpp"
#include "errors.hpp"
#include "issue.hpp"
#include "pack.hpp"

namespace coll_torch {

using c10d::OpType;

namespace {

/* The operation of a call for as long as the call runs. */
class Operation {
 public:
  Operation(const Reduction &reduction, coll_comm_t comm) : reduction_(reduction), comm_(comm) {
    op = reduction.op;
    if (!reduction.is_premul) return;
    check(coll_op_create_premul_sum(reduction.factor.data_ptr(), reduction.wire.dtype,
                                    COLL_SCALAR_HOST_IMMEDIATE, comm, &op),
          comm, "PREMUL_SUM");
  }
  ~Operation() {
    if (reduction_.is_premul) coll_op_destroy(op, comm_);
  }
  coll_op_t op;

 private:
  const Reduction &reduction_;
  coll_comm_t comm_;
};

void allreduce_one(const at::Tensor &tensor, const Reduction &reduction, coll_comm_t comm,
                   coll_stream_t stream) {
  Operation operation(reduction, comm);
  at::Tensor buffer = packed(tensor);
  void *data = buffer.data_ptr();
  check(coll_allreduce(data, data, wire_count(buffer, reduction.wire), reduction.wire.dtype,
                       operation.op, comm, stream),
        comm, "allreduce");
  unpack(buffer, tensor);
}

std::vector<std::unique_ptr<Operation>> operations_of(const std::vector<Reduction> &reductions,
                                                      coll_comm_t comm) {
  std::vector<std::unique_ptr<Operation>> operations;
  for (const Reduction &reduction : reductions) {
    operations.push_back(std::make_unique<Operation>(reduction, comm));
  }
  return operations;
}

}  // namespace

WorkPtr Backend::allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) {
  at::Tensor tensor = only_tensor(tensors, "allreduce");
  Reduction reduction = reduction_of(tensor, options.reduceOp, "allreduce");
  return issue(OpType::ALLREDUCE, "coll:all_reduce", tensors, tensors, options,
               [=](coll_comm_t comm, coll_stream_t stream) {
                 allreduce_one(tensor, reduction, comm, stream);
               });
}

WorkPtr Backend::allreduce_sparse(Tensors &, const c10d::AllreduceOptions &) {
  TORCH_CHECK(false, "coll: allreduce of sparse tensors is not possible; use .to_dense() first");
}

WorkPtr Backend::allreduce_coalesced(Tensors &tensors,
                                     const c10d::AllreduceCoalescedOptions &options) {
  TORCH_CHECK(!tensors.empty(), "coll: allreduce_coalesced needs at least one tensor");
  std::vector<Reduction> reductions;
  for (const at::Tensor &tensor : tensors) {
    reductions.push_back(reduction_of(tensor, options.reduceOp, "allreduce_coalesced"));
  }
  auto body = [tensors, reductions](coll_comm_t comm, coll_stream_t stream) {
    auto operations = operations_of(reductions, comm);
    run_pairs(tensors, tensors, comm, "allreduce_coalesced",
              [&](size_t i, const at::Tensor &from, const at::Tensor &to) {
                const Wire &wire = reductions[i].wire;
                return coll_allreduce(from.data_ptr(), to.data_ptr(), wire_count(to, wire),
                                      wire.dtype, operations[i]->op, comm, stream);
              });
  };
  return issue(OpType::ALLREDUCE_COALESCED, "coll:all_reduce", tensors, tensors, options, body);
}

WorkPtr Backend::reduce(Tensors &tensors, const c10d::ReduceOptions &options) {
  at::Tensor tensor = only_tensor(tensors, "reduce");
  Reduction reduction = reduction_of(tensor, options.reduceOp, "reduce");
  require_root(options.rootRank, "reduce");
  int root = int(options.rootRank);
  bool is_root = root == rank_;
  return issue(OpType::REDUCE, "coll:reduce", tensors, tensors, options,
               [=](coll_comm_t comm, coll_stream_t stream) {
                 Operation operation(reduction, comm);
                 at::Tensor buffer = packed(tensor);
                 void *data = buffer.data_ptr();
                 check(
                     coll_reduce(data, is_root ? data : nullptr, wire_count(buffer, reduction.wire),
                                 reduction.wire.dtype, operation.op, root, comm, stream),
                     comm, "reduce");
                 if (is_root) unpack(buffer, tensor);
               });
}

WorkPtr Backend::reduce_scatter(Tensors &outputs, TensorLists &inputs,
                                const c10d::ReduceScatterOptions &options) {
  at::Tensor output = only_tensor(outputs, "reduce_scatter");
  TORCH_CHECK(inputs.size() == 1, "coll: reduce_scatter takes one list of inputs per rank");
  Tensors list = inputs[0];
  require_list(list, output, size_t(size_), "reduce_scatter");
  Reduction reduction = reduction_of(output, options.reduceOp, "reduce_scatter");
  return issue(OpType::REDUCE_SCATTER, "coll:reduce_scatter", list, outputs, options,
               [=](coll_comm_t comm, coll_stream_t stream) {
                 Operation operation(reduction, comm);
                 ListBuffer from(list, true);
                 at::Tensor to = buffer_for(output);
                 check(
                     coll_reduce_scatter(from.data(), to.data_ptr(), wire_count(to, reduction.wire),
                                         reduction.wire.dtype, operation.op, comm, stream),
                     comm, "reduce_scatter");
                 unpack(to, output);
               });
}

WorkPtr Backend::_reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                      const c10d::ReduceScatterOptions &options) {
  Reduction reduction = reduction_of(input, options.reduceOp, "reduce_scatter_tensor");
  require_dense(output, "reduce_scatter_tensor");
  require_blocks(input, output, size_, "reduce_scatter_tensor");
  at::Tensor whole = input, block = output;
  return issue(
      OpType::_REDUCE_SCATTER_BASE, "coll:_reduce_scatter_base", {input}, {output}, options,
      [=](coll_comm_t comm, coll_stream_t stream) {
        Operation operation(reduction, comm);
        at::Tensor from = packed(whole), to = buffer_for(block);
        check(coll_reduce_scatter(from.data_ptr(), to.data_ptr(), wire_count(to, reduction.wire),
                                  reduction.wire.dtype, operation.op, comm, stream),
              comm, "reduce_scatter_tensor");
        unpack(to, block);
      });
}

WorkPtr Backend::reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                 const c10d::ReduceScatterOptions &options) {
  const char *verb = "reduce_scatter_tensor_coalesced";
  require_pairs(inputs, outputs, verb);
  std::vector<Reduction> reductions;
  for (size_t i = 0; i < inputs.size(); i++) {
    reductions.push_back(reduction_of(inputs[i], options.reduceOp, verb));
    require_dense(outputs[i], verb);
    require_blocks(inputs[i], outputs[i], size_, verb);
  }
  auto body = [inputs, outputs, reductions, verb](coll_comm_t comm, coll_stream_t stream) {
    auto operations = operations_of(reductions, comm);
    run_pairs(inputs, outputs, comm, verb,
              [&](size_t i, const at::Tensor &from, const at::Tensor &to) {
                const Wire &wire = reductions[i].wire;
                return coll_reduce_scatter(from.data_ptr(), to.data_ptr(), wire_count(to, wire),
                                           wire.dtype, operations[i]->op, comm, stream);
              });
  };
  return issue(kReduceScatterCoalesced, "coll:reduce_scatter_tensor_coalesced", inputs, outputs,
               options, body);
}

}  // namespace coll_torch
