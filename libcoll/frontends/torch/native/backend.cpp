/*
 * The life of a process group, and how its calls are issued.
 */
#include "backend.hpp"

#include <torch/csrc/utils/pybind.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "errors.hpp"
#include "memory.hpp"
#include "rendezvous.hpp"

namespace coll_torch {

using c10d::OpType;

/* How long the end of a process group waits for calls that were issued and not waited for. */
static constexpr Milliseconds kCloseLimit(10000);

Backend::Backend(c10::intrusive_ptr<c10d::Store> store, int rank, int size, Milliseconds timeout,
                 std::string name)
    : BackendBase(rank, size),
      store_(std::move(store)),
      call_limit_(timeout),
      timeout_(timeout),
      name_(std::move(name)),
      process_(getpid()) {
  lane_ = std::make_shared<Lane>(
      rendezvous(*store_, {"coll/id", name_, rank, size, timeout, timeout, {}}, &token_));
#if COLL_TORCH_HAS_GPU
  gpu_ = std::make_shared<Gpu>([this, rank, size] {
    return rendezvous(*store_, {"coll/gpu", name_, rank, size, call_limit_, call_limit_, {}});
  });
#endif
  auto has_exited = [lane = std::weak_ptr<Lane>(lane_)](int peer) {
    std::shared_ptr<Lane> alive = lane.lock();
    return alive && alive->has_exited(peer);
  };
  messages_ = std::make_unique<Messages>(store_, name_, rank, size, has_exited);
  init();
}

/* Then other threads no longer get Python's lock. */
static bool is_python_ending() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing();
#else
  return _Py_IsFinalizing();
#endif
}

/* In a forked process, threads of the parent may hold locks of these and wait for conditions: to
 * destroy them would wait for ever, as it would in a thread of their own. They are left as they
 * are. Python may hold its lock here (PyTorch 1.13 does), which the threads that are waited for
 * need to free callbacks. */
Backend::~Backend() {
  if (process_ == getpid() && !runs_here()) {
    std::optional<pybind11::gil_scoped_release> no_gil;
    if (PyGILState_Check() && !is_python_ending()) no_gil.emplace();
    messages_->close(kCloseLimit);
    lane_->close(kCloseLimit);
#if COLL_TORCH_HAS_GPU
    gpu_->close(kCloseLimit);
#endif
    return;
  }
  (void)messages_.release();
  (void)new std::shared_ptr<Lane>(lane_);
#if COLL_TORCH_HAS_GPU
  (void)new std::shared_ptr<Gpu>(gpu_);
#endif
}

void Backend::abort() {
  lane_->abort();
  messages_->abort();
#if COLL_TORCH_HAS_GPU
  gpu_->abort();
#endif
}

bool Backend::runs_here() const {
  return lane_->runs_here() || messages_->runs_here();
}

void Backend::shutdown() {
  if (process_ == getpid() && runs_here()) {
    throw_backend_error("coll: process group \"" + name_ +
                        "\" cannot be shut down in a callback of one of its calls, which it would "
                        "wait for; do it after wait()");
  }
  messages_->close(kCloseLimit);
  lane_->close(kCloseLimit);
#if COLL_TORCH_HAS_GPU
  gpu_->close(kCloseLimit);
#endif
}

void Backend::setTimeout(Milliseconds timeout) {
  timeout_ = timeout;
}

uint64_t Backend::getSequenceNumberForGroup() {
  return sequence_;
}

/* It is 0 on all ranks at the beginning. */
void Backend::setSequenceNumberForGroup() {
}

void Backend::require_root(int64_t root, const char *verb) const {
  TORCH_CHECK(root >= 0 && root < size_, "coll: ", verb, ": there is no rank ", root,
              " in a group of ", size_, " ranks");
}

#if COLL_TORCH_HAS_GPU
WorkPtr Backend::issue_on_gpu(c10d::OpType type, const char *title, const Tensors &inputs,
                              Tensors outputs, c10::Device device, const Lane::Body &body) {
  Tensors tensors = inputs;
  tensors.insert(tensors.end(), outputs.begin(), outputs.end());
  auto work = c10::make_intrusive<GpuWork>(rank_, type, title, inputs, std::move(outputs),
                                           ++sequence_, device, gpu_);
  gpu_->issue(*work, device, tensors, body);
  return work;
}
#endif

WorkPtr Backend::issue(c10d::OpType type, const char *title, const Tensors &inputs, Tensors outputs,
                       Milliseconds timeout, bool is_async, Lane::Body body) {
  [[maybe_unused]] c10::Device device = common_device(inputs, outputs, title + strlen("coll:"));
#if COLL_TORCH_HAS_GPU
  if (device.is_cuda()) return issue_on_gpu(type, title, inputs, std::move(outputs), device, body);
#endif
  bool has_limit = timeout.count() > 0 && timeout != call_limit_;
  if (timeout.count() <= 0 && timeout_ != call_limit_) {
    timeout = timeout_;
    has_limit = true;
  }
  std::weak_ptr<Lane> lane = lane_;
  auto on_timeout = [lane, what = text_of(title)](Milliseconds limit) {
    std::string text = what + " was not complete after " + std::to_string(limit.count()) +
                       " ms; the process group can no longer be used";
    std::shared_ptr<Lane> alive = lane.lock();
    if (alive) {
      text += "\n" + alive->describe();
      alive->abort();
    }
    return text;
  };
  auto work = c10::make_intrusive<Work>(rank_, type, title, inputs, std::move(outputs), ++sequence_,
                                        has_limit ? timeout : kNoTimeout, on_timeout);
  lane_->issue(work, std::move(body), !is_async && !has_limit);
  return work;
}

WorkPtr Backend::message(OpType type, const char *title, Tensors &tensors, int peer, int tag) {
  at::Tensor tensor = only_tensor(tensors, title + strlen("coll:"));
  if (type != OpType::RECVANYSOURCE) require_root(peer, title + strlen("coll:"));
  auto on_timeout = [what = text_of(title), peer, tag](Milliseconds limit) {
    return what + (peer < 0 ? " from any rank" : " with rank " + std::to_string(peer)) + " (tag " +
           std::to_string(tag) + ") was not complete after " + std::to_string(limit.count()) +
           " ms: that rank has not made the other half of it";
  };
  bool is_send = type == OpType::SEND;
  auto work = c10::make_intrusive<Work>(rank_, type, title, tensors, tensors, uint64_t(sequence_),
                                        timeout_, on_timeout);
  if (is_send) {
    messages_->send(work, tensor, peer, tag);
  } else {
    messages_->receive(work, tensor, peer, tag);
  }
  return work;
}

WorkPtr Backend::send(Tensors &tensors, int peer, int tag) {
  return message(OpType::SEND, "coll:send", tensors, peer, tag);
}

WorkPtr Backend::recv(Tensors &tensors, int peer, int tag) {
  return message(OpType::RECV, "coll:recv", tensors, peer, tag);
}

WorkPtr Backend::recvAnysource(Tensors &tensors, int tag) {
  return message(OpType::RECVANYSOURCE, "coll:recvAnySource", tensors, -1, tag);
}

std::string Backend::text_of(const char *title) const {
  return "coll: rank " + std::to_string(rank_) + " of process group \"" + name_ +
         "\": " + (title + strlen("coll:"));
}

#if COLL_TORCH_AT_LEAST(2, 10)
c10::intrusive_ptr<c10d::Backend> Backend::split(const c10::intrusive_ptr<c10d::Store> &store,
                                                 const std::vector<int> &ranks,
                                                 const c10::intrusive_ptr<Options> &options) {
  require_process(process_);
  auto place = std::find(ranks.begin(), ranks.end(), rank_);
  if (place == ranks.end()) return nullptr;
  std::string name = options && !options->group_name.empty() ? options->group_name : name_;
  return c10::make_intrusive<Backend>(store, int(place - ranks.begin()), int(ranks.size()),
                                      options ? options->timeout : timeout_, name);
}

c10::intrusive_ptr<c10d::Backend::Options> Backend::getBackendOptions() {
  return c10::make_intrusive<Options>("coll", timeout_);
}

c10d::ErrorType Backend::getError() {
  coll_status_t status = lane_->status();
#if COLL_TORCH_HAS_GPU
  if (status == COLL_OK) status = gpu_->status();
#endif
  switch (status) {
    case COLL_OK:
    case COLL_IN_PROGRESS: return c10d::ErrorType::SUCCESS;
    case COLL_ERROR_TIMEOUT: return c10d::ErrorType::TIMEOUT;
    case COLL_ERROR_RANK_LOST: return c10d::ErrorType::REMOTE_ERROR;
    default: return c10d::ErrorType::COMM_ERROR;
  }
}

/* A device of the CPU has no index. */
bool Backend::supportsTensorAlloc(c10::DeviceIndex index) {
  return index < 0;
}

at::Tensor Backend::allocateTensor(long size, at::TensorOptions options) {
  TORCH_CHECK(options.device().is_cpu(), "coll: allocateTensor on ", options.device(),
              ": this backend allocates memory of the CPU only");
  return empty_shared({size}, options.dtype_opt().value_or(at::get_default_dtype()).toScalarType());
}
#endif

}  // namespace coll_torch
