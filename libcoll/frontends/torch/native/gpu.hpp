/*
 * Calls on tensors of GPUs.
 *
 * They have a communicator of their own, which the first of them makes, because a rank's GPU is the
 * one that is current then. Calls are queued on one CUDA stream in the order of issue, behind the
 * work of the issuer's current stream. wait() puts the work of the current stream behind the call.
 * No thread waits for a call, but the first one waits for the other ranks.
 *
 * PyTorch's interface for all kinds of devices is enough for this, so that nothing of CUDA is
 * needed to compile it. It is complete from PyTorch 2.10 on.
 */
#ifndef COLL_TORCH_GPU_H
#define COLL_TORCH_GPU_H

#include <functional>
#include <mutex>

#include <coll.h>
#include "attempt.hpp"
#include "c10d.hpp"

#define COLL_TORCH_HAS_GPU COLL_TORCH_AT_LEAST(2, 10)

#if COLL_TORCH_HAS_GPU
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

namespace coll_torch {

class Gpu;

/* What a call on a GPU returns. */
class GpuWork : public c10d::Work {
 public:
  GpuWork(int rank, c10d::OpType type, const char *title, const Tensors &inputs, Tensors outputs,
          uint64_t sequence, c10::Device device, std::weak_ptr<Gpu> gpu);

  bool isCompleted() override;
  bool isSuccess() const override;
  /* Without a timeout, waits for nothing: it queues the current stream behind the call. With one,
   * waits for the call in this thread. Throws the failure of the group's calls, if it is known. */
  bool wait(Milliseconds timeout = kNoTimeout) override;
  void synchronize() override;
  Tensors result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override {
    return sequence_;
  }

  /* The call has been queued on the stream. */
  void mark_queued(const c10::Stream &stream);

 private:
  Tensors outputs_;
  uint64_t sequence_;
  c10::Device device_;
  c10::Event end_;
  std::weak_ptr<Gpu> gpu_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

class Gpu {
 public:
  using Body = std::function<void(coll_comm_t, coll_stream_t)>;
  using Maker = std::function<coll_comm_t()>;

  explicit Gpu(Maker make) : make_(std::move(make)) {
  }
  ~Gpu() {
    close(Milliseconds(0));
  }
  Gpu(const Gpu &) = delete;
  Gpu &operator=(const Gpu &) = delete;

  /* Queues the body's calls. `tensors` are all that it reads and writes. Throws the failure of an
   * earlier call, too. */
  void issue(GpuWork &work, c10::Device device, const Tensors &tensors, const Body &body);

  /* Ends all calls with an error. Callable from any thread. */
  void abort();
  /* Waits for the calls issued, but no longer than `limit`, then aborts them. */
  void close(Milliseconds limit);
  coll_status_t status();
  /* Throws the failure of a call that has run. */
  void require_healthy();

 private:
  void start(c10::Device device);

  Maker make_;
  std::mutex issue_mutex_; /* one issuer at a time */
  std::mutex mutex_;       /* of comm_ */
  coll_comm_t comm_ = nullptr;
  coll_stream_t queue_ = nullptr; /* of stream_ */
  c10::optional<c10::Stream> stream_;
  OneAttempt creation_;
  bool is_closed_ = false;
};

}  // namespace coll_torch

#endif

namespace coll_torch {

/* Waits for the work of the current stream of a GPU. */
void await_current_stream(c10::Device device);

}  // namespace coll_torch

#endif
