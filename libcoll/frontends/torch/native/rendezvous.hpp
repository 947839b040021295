/*
 * How the ranks of a new communicator find each other: through the Store of the job.
 */
#ifndef COLL_TORCH_RENDEZVOUS_H
#define COLL_TORCH_RENDEZVOUS_H

#include <functional>

#include <coll.h>
#include "c10d.hpp"

namespace coll_torch {

/* How a communicator is made. */
struct Rendezvous {
  std::string key;   /* of the store, for this communicator alone */
  std::string group; /* the process group, for error texts */
  int rank, size;
  Milliseconds create_limit;   /* how long to wait for the other ranks; 0: without limit */
  Milliseconds call_limit;     /* how long each of its calls may take; 0: without limit */
  std::function<void()> check; /* called while waiting: throws to end the wait; may be empty */
};

/* Makes the communicator. Throws a sentence that names the ranks that are missing. Never waits
 * inside the store, which other threads may use meanwhile. *token (may be null) is a name for the
 * communicator, the same on all its ranks, which no other one has. */
coll_comm_t rendezvous(c10d::Store &store, const Rendezvous &how, std::string *token = nullptr);

/* Calls of the store whose exceptions say what it is and what its loss means. */
bool store_has(c10d::Store &store, const std::string &key);
std::string store_get(c10d::Store &store, const std::string &key);
void store_set(c10d::Store &store, const std::string &key, const std::string &value);
void store_delete(c10d::Store &store, const std::string &key);

/* Waits until the store has `key`; false if it has not after `limit` (0: none). Passes on what
 * `check` throws. */
bool store_await(c10d::Store &store, const std::string &key, Milliseconds limit,
                 const std::function<void()> &check = nullptr);

}  // namespace coll_torch

#endif
