/*
 * The collectives that move data: broadcast, allgather, gather, scatter, alltoall; and the barrier.
 */
#include "backend.hpp"
#include "errors.hpp"
#include "issue.hpp"
#include "pack.hpp"

namespace coll_torch {

using c10d::OpType;

WorkPtr Backend::broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) {
  at::Tensor tensor = only_tensor(tensors, "broadcast");
  Wire wire = wire_to_move(tensor, "broadcast");
  require_root(options.rootRank, "broadcast");
  int root = int(options.rootRank);
  bool is_root = root == rank_;
  return issue(
      OpType::BROADCAST, "coll:broadcast", tensors, tensors, options,
      [=](coll_comm_t comm, coll_stream_t stream) {
        at::Tensor buffer = is_root ? packed(tensor) : buffer_for(tensor);
        void *data = buffer.data_ptr();
        check(coll_broadcast(data, data, wire_count(buffer, wire), wire.dtype, root, comm, stream),
              comm, "broadcast");
        if (!is_root) unpack(buffer, tensor);
      });
}

WorkPtr Backend::allgather(TensorLists &outputs, Tensors &inputs,
                           const c10d::AllgatherOptions &options) {
  at::Tensor input = only_tensor(inputs, "allgather");
  TORCH_CHECK(outputs.size() == 1, "coll: allgather takes one list of outputs per rank");
  Tensors list = outputs[0];
  require_list(list, input, size_t(size_), "allgather");
  Wire wire = wire_to_move(input, "allgather");
  return issue(OpType::ALLGATHER, "coll:all_gather", inputs, list, options,
               [=](coll_comm_t comm, coll_stream_t stream) {
                 at::Tensor from = packed(input);
                 ListBuffer to(list, false);
                 check(coll_allgather(from.data_ptr(), to.data(), wire_count(from, wire),
                                      wire.dtype, comm, stream),
                       comm, "allgather");
                 to.unpack();
               });
}

WorkPtr Backend::_allgather_base(at::Tensor &output, at::Tensor &input,
                                 const c10d::AllgatherOptions &options) {
  Wire wire = wire_to_move(input, "all_gather_into_tensor");
  require_dense(output, "all_gather_into_tensor");
  require_blocks(output, input, size_, "all_gather_into_tensor");
  at::Tensor whole = output, block = input;
  return issue(OpType::_ALLGATHER_BASE, "coll:_all_gather_base", {input}, {output}, options,
               [=](coll_comm_t comm, coll_stream_t stream) {
                 at::Tensor from = packed(block), to = buffer_for(whole);
                 check(coll_allgather(from.data_ptr(), to.data_ptr(), wire_count(from, wire),
                                      wire.dtype, comm, stream),
                       comm, "all_gather_into_tensor");
                 unpack(to, whole);
               });
}

WorkPtr Backend::allgather_coalesced(TensorLists &outputs, Tensors &inputs,
                                     const c10d::AllgatherOptions &options) {
  const char *verb = "allgather_coalesced";
  TORCH_CHECK(outputs.size() == size_t(size_), "coll: ", verb, " takes a list of outputs for each",
              " of the ", size_, " ranks, but got ", outputs.size());
  std::vector<Tensors> columns(inputs.size());
  Tensors all;
  for (size_t i = 0; i < inputs.size(); i++) {
    for (const Tensors &list : outputs) {
      TORCH_CHECK(list.size() == inputs.size(), "coll: ", verb, " has ", inputs.size(),
                  " inputs, but a list of ", list.size(), " outputs");
      columns[i].push_back(list[i]);
      all.push_back(list[i]);
    }
    require_dense(inputs[i], verb);
    require_list(columns[i], inputs[i], size_t(size_), verb);
  }
  auto body = [=](coll_comm_t comm, coll_stream_t stream) {
    Tensors froms;
    std::vector<std::unique_ptr<ListBuffer>> tos;
    for (size_t i = 0; i < inputs.size(); i++) {
      froms.push_back(packed(inputs[i]));
      tos.push_back(std::make_unique<ListBuffer>(columns[i], false));
    }
    Group group;
    for (size_t i = 0; i < inputs.size(); i++) {
      Wire wire = wire_to_move(froms[i], verb);
      check(coll_allgather(froms[i].data_ptr(), tos[i]->data(), wire_count(froms[i], wire),
                           wire.dtype, comm, stream),
            comm, verb);
    }
    group.end(comm, verb);
    for (auto &to : tos) to->unpack();
  };
  return issue(OpType::ALLGATHER_COALESCED, "coll:all_gather", inputs, all, options, body);
}

WorkPtr Backend::allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                 const c10d::AllgatherOptions &options) {
  const char *verb = "all_gather_into_tensor_coalesced";
  require_pairs(inputs, outputs, verb);
  for (size_t i = 0; i < inputs.size(); i++) {
    require_dense(inputs[i], verb);
    require_dense(outputs[i], verb);
    require_blocks(outputs[i], inputs[i], size_, verb);
  }
  auto body = [inputs, outputs, verb](coll_comm_t comm, coll_stream_t stream) {
    run_pairs(inputs, outputs, comm, verb,
              [&](size_t, const at::Tensor &from, const at::Tensor &to) {
                Wire wire = wire_to_move(from, verb);
                return coll_allgather(from.data_ptr(), to.data_ptr(), wire_count(from, wire),
                                      wire.dtype, comm, stream);
              });
  };
  return issue(kAllgatherCoalesced, "coll:all_gather_into_tensor_coalesced", inputs, outputs,
               options, body);
}

WorkPtr Backend::gather(TensorLists &outputs, Tensors &inputs, const c10d::GatherOptions &options) {
  at::Tensor input = only_tensor(inputs, "gather");
  Wire wire = wire_to_move(input, "gather");
  require_root(options.rootRank, "gather");
  int root = int(options.rootRank);
  Tensors list;
  if (root == rank_) {
    TORCH_CHECK(outputs.size() == 1, "coll: gather takes one list of outputs at the root");
    list = outputs[0];
    require_list(list, input, size_t(size_), "gather");
  } else {
    TORCH_CHECK(outputs.empty(), "coll: gather takes a list of outputs at the root only");
  }
  return issue(
      OpType::GATHER, "coll:gather", inputs, list, options,
      [=](coll_comm_t comm, coll_stream_t stream) {
        at::Tensor from = packed(input);
        size_t count = wire_count(from, wire);
        if (list.empty()) {
          check(coll_gather(from.data_ptr(), nullptr, count, wire.dtype, root, comm, stream), comm,
                "gather");
          return;
        }
        ListBuffer to(list, false);
        check(coll_gather(from.data_ptr(), to.data(), count, wire.dtype, root, comm, stream), comm,
              "gather");
        to.unpack();
      });
}

WorkPtr Backend::gather_into_tensor(at::Tensor &output, at::Tensor &input,
                                    const c10d::GatherOptions &options) {
  Wire wire = wire_to_move(input, "gather_into_tensor");
  require_root(options.rootRank, "gather_into_tensor");
  int root = int(options.rootRank);
  bool is_root = root == rank_;
  if (is_root) {
    require_dense(output, "gather_into_tensor");
    require_blocks(output, input, size_, "gather_into_tensor");
  }
  at::Tensor whole = output, block = input;
  return issue(OpType::GATHER, "coll:gather", {input}, is_root ? Tensors{output} : Tensors{},
               options, [=](coll_comm_t comm, coll_stream_t stream) {
                 at::Tensor from = packed(block), to = is_root ? buffer_for(whole) : whole;
                 check(coll_gather(from.data_ptr(), is_root ? to.data_ptr() : nullptr,
                                   wire_count(from, wire), wire.dtype, root, comm, stream),
                       comm, "gather_into_tensor");
                 if (is_root) unpack(to, whole);
               });
}

WorkPtr Backend::scatter(Tensors &outputs, TensorLists &inputs,
                         const c10d::ScatterOptions &options) {
  at::Tensor output = only_tensor(outputs, "scatter");
  Wire wire = wire_to_move(output, "scatter");
  require_root(options.rootRank, "scatter");
  int root = int(options.rootRank);
  Tensors list;
  if (root == rank_) {
    TORCH_CHECK(inputs.size() == 1, "coll: scatter takes one list of inputs at the root");
    list = inputs[0];
    require_list(list, output, size_t(size_), "scatter");
  } else {
    TORCH_CHECK(inputs.empty(), "coll: scatter takes a list of inputs at the root only");
  }
  return issue(OpType::SCATTER, "coll:scatter", list, outputs, options,
               [=](coll_comm_t comm, coll_stream_t stream) {
                 at::Tensor to = buffer_for(output);
                 std::unique_ptr<ListBuffer> from;
                 if (!list.empty()) from = std::make_unique<ListBuffer>(list, true);
                 check(coll_scatter(from ? from->data() : nullptr, to.data_ptr(),
                                    wire_count(to, wire), wire.dtype, root, comm, stream),
                       comm, "scatter");
                 unpack(to, output);
               });
}

WorkPtr Backend::barrier(const c10d::BarrierOptions &options) {
  return issue(OpType::BARRIER, "coll:barrier", {}, {}, options,
               [](coll_comm_t comm, coll_stream_t stream) {
                 check(coll_barrier(comm, stream), comm, "barrier");
               });
}

}  // namespace coll_torch
