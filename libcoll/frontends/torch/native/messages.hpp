/*
 * Sends and receives of a process group.
 *
 * c10d lets messages of different pairs of ranks, and those of one pair with different tags, pass
 * each other and the collectives. A communicator runs its calls in order. So each ordered pair of
 * ranks that has messages gets a communicator of two ranks, made with the first message, and a
 * thread at either end. A message is a header and the payload. The receiver matches headers with
 * the receives that were called, as MPI does: by source and tag, in order. A message whose receive
 * has not been called yet is kept in a buffer. Tensors of GPUs go through memory of the host: the
 * caller waits for its current stream.
 */
#ifndef COLL_TORCH_MESSAGES_H
#define COLL_TORCH_MESSAGES_H

#include <list>
#include <map>

#include "c10d.hpp"
#include "lane.hpp"

namespace coll_torch {

class Messages {
 public:
  /* has_exited(rank): whether that rank's process is known to have ended. */
  Messages(c10::intrusive_ptr<c10d::Store> store, std::string group, int rank, int size,
           std::function<bool(int)> has_exited);
  ~Messages();

  void send(c10::intrusive_ptr<Work> work, const at::Tensor &tensor, int peer, int tag);
  /* peer -1: a message of any rank. */
  void receive(c10::intrusive_ptr<Work> work, const at::Tensor &tensor, int peer, int tag);

  /* Whether the calling thread is in a callback of one of these sends or receives. */
  bool runs_here();

  /* Fails all sends and receives. Callable from any thread. */
  void abort();
  /* Waits for the sends called, at most `limit`, then ends all. What has been sent can still be
   * received. */
  void close(Milliseconds limit);

 private:
  struct Receive {
    c10::intrusive_ptr<Work> work;
    at::Tensor tensor;
    int tag;
    uint64_t number; /* in the order in which receives were called */
  };
  struct Arrival {
    at::Tensor bytes;
    int tag;
  };
  struct Header {
    int64_t tag;
    uint64_t bytes;
  };
  /* The receiving end of the messages of one rank. */
  struct Source {
    int peer;
    std::list<Receive> posted;
    std::list<Arrival> early;
    std::exception_ptr failure; /* for all receives from now on */
    coll_comm_t comm = nullptr;
    std::thread thread;
  };

  Lane &sender_to(int peer);
  Source &source_of(int peer);
  void listen(Source &source);
  void end_receives();
  bool take_early(Source &source, const Receive &receive);
  void receive_next(Source &source);
  bool match(Source &source, int tag, Receive *receive);
  void fail(Source &source, std::exception_ptr error);
  void deliver(const Receive &receive, const at::Tensor &bytes, int peer);
  void require_size(const Receive &receive, size_t bytes, int peer) const;
  bool all_failed() const;
  void fail_any(std::list<Receive> *receives, const std::string &reason);
  coll_comm_t connect(int from, int to, bool is_sender);
  void require_alive(int peer, std::chrono::steady_clock::time_point *next);
  std::string explain(int from, int to, const char *verb, coll_comm_t comm) const;

  c10::intrusive_ptr<c10d::Store> store_;
  std::string group_;
  int rank_, size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, std::unique_ptr<Lane>> senders_;
  std::map<int, std::unique_ptr<Source>> sources_;
  std::list<Receive> any_; /* receives from any source */
  uint64_t received_ = 0;  /* receives called until now */
  std::function<bool(int)> has_exited_;
  std::atomic<bool> is_ending_{false};
  pid_t process_;
};

}  // namespace coll_torch

#endif
