/*
 * Making something with the first call that needs it.
 */
#ifndef COLL_TORCH_ATTEMPT_H
#define COLL_TORCH_ATTEMPT_H

#include <exception>

namespace coll_torch {

/* An attempt that is made once: if it fails, every later run() throws its exception again. Used by
 * one thread at a time. */
class OneAttempt {
 public:
  template <typename Function>
  void run(Function &&function) {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    try {
      function();
    } catch (...) {
      failure_ = std::current_exception();
      throw;
    }
  }

 private:
  std::exception_ptr failure_;
};

}  // namespace coll_torch

#endif
