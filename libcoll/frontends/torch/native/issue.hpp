/*
 * What the files of collectives share: issuing a call, and groups of calls.
 */
#ifndef COLL_TORCH_ISSUE_H
#define COLL_TORCH_ISSUE_H

#include "backend.hpp"
#include "errors.hpp"
#include "pack.hpp"

namespace coll_torch {

/* Whether the caller goes on before the call has ended. Older options do not say: then it may. */
template <typename CallOptions>
auto is_async(const CallOptions &options, int) -> decltype(options.asyncOp) {
  return options.asyncOp;
}
template <typename CallOptions>
bool is_async(const CallOptions &, long) {
  return true;
}

template <typename CallOptions>
WorkPtr Backend::issue(c10d::OpType type, const char *title, const Tensors &inputs, Tensors outputs,
                       const CallOptions &options, Lane::Body body) {
  return issue(type, title, inputs, std::move(outputs), options.timeout, is_async(options, 0),
               std::move(body));
}

/* A group of coll.h, which ends also if a call of it throws. */
class Group {
 public:
  Group() {
    coll_group_start();
  }
  ~Group() {
    if (!has_ended_) coll_group_end();
  }
  /* Runs the calls of the group and waits for them. */
  void end(coll_comm_t comm, const char *what) {
    has_ended_ = true;
    check(coll_group_end(), comm, what);
  }

 private:
  bool has_ended_ = false;
};

/* Throws unless there are as many inputs as outputs, and at least one. */
inline void require_pairs(const Tensors &inputs, const Tensors &outputs, const char *verb) {
  TORCH_CHECK(!inputs.empty() && inputs.size() == outputs.size(), "coll: ", verb,
              " needs as many outputs as inputs, at least one");
}

/* One call for each pair of tensors, all in one group. call(i, from, to) makes the i-th on packed
 * tensors; an input that is its own output and contiguous is passed as both. */
template <typename Call>
void run_pairs(const Tensors &inputs, const Tensors &outputs, coll_comm_t comm, const char *verb,
               Call &&call) {
  Tensors froms, tos;
  for (size_t i = 0; i < inputs.size(); i++) {
    froms.push_back(packed(inputs[i]));
    tos.push_back(buffer_for(outputs[i]));
  }
  Group group;
  for (size_t i = 0; i < inputs.size(); i++) check(call(i, froms[i], tos[i]), comm, verb);
  group.end(comm, verb);
  for (size_t i = 0; i < inputs.size(); i++) unpack(tos[i], outputs[i]);
}

}  // namespace coll_torch

#endif
