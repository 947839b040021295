/*
 * Senders are lanes; a receiver is a thread that takes headers while receives are waiting for them.
 */
#include "messages.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "errors.hpp"
#include "gpu.hpp"
#include "pack.hpp"
#include "rendezvous.hpp"

namespace coll_torch {

using Clock = std::chrono::steady_clock;

/* How often a thread that waits for a connection looks whether the other process still runs. */
static constexpr Milliseconds kAlivePeriod(250);
static constexpr const char *kEnded = "coll: the process group has been destroyed or aborted";

Messages::Messages(c10::intrusive_ptr<c10d::Store> store, std::string group, int rank, int size,
                   std::function<bool(int)> has_exited)
    : store_(std::move(store)),
      group_(std::move(group)),
      rank_(rank),
      size_(size),
      has_exited_(std::move(has_exited)),
      process_(getpid()) {
}

Messages::~Messages() {
  close(Milliseconds(10000));
}

/* The text of libcoll names the ranks of the communicator of two. */
std::string Messages::explain(int from, int to, const char *verb, coll_comm_t comm) const {
  int peer = from == rank_ ? to : from;
  return std::string("coll: ") + verb + " rank " + std::to_string(peer) + " of process group \"" +
         group_ + "\": " + coll_last_error(comm) + " (here rank 0 is the sender, rank " +
         std::to_string(from) + " of the group, and rank 1 the receiver, rank " +
         std::to_string(to) + ")";
}

/* A rank that dies before it has connected is missed by none of the pair's sockets. */
void Messages::require_alive(int peer, Clock::time_point *next) {
  if (is_ending_) throw_backend_error(kEnded);
  if (Clock::now() < *next) return;
  *next = Clock::now() + kAlivePeriod;
  if (!has_exited_(peer)) return;
  throw_backend_error("coll: rank " + std::to_string(rank_) + " of process group \"" + group_ +
                      "\": rank " + std::to_string(peer) +
                      " has exited before it connected to this rank for messages");
}

coll_comm_t Messages::connect(int from, int to, bool is_sender) {
  std::string key = "coll/message/" + std::to_string(from) + "-" + std::to_string(to);
  Clock::time_point next = Clock::now() + kAlivePeriod;
  auto check = [&] { require_alive(is_sender ? to : from, &next); };
  return rendezvous(*store_,
                    {key, group_, is_sender ? 0 : 1, 2, Milliseconds(0), Milliseconds(0), check});
}

Lane &Messages::sender_to(int peer) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (is_ending_) throw_backend_error(kEnded);
  std::unique_ptr<Lane> &lane = senders_[peer];
  if (!lane) lane = std::make_unique<Lane>([this, peer] { return connect(rank_, peer, true); });
  return *lane;
}

void Messages::send(c10::intrusive_ptr<Work> work, const at::Tensor &tensor, int peer, int tag) {
  require_process(process_);
  /* The lane's thread does not know the caller's stream. */
  at::Tensor sent = tensor.is_cpu() ? tensor : packed_on_host(tensor);
  Lane &lane = sender_to(peer);
  auto body = [this, sent, peer, tag](coll_comm_t comm, coll_stream_t) {
    at::Tensor buffer = packed(sent);
    Header header = {tag, buffer.nbytes()};
    coll_status_t status = coll_send(&header, sizeof header, COLL_UINT8, 1, comm, nullptr);
    if (status == COLL_OK && header.bytes > 0) {
      status = coll_send(buffer.data_ptr(), header.bytes, COLL_UINT8, 1, comm, nullptr);
    }
    if (status != COLL_OK) throw_backend_error(explain(rank_, peer, "send to", comm));
  };
  /* Without the lock: in a callback of a send the lane runs the body, and others, here. */
  lane.issue(std::move(work), body, false);
}

Messages::Source &Messages::source_of(int peer) {
  std::unique_ptr<Source> &source = sources_[peer];
  if (!source) {
    source = std::make_unique<Source>();
    source->peer = peer;
    source->thread = std::thread([this, &source = *source] { listen(source); });
  }
  return *source;
}

/* Completes the receive with a message that arrived before it, if there is one. */
bool Messages::take_early(Source &source, const Receive &receive) {
  for (auto arrival = source.early.begin(); arrival != source.early.end(); ++arrival) {
    if (arrival->tag != receive.tag) continue;
    at::Tensor bytes = arrival->bytes;
    source.early.erase(arrival);
    deliver(receive, bytes, source.peer);
    return true;
  }
  return false;
}

void Messages::deliver(const Receive &receive, const at::Tensor &bytes, int peer) {
  std::exception_ptr error;
  try {
    require_size(receive, bytes.nbytes(), peer);
    at::Tensor buffer = host_buffer_for(receive.tensor);
    if (bytes.nbytes() > 0) memcpy(buffer.data_ptr(), bytes.data_ptr(), bytes.nbytes());
    unpack(buffer, receive.tensor);
  } catch (...) {
    error = std::current_exception();
  }
  receive.work->complete(error, peer);
}

void Messages::require_size(const Receive &receive, size_t bytes, int peer) const {
  if (receive.tensor.nbytes() == bytes) return;
  throw_backend_error("coll: recv from rank " + std::to_string(peer) + " of process group \"" +
                      group_ + "\" (tag " + std::to_string(receive.tag) + "): the message has " +
                      std::to_string(bytes) + " bytes, and the tensor to receive it " +
                      std::to_string(receive.tensor.nbytes()) + "; both must be of one size");
}

void Messages::receive(c10::intrusive_ptr<Work> work, const at::Tensor &tensor, int peer, int tag) {
  require_process(process_);
  if (!tensor.is_cpu()) await_current_stream(tensor.device()); /* it may still use the tensor */
  std::unique_lock<std::mutex> lock(mutex_);
  Receive receive = {std::move(work), tensor, tag, received_++};
  if (is_ending_) throw_backend_error(kEnded);
  if (peer >= 0) {
    Source &source = source_of(peer);
    if (take_early(source, receive)) return;
    if (source.failure) {
      receive.work->complete(source.failure, peer);
      return;
    }
    source.posted.push_back(receive);
  } else {
    for (int rank = 0; rank < size_; rank++) {
      if (rank != rank_ && take_early(source_of(rank), receive)) return;
    }
    if (all_failed()) {
      std::list<Receive> failed = {receive};
      fail_any(&failed, "all other ranks have ended, or messages from them have failed");
      return;
    }
    any_.push_back(receive);
  }
  changed_.notify_all();
}

/* Takes out the receive for a message with this tag that was called first. mutex_ is held. */
bool Messages::match(Source &source, int tag, Receive *receive) {
  auto has_tag = [tag](const Receive &each) { return each.tag == tag; };
  auto posted = std::find_if(source.posted.begin(), source.posted.end(), has_tag);
  auto any = std::find_if(any_.begin(), any_.end(), has_tag);
  bool has_posted = posted != source.posted.end(), has_any = any != any_.end();
  if (!has_posted && !has_any) return false;
  bool takes_posted = has_posted && (!has_any || posted->number < any->number);
  *receive = takes_posted ? *posted : *any;
  if (takes_posted) {
    source.posted.erase(posted);
  } else {
    any_.erase(any);
  }
  return true;
}

void Messages::receive_next(Source &source) {
  Header header;
  Receive receive;
  auto take = [&](void *to, size_t bytes) {
    if (bytes == 0) return;
    if (coll_recv(to, bytes, COLL_UINT8, 0, source.comm, nullptr) == COLL_OK) return;
    throw_backend_error(explain(source.peer, rank_, "recv from", source.comm));
  };
  take(&header, sizeof header);
  std::unique_lock<std::mutex> lock(mutex_);
  bool has_receive = match(source, int(header.tag), &receive);
  lock.unlock();
  if (has_receive && receive.tensor.nbytes() == header.bytes) {
    try {
      at::Tensor buffer = host_buffer_for(receive.tensor);
      take(buffer.data_ptr(), header.bytes);
      unpack(buffer, receive.tensor);
    } catch (...) {
      receive.work->complete(std::current_exception(), source.peer);
      throw;
    }
    receive.work->complete(nullptr, source.peer);
    return;
  }
  at::Tensor bytes = at::empty({int64_t(header.bytes)}, at::kByte);
  take(bytes.data_ptr(), header.bytes);
  lock.lock();
  /* A receive may have been called while the payload came. */
  if (!has_receive) has_receive = match(source, int(header.tag), &receive);
  if (!has_receive) source.early.push_back({bytes, int(header.tag)});
  lock.unlock();
  if (has_receive) deliver(receive, bytes, source.peer);
}

/* Whether no rank is left from which a message could come. mutex_ is held. */
bool Messages::all_failed() const {
  size_t failed = 0;
  for (const auto &source : sources_) failed += source.second->failure != nullptr;
  return failed + 1 >= size_t(size_);
}

void Messages::fail_any(std::list<Receive> *receives, const std::string &reason) {
  for (Receive &receive : *receives) {
    try {
      throw_backend_error("coll: recv from any rank of process group \"" + group_ +
                          "\": no rank is left that could send: " + reason);
    } catch (...) {
      receive.work->complete(std::current_exception());
    }
  }
}

static std::string text_of(std::exception_ptr error) {
  try {
    std::rethrow_exception(std::move(error));
  } catch (const c10::Error &known) {
    return known.what_without_backtrace();
  } catch (const std::exception &other) {
    return other.what();
  }
}

void Messages::fail(Source &source, std::exception_ptr error) {
  std::unique_lock<std::mutex> lock(mutex_);
  std::list<Receive> failed, of_any;
  source.failure = error;
  failed.swap(source.posted);
  if (is_ending_ || all_failed()) of_any.swap(any_);
  lock.unlock();
  for (Receive &receive : failed) receive.work->complete(error, source.peer);
  fail_any(&of_any, text_of(error));
}

void Messages::listen(Source &source) {
  pthread_setname_np(pthread_self(), "coll-torch-recv");
  at::NoGradGuard no_grad;
  try {
    coll_comm_t comm = connect(source.peer, rank_, false);
    std::unique_lock<std::mutex> lock(mutex_);
    source.comm = comm;
    for (;;) {
      changed_.wait(lock, [&] { return is_ending_ || !source.posted.empty() || !any_.empty(); });
      if (is_ending_) throw_backend_error(kEnded);
      lock.unlock();
      receive_next(source);
      lock.lock();
    }
  } catch (...) {
    fail(source, std::current_exception());
  }
}

bool Messages::runs_here() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto &sender : senders_) {
    if (sender.second->runs_here()) return true;
  }
  for (const auto &source : sources_) {
    if (source.second->thread.get_id() == std::this_thread::get_id()) return true;
  }
  return false;
}

void Messages::abort() {
  if (process_ != getpid()) return;
  end_receives();
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto &sender : senders_) sender.second->abort();
}

/* Nor can anything be sent afterwards. Threads that wait for a connection end, too. */
void Messages::end_receives() {
  std::lock_guard<std::mutex> lock(mutex_);
  is_ending_ = true;
  for (auto &source : sources_) {
    if (source.second->comm != nullptr) coll_comm_abort(source.second->comm);
  }
  changed_.notify_all();
}

void Messages::close(Milliseconds limit) {
  if (process_ != getpid()) return;
  for (auto &sender : senders_) {
    if (!sender.second->await_idle(limit)) break;
  }
  end_receives();
  /* Aborts only what is not sent: the peers can still receive the rest. */
  for (auto &sender : senders_) sender.second->close(Milliseconds(0));
  for (auto &each : sources_) {
    Source &source = *each.second;
    if (source.thread.joinable()) source.thread.join();
    if (source.comm != nullptr) coll_comm_destroy(source.comm);
    source.comm = nullptr;
  }
}

}  // namespace coll_torch
