/*
 * Work: what an asynchronous call returns. It is completed once, by the thread that ran the call.
 */
#ifndef COLL_TORCH_WORK_H
#define COLL_TORCH_WORK_H

#include <atomic>
#include <functional>

#include "c10d.hpp"

namespace coll_torch {

class Work : public c10d::Work {
 public:
  /* `outputs` is the result of the call and its future. `deadline` says how long wait() without an
   * argument waits; on_timeout() then ends the call and returns the text of the error. */
  Work(int rank, c10d::OpType type, const char *title, const Tensors &inputs, Tensors outputs,
       uint64_t sequence, Milliseconds timeout,
       std::function<std::string(Milliseconds)> on_timeout);

  bool isCompleted() override;
  bool isSuccess() const override;
  bool wait(Milliseconds timeout = kNoTimeout) override;
  void synchronize() override {
  }
  void abort() override;
  int sourceRank() const override;
  Tensors result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
#if COLL_TORCH_AT_LEAST(2, 1)
  uint64_t getSequencenumber() const override {
    return sequence_;
  }
#endif

  /* Completes the work. `source` is the rank that a message came from. */
  void complete(std::exception_ptr error, int source = -1);

 private:
  void complete_future();

  Tensors outputs_;
  uint64_t sequence_;
  Milliseconds timeout_;
  std::function<std::string(Milliseconds)> on_timeout_;
  std::atomic<bool> done_{false};
  int source_ = -1;
  c10::intrusive_ptr<c10::ivalue::Future> future_; /* made when first asked for; mutex_ */
};

}  // namespace coll_torch

#endif
