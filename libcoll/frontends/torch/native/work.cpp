/*
 * Completion of calls, and waiting for them.
 */
#include "work.hpp"

#include <c10/util/Exception.h>

#include "errors.hpp"

namespace coll_torch {

Work::Work(int rank, c10d::OpType type, const char *title, const Tensors &inputs, Tensors outputs,
           uint64_t sequence, Milliseconds timeout,
           std::function<std::string(Milliseconds)> on_timeout)
    : c10d::Work(rank, type, title, inputs),
      outputs_(std::move(outputs)),
      sequence_(sequence),
      timeout_(timeout),
      on_timeout_(std::move(on_timeout)) {
}

bool Work::isCompleted() {
  return done_.load(std::memory_order_acquire);
}

bool Work::isSuccess() const {
  return done_.load(std::memory_order_acquire) && exception_ == nullptr;
}

int Work::sourceRank() const {
  return source_;
}

Tensors Work::result() {
  TORCH_CHECK(isCompleted(), "coll: result() of a call that is not completed; wait() for it first");
  return outputs_;
}

void Work::abort() {
  TORCH_CHECK(false, "coll: a single call cannot be aborted; abort its process group");
}

void Work::complete_future() {
  if (exception_ != nullptr) {
    future_->setError(exception_);
  } else {
    future_->markCompleted(at::IValue(outputs_));
  }
}

void Work::complete(std::exception_ptr error, int source) {
  bool has_future;
  source_ = source;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    exception_ = error;
    completed_ = true;
    done_.store(true, std::memory_order_release);
    has_future = bool(future_);
    if (recordFunctionEndCallback_) {
      recordFunctionEndCallback_();
      recordFunctionEndCallback_ = nullptr;
    }
    cv_.notify_all();
  }
  /* Callbacks of the future run here, and may use the work. */
  if (has_future) complete_future();
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture() {
  bool is_new = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!future_) {
      future_ =
          c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
      is_new = completed_;
    }
  }
  if (is_new) complete_future();
  return future_;
}

bool Work::wait(Milliseconds timeout) {
  if (!done_.load(std::memory_order_acquire)) {
    std::unique_lock<std::mutex> lock(mutex_);
    bool limited = timeout != kNoTimeout;
    Milliseconds limit = limited ? timeout : timeout_;
    auto is_done = [&] { return completed_; };
    if (limit <= Milliseconds(0)) {
      cv_.wait(lock, is_done);
    } else if (!cv_.wait_for(lock, limit, is_done)) {
      lock.unlock();
      throw_backend_error(on_timeout_(limit));
    }
  }
  if (exception_ != nullptr) std::rethrow_exception(exception_);
  return true;
}

}  // namespace coll_torch
