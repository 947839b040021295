/*
 * The queue of a lane and its thread.
 */
#include "lane.hpp"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <sstream>

#include "errors.hpp"

namespace coll_torch {

Lane::Lane(coll_comm_t comm) : comm_(comm), process_(getpid()) {
}

Lane::Lane(Maker make) : make_(std::move(make)), process_(getpid()) {
}

Lane::~Lane() {
  close(Milliseconds(10000));
}

void require_process(pid_t process) {
  if (process == getpid()) return;
  throw_backend_error("coll: process " + std::to_string(getpid()) + " was forked from process " +
                      std::to_string(process) +
                      ", which made the process group; a forked process must make its own, by "
                      "init_process_group after the fork");
}

void Lane::make() {
  creation_.run([this] {
    coll_comm_t comm = make_();
    std::lock_guard<std::mutex> lock(mutex_);
    comm_ = comm;
  });
}

void Lane::run(Task &task) {
  std::exception_ptr error;
  at::NoGradGuard no_grad;
  try {
    if (comm_ == nullptr) make();
    task.body(comm_, nullptr);
  } catch (...) {
    error = std::current_exception();
  }
  task.body = nullptr; /* releases the tensors before the waiting thread goes on */
  task.work->complete(error);
  task.work.reset();
}

void Lane::issue(c10::intrusive_ptr<Work> work, Body body, bool may_run_here) {
  require_process(process_);
  std::unique_lock<std::mutex> lock(mutex_);
  if (is_closing_) throw_backend_error("coll: the process group has been destroyed or shut down");
  Task task = {work, std::move(body)};
  if (may_run_here && comm_ != nullptr && queue_.empty() && !is_busy_) {
    run_busy(lock, std::move(task));
    return;
  }
  if (is_busy_ && runner_ == std::this_thread::get_id()) {
    queue_.push_back(std::move(task));
    run_up_to(lock, *work);
    return;
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
  queue_.push_back(std::move(task));
  changed_.notify_all();
}

void Lane::serve() {
  pthread_setname_np(pthread_self(), "coll-torch");
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(
        lock, [&] { return (!queue_.empty() && !is_busy_) || (is_closing_ && queue_.empty()); });
    if (queue_.empty()) return;
    Task task = std::move(queue_.front());
    queue_.pop_front();
    run_busy(lock, std::move(task));
  }
}

void Lane::run_busy(std::unique_lock<std::mutex> &lock, Task task) {
  is_busy_ = true;
  runner_ = std::this_thread::get_id();
  lock.unlock();
  run(task);
  lock.lock();
  is_busy_ = false;
  changed_.notify_all();
}

/* A callback of a future makes a call: it may wait for that call, and so keep this thread from
 * running it. */
void Lane::run_up_to(std::unique_lock<std::mutex> &lock, Work &work) {
  while (!work.isCompleted()) {
    Task task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    run(task);
    lock.lock();
  }
}

void Lane::abort() {
  if (process_ != getpid()) return; /* the mutex may be held by a thread of the parent */
  std::lock_guard<std::mutex> lock(mutex_);
  if (!is_closed_ && comm_ != nullptr) coll_comm_abort(comm_);
}

std::string Lane::describe() {
  if (process_ != getpid()) return ""; /* as in abort */
  std::lock_guard<std::mutex> lock(mutex_);
  char path[] = "/tmp/coll-torch-XXXXXX";
  if (comm_ == nullptr || is_closed_) return "";
  int file = mkstemp(path);
  if (file < 0) return "";
  ::close(file);
  coll_status_t status = coll_comm_dump(comm_, path);
  std::ifstream stream(path);
  std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  unlink(path);
  return status == COLL_OK ? text : "";
}

/* coll.h has this in its table of ranks only. This communicator is the first of the table. */
bool Lane::has_exited(int rank) {
  std::istringstream table(describe());
  std::string line, comm, number, process, state;
  while (std::getline(table, line)) {
    std::istringstream cells(line);
    cells >> comm >> number >> process >> state;
    if (comm == "1" && number == std::to_string(rank)) return state == "exited";
  }
  return false;
}

coll_status_t Lane::status() {
  if (process_ != getpid()) return COLL_OK;
  std::lock_guard<std::mutex> lock(mutex_);
  return comm_ == nullptr || is_closed_ ? COLL_OK : coll_comm_error(comm_);
}

bool Lane::runs_here() {
  std::lock_guard<std::mutex> lock(mutex_);
  return is_busy_ && runner_ == std::this_thread::get_id();
}

bool Lane::await_idle(Milliseconds limit) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, limit, [&] { return queue_.empty() && !is_busy_; });
}

void Lane::close(Milliseconds limit) {
  if (process_ != getpid()) return;
  std::unique_lock<std::mutex> lock(mutex_);
  if (is_closing_) return;
  is_closing_ = true;
  auto is_idle = [&] { return queue_.empty() && !is_busy_; };
  changed_.notify_all();
  if (!changed_.wait_for(lock, limit, is_idle)) {
    if (comm_ != nullptr) coll_comm_abort(comm_);
    changed_.wait(lock, is_idle);
  }
  is_closed_ = true;
  lock.unlock();
  if (thread_.joinable()) thread_.join();
  if (comm_ != nullptr) coll_comm_destroy(comm_);
  comm_ = nullptr;
}

}  // namespace coll_torch
