/*
 * A lane runs the calls on one communicator in the order in which they were issued. A call that is
 * waited for at once runs in the calling thread if the lane is idle, which saves two switches of
 * threads; all others run in the lane's thread, which starts with the first of them.
 */
#ifndef COLL_TORCH_LANE_H
#define COLL_TORCH_LANE_H

#include <sys/types.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include <coll.h>
#include "attempt.hpp"
#include "c10d.hpp"
#include "work.hpp"

namespace coll_torch {

/* Throws unless this is the process in which the group was made: another one was forked from it,
 * and has neither its threads nor the right to its communicators. */
void require_process(pid_t process);

class Lane {
 public:
  /* On the stream, or to its end if it is null. */
  using Body = std::function<void(coll_comm_t, coll_stream_t)>;

  using Maker = std::function<coll_comm_t()>;

  /* Owns the communicator. */
  explicit Lane(coll_comm_t comm);
  /* The lane's thread makes the communicator before the first call, which fails, like all others,
   * with what `make` throws. */
  explicit Lane(Maker make);
  ~Lane();
  Lane(const Lane &) = delete;
  Lane &operator=(const Lane &) = delete;

  /* Runs `body` after all calls issued before, and completes the work with what it throws. */
  void issue(c10::intrusive_ptr<Work> work, Body body, bool may_run_here);

  /* Ends all calls with an error, on this rank and the others. Callable from any thread. */
  void abort();

  /* Whether the calling thread is in a callback of a call of this lane. */
  bool runs_here();

  /* Waits for the calls issued; false if some are not done after `limit`. */
  bool await_idle(Milliseconds limit);

  /* Waits for the calls issued, but no longer than `limit`, then aborts them. Frees the
   * communicator. */
  void close(Milliseconds limit);

  /* What each rank does, as a table of coll_comm_dump; empty if that is not known. */
  std::string describe();
  coll_status_t status();
  /* Whether the process of a rank of this machine has ended. */
  bool has_exited(int rank);

 private:
  struct Task {
    c10::intrusive_ptr<Work> work;
    Body body;
  };

  void run(Task &task);
  void run_busy(std::unique_lock<std::mutex> &lock, Task task);
  void run_up_to(std::unique_lock<std::mutex> &lock, Work &work);
  void make();
  void serve();

  coll_comm_t comm_ = nullptr;
  Maker make_;
  OneAttempt creation_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> queue_;
  bool is_busy_ = false;    /* a task runs, here or in the thread */
  std::thread::id runner_;  /* of the task that runs */
  bool is_closing_ = false; /* the thread ends when the queue is empty */
  bool is_closed_ = false;
  std::thread thread_;
  pid_t process_;
};

}  // namespace coll_torch

#endif
