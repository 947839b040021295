/*
 * Queuing calls behind and before the work of PyTorch's streams.
 */
#include "gpu.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

#if COLL_TORCH_HAS_GPU
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <coll_gpu.h>

#include <thread>

#include "errors.hpp"

namespace coll_torch {

namespace {

constexpr Milliseconds kPoll(1);

const c10::impl::VirtualGuardImpl &devices() {
  static const c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
  return guard;
}

/* Polls until `is_done()`; false after `limit`. */
template <typename Condition>
bool await(Condition is_done, Milliseconds limit) {
  auto end = std::chrono::steady_clock::now() + limit;
  while (!is_done()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

}  // namespace

/* ---- works ----------------------------------------------------------------------------------*/

GpuWork::GpuWork(int rank, c10d::OpType type, const char *title, const Tensors &inputs,
                 Tensors outputs, uint64_t sequence, c10::Device device, std::weak_ptr<Gpu> gpu)
    : c10d::Work(rank, type, title, inputs),
      outputs_(std::move(outputs)),
      sequence_(sequence),
      device_(device),
      end_(device.type()),
      gpu_(std::move(gpu)),
      future_(c10::make_intrusive<c10::ivalue::Future>(
          c10::ListType::create(c10::TensorType::get()), std::vector<c10::Device>{device})) {
}

/* Marking the future records an event on the current stream, which those that wait for the future
 * wait for. */
void GpuWork::mark_queued(const c10::Stream &stream) {
  end_.record(stream);
  future_->markCompleted(at::IValue(outputs_));
  if (recordFunctionEndCallback_) recordFunctionEndCallback_();
}

bool GpuWork::isCompleted() {
  return end_.query();
}

bool GpuWork::isSuccess() const {
  std::shared_ptr<Gpu> gpu = gpu_.lock();
  return end_.query() && (!gpu || gpu->status() == COLL_OK);
}

void GpuWork::synchronize() {
  end_.block(devices().getStream(device_));
}

bool GpuWork::wait(Milliseconds timeout) {
  std::shared_ptr<Gpu> gpu = gpu_.lock();
  if (timeout != kNoTimeout && !await([this] { return end_.query(); }, timeout)) {
    throw_backend_error("coll: a call on " + device_.str() + " was not complete after " +
                        std::to_string(timeout.count()) + " ms");
  }
  if (gpu) gpu->require_healthy();
  synchronize();
  return true;
}

Tensors GpuWork::result() {
  return outputs_;
}

c10::intrusive_ptr<c10::ivalue::Future> GpuWork::getFuture() {
  return future_;
}

/* ---- the queue ------------------------------------------------------------------------------*/

void Gpu::start(c10::Device device) {
  creation_.run([&] {
    c10::Stream stream = devices().getStreamFromGlobalPool(device, true);
    check(coll_stream_from_cuda(devices().getStreamNativeHandle(stream), &queue_), nullptr,
          "a call on a GPU");
    stream_ = stream;
    coll_comm_t comm = make_();
    std::lock_guard<std::mutex> lock(mutex_);
    comm_ = comm;
  });
}

void Gpu::require_healthy() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (comm_ != nullptr) check(coll_comm_error(comm_), comm_, "a call on a GPU");
}

void Gpu::issue(GpuWork &work, c10::Device device, const Tensors &tensors, const Body &body) {
  std::lock_guard<std::mutex> lock(issue_mutex_);
  c10::DeviceGuard on_device(device);
  at::NoGradGuard no_grad;
  if (is_closed_) throw_backend_error("coll: the process group has been destroyed or shut down");
  if (comm_ == nullptr) start(device);
  TORCH_CHECK(stream_->device() == device, "coll: a rank of a process group has one GPU, which is ",
              stream_->device(), " since its first call, and this tensor is on ", device);
  require_healthy();
  c10::Event begin(device.type());
  begin.record(devices().getStream(device));
  c10::StreamGuard on_stream(*stream_); /* packing of tensors is queued there, too */
  begin.block(*stream_);
  body(comm_, queue_);
  for (const at::Tensor &tensor : tensors) {
    devices().recordDataPtrOnStream(tensor.storage().data_ptr(), *stream_);
  }
  work.mark_queued(*stream_);
}

void Gpu::abort() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (comm_ != nullptr) coll_comm_abort(comm_);
}

coll_status_t Gpu::status() {
  std::lock_guard<std::mutex> lock(mutex_);
  return comm_ == nullptr ? COLL_OK : coll_comm_error(comm_);
}

void Gpu::close(Milliseconds limit) {
  std::lock_guard<std::mutex> issuing(issue_mutex_);
  if (is_closed_) return;
  is_closed_ = true;
  if (comm_ == nullptr) {
    if (queue_ != nullptr) coll_stream_destroy(queue_);
    return;
  }
  if (!await([this] { return coll_stream_query(queue_) != COLL_IN_PROGRESS; }, limit)) abort();
  std::lock_guard<std::mutex> lock(mutex_);
  coll_comm_destroy(comm_);
  coll_stream_destroy(queue_);
  comm_ = nullptr;
}

}  // namespace coll_torch
#endif

namespace coll_torch {

void await_current_stream(c10::Device device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.synchronizeStream(guard.getStream(device));
}

}  // namespace coll_torch
