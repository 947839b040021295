/*
 * The monitored barrier. It needs no communicator, so it works where that no longer does: every
 * rank writes a key to the store, and rank 0 tells all which of them are missing.
 */
#include "backend.hpp"
#include "errors.hpp"
#include "rendezvous.hpp"

namespace coll_torch {

namespace {

using Clock = std::chrono::steady_clock;

std::string missing_text(const std::vector<int> &missing, bool all, Milliseconds limit) {
  std::string ranks = std::to_string(missing[0]);
  bool several = all && missing.size() > 1;
  for (size_t i = 1; several && i < missing.size(); i++) ranks += ", " + std::to_string(missing[i]);
  return std::string(several ? "Ranks " : "Rank ") + ranks +
         " failed to pass monitoredBarrier in " + std::to_string(limit.count()) + " ms";
}

}  // namespace

/* Waits for all ranks, and writes the verdict to the store: empty if all arrived in time, else the
 * error text, which names those that are missing. */
static std::string oversee(c10d::Store &store, const std::string &key, int size, Milliseconds limit,
                           bool wait_all_ranks) {
  auto deadline = Clock::now() + limit;
  std::vector<int> missing;
  for (int rank = 1; rank < size; rank++) {
    auto left = std::chrono::duration_cast<Milliseconds>(deadline - Clock::now());
    std::string own = key + std::to_string(rank);
    bool has_arrived = store_await(store, own, std::max(left, Milliseconds(1)));
    if (has_arrived) store_delete(store, own);
    if (!has_arrived) missing.push_back(rank);
  }
  std::string text = missing.empty() ? "" : missing_text(missing, wait_all_ranks, limit);
  store_set(store, key + "verdict", "=" + text);
  return text;
}

void Backend::monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all_ranks) {
  require_process(process_); /* it has the parent's connection to the store */
  /* With the token, what an earlier group of the same name has left in the store is not found. */
  std::string prefix = "coll/monitored/" + token_ + "/";
  std::string key = prefix + std::to_string(++monitored_) + "/";
  std::string old = prefix + std::to_string(monitored_ - 1) + "/verdict";
  Milliseconds limit = options.timeout == c10d::kUnsetTimeout ? timeout_ : options.timeout;
  if (rank_ == 0) {
    if (limit.count() <= 0) throw_backend_error("coll: Rank 0 timed out in monitoredBarrier");
    std::string text = oversee(*store_, key, size_, limit, wait_all_ranks);
    if (monitored_ > 1) store_delete(*store_, old);
    if (!text.empty()) throw_backend_error("coll: " + text);
    return;
  }
  std::string wrong = "coll: Rank " + std::to_string(rank_) +
                      " successfully reached monitoredBarrier, but received errors while waiting "
                      "for send/recv from rank 0: ";
  store_set(*store_, key + std::to_string(rank_), "1");
  /* Rank 0 may have arrived later than this rank, and waits up to the limit, too. */
  if (!store_await(*store_, key + "verdict", std::max(2 * limit, Milliseconds(1)))) {
    throw_backend_error(wrong + "it did not arrive within " + std::to_string(2 * limit.count()) +
                        " ms");
  }
  std::string verdict = store_get(*store_, key + "verdict").substr(1);
  if (!verdict.empty()) throw_backend_error(wrong + verdict);
}

}  // namespace coll_torch
