/*
 * The backend `coll` of torch.distributed: collectives on coll.h of tensors of the CPU, and of
 * CUDA's.
 *
 * Each process group has a communicator whose collectives run in the order in which they were
 * issued (lane.hpp), and one for tensors of GPUs (gpu.hpp).
 */
#ifndef COLL_TORCH_BACKEND_H
#define COLL_TORCH_BACKEND_H

#include "c10d.hpp"
#include "gpu.hpp"
#include "lane.hpp"
#include "messages.hpp"
#include "tensors.hpp"

namespace coll_torch {

class Backend : public BackendBase {
 public:
  /* Waits for the other ranks up to `timeout`, which is also the limit of every call. `name` is
   * that of the process group. Throws a sentence that names the ranks that are missing. */
  Backend(c10::intrusive_ptr<c10d::Store> store, int rank, int size, Milliseconds timeout,
          std::string name);
  ~Backend() override;

  const std::string getBackendName() const override {
    return "coll";
  }

  /* The calls of c10d, with its meaning. Those without `override` exist in newer versions only. */
  WorkPtr broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) override;
  WorkPtr allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) override;
  WorkPtr allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options);
  WorkPtr allreduce_coalesced(Tensors &tensors,
                              const c10d::AllreduceCoalescedOptions &options) override;
  WorkPtr reduce(Tensors &tensors, const c10d::ReduceOptions &options) override;
  WorkPtr allgather(TensorLists &outputs, Tensors &inputs,
                    const c10d::AllgatherOptions &options) override;
  WorkPtr _allgather_base(at::Tensor &output, at::Tensor &input,
                          const c10d::AllgatherOptions &options) override;
  WorkPtr allgather_coalesced(TensorLists &outputs, Tensors &inputs,
                              const c10d::AllgatherOptions &options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                          const c10d::AllgatherOptions &options);
  WorkPtr gather(TensorLists &outputs, Tensors &inputs,
                 const c10d::GatherOptions &options) override;
  WorkPtr gather_into_tensor(at::Tensor &output, at::Tensor &input,
                             const c10d::GatherOptions &options);
  WorkPtr scatter(Tensors &outputs, TensorLists &inputs,
                  const c10d::ScatterOptions &options) override;
  WorkPtr reduce_scatter(Tensors &outputs, TensorLists &inputs,
                         const c10d::ReduceScatterOptions &options) override;
  WorkPtr _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                               const c10d::ReduceScatterOptions &options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                          const c10d::ReduceScatterOptions &options);
  WorkPtr alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_splits,
                        std::vector<int64_t> &input_splits,
                        const c10d::AllToAllOptions &options) override;
  WorkPtr alltoall(Tensors &outputs, Tensors &inputs,
                   const c10d::AllToAllOptions &options) override;
  WorkPtr barrier(const c10d::BarrierOptions &options) override;
  WorkPtr send(Tensors &tensors, int peer, int tag) override;
  WorkPtr recv(Tensors &tensors, int peer, int tag) override;
  WorkPtr recvAnysource(Tensors &tensors, int tag) override;
  /* Over the store alone: names the ranks that do not arrive within the timeout. */
  void monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all_ranks) override;

  /* Ends all calls on all ranks with an error. */
  void abort();
  /* Waits for the calls issued on this rank; no others are possible afterwards. */
  void shutdown();
  void setTimeout(Milliseconds timeout);
  /* The table of coll_comm_dump; empty if the group has ended. Callable from any thread. */
  std::string describe() const {
    return lane_->describe();
  }
  uint64_t getSequenceNumberForGroup() override;
  void setSequenceNumberForGroup() override;
#if COLL_TORCH_AT_LEAST(2, 10)
  bool supportsSplitting() const override {
    return true;
  }
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store> &store,
                                          const std::vector<int> &ranks,
                                          const c10::intrusive_ptr<Options> &options) override;
  c10::intrusive_ptr<Options> getBackendOptions() override;
  c10d::ErrorType getError() override;
  /* Memory that other ranks of this machine can map. */
  bool supportsTensorAlloc(c10::DeviceIndex index) override;
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;
#endif

 private:
  WorkPtr message(c10d::OpType type, const char *title, Tensors &tensors, int peer, int tag);
  WorkPtr issue(c10d::OpType type, const char *title, const Tensors &inputs, Tensors outputs,
                Milliseconds timeout, bool is_async, Lane::Body body);
  template <typename CallOptions>
  WorkPtr issue(c10d::OpType type, const char *title, const Tensors &inputs, Tensors outputs,
                const CallOptions &options, Lane::Body body);
  std::string text_of(const char *title) const;
  bool runs_here() const;
  void require_root(int64_t root, const char *verb) const;

  c10::intrusive_ptr<c10d::Store> store_;
  Milliseconds call_limit_; /* of the communicator's calls */
  Milliseconds timeout_;    /* of calls that name none */
  std::string name_;
  pid_t process_;
  std::atomic<uint64_t> sequence_{0};
  std::string token_;      /* of the communicator (rendezvous.hpp) */
  uint64_t monitored_ = 0; /* monitored barriers until now */
  std::unique_ptr<Messages> messages_;
  std::shared_ptr<Lane> lane_;
#if COLL_TORCH_HAS_GPU
  WorkPtr issue_on_gpu(c10d::OpType type, const char *title, const Tensors &inputs, Tensors outputs,
                       c10::Device device, const Lane::Body &body);
  std::shared_ptr<Gpu> gpu_;
#endif
};

}  // namespace coll_torch

#endif
