/*
 * Rank 0 starts libcoll's rendezvous server and puts its address into the store; the others poll
 * for it. A poll is a question that the store answers at once. In the end rank 0 deletes the
 * address, also if the communicator could not be made: a later group of the same name must not
 * find it.
 */
#include "rendezvous.hpp"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "errors.hpp"

namespace coll_torch {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPauseMin = std::chrono::microseconds(100);
constexpr auto kPauseMax = std::chrono::microseconds(10000);
constexpr char kFailure = 'F'; /* the value is an error text of rank 0 */
constexpr char kAddress = 'A'; /* the value is a unique id */

template <typename Function>
auto with_store(const char *what, const std::string &key, Function &&function)
    -> decltype(function()) {
  try {
    return function();
  } catch (const std::exception &error) {
    std::string reason = error.what();
    throw_backend_error(std::string("coll: cannot ") + what + " \"" + key +
                        "\" in the job's store: its process (rank 0's, or torchrun's agent) may "
                        "have ended (" +
                        reason.substr(0, reason.find('\n')) + ")");
  }
}

int int_ms(Milliseconds limit, int without) {
  if (limit.count() <= 0) return without;
  return int(std::min<int64_t>(limit.count(), INT_MAX));
}

/* As torchrun says it. */
bool is_on_one_host() {
  const char *here = getenv("LOCAL_WORLD_SIZE"), *all = getenv("WORLD_SIZE");
  return here != nullptr && all != nullptr && strcmp(here, all) == 0;
}

void publish(c10d::Store &store, const std::string &key, coll_unique_id_t *id) {
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  if (is_on_one_host()) config.interfaces = "=lo";
  coll_status_t status = coll_unique_id_create(&config, id);
  if (status == COLL_OK) {
    store_set(store, key, kAddress + std::string(id->internal, sizeof id->internal));
    return;
  }
  std::string text = coll_last_error(nullptr);
  store_set(store, key, kFailure + text);
  throw_backend_error("coll: rank 0 cannot start the rendezvous: " + text);
}

void look_up(c10d::Store &store, const Rendezvous &how, coll_unique_id_t *id) {
  const std::string &key = how.key;
  if (!store_await(store, key, how.create_limit, how.check)) {
    throw_backend_error("coll: rank " + std::to_string(how.rank) + " of process group \"" +
                        how.group + "\": rank 0 did not create it within " +
                        std::to_string(how.create_limit.count()) +
                        " ms; check that it runs and creates the same process groups");
  }
  std::string value = store_get(store, key);
  if (!value.empty() && value[0] == kFailure) {
    throw_backend_error("coll: rank 0 cannot start the rendezvous: " + value.substr(1));
  }
  TORCH_CHECK(value.size() == 1 + sizeof id->internal && value[0] == kAddress,
              "coll: the value of \"", key,
              "\" in the job's store is not an address of libcoll's; "
              "all ranks need the same version of coll-torch");
  memcpy(id->internal, value.data() + 1, sizeof id->internal);
}

/* The communicator is made in the background, so that the wait can be ended. Destroys it before it
 * passes on what `check` throws. */
coll_status_t await_creation(coll_comm_t comm, const std::function<void()> &check) {
  auto pause = kPauseMin;
  for (;;) {
    coll_status_t status = coll_comm_error(comm);
    if (status != COLL_IN_PROGRESS) return status;
    try {
      if (check) check();
    } catch (...) {
      coll_comm_destroy(comm);
      throw;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kPauseMax);
  }
}

/* After a failure of its own, which the Store's must not replace. */
void delete_quietly(c10d::Store &store, const std::string &key) {
  try {
    store_delete(store, key);
  } catch (const std::exception &) {
  }
}

}  // namespace

bool store_has(c10d::Store &store, const std::string &key) {
  return with_store("look for", key, [&] { return store.check({key}); });
}

std::string store_get(c10d::Store &store, const std::string &key) {
  auto value = with_store("read", key, [&] { return store.get(key); });
  return std::string(value.begin(), value.end());
}

void store_set(c10d::Store &store, const std::string &key, const std::string &value) {
  std::vector<uint8_t> bytes(value.begin(), value.end());
  with_store("write", key, [&] { store.set(key, bytes); });
}

void store_delete(c10d::Store &store, const std::string &key) {
  with_store("delete", key, [&] { return store.deleteKey(key); });
}

bool store_await(c10d::Store &store, const std::string &key, Milliseconds limit,
                 const std::function<void()> &check) {
  auto deadline = Clock::now() + limit;
  auto pause = kPauseMin;
  while (!store_has(store, key)) {
    if (limit.count() > 0 && Clock::now() >= deadline) return false;
    if (check) check();
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kPauseMax);
  }
  return true;
}

static coll_comm_t create(const coll_unique_id_t &id, const Rendezvous &how) {
  coll_comm_t comm = nullptr;
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  config.create_timeout_ms = int_ms(how.create_limit, INT_MAX);
  config.call_timeout_ms = int_ms(how.call_limit, -1);
  config.hang_ms = how.call_limit.count() > 0 ? 0 : -1;
  config.blocking = 0;
  coll_status_t status = coll_comm_create(&id, how.rank, how.size, &config, &comm);
  if (status == COLL_IN_PROGRESS) status = await_creation(comm, how.check);
  if (status != COLL_OK) {
    std::string text = coll_last_error(nullptr);
    if (comm != nullptr) coll_comm_destroy(comm);
    throw_backend_error("coll: process group \"" + how.group + "\" cannot be made: " + text);
  }
  return comm;
}

/* A number that all ranks have from the id, which only they may know. */
static std::string token_of(const coll_unique_id_t &id) {
  std::hash<std::string> hash;
  return std::to_string(hash(std::string(id.internal, sizeof id.internal)));
}

coll_comm_t rendezvous(c10d::Store &store, const Rendezvous &how, std::string *token) {
  coll_unique_id_t id;
  coll_comm_t comm;
  if (how.rank == 0) {
    publish(store, how.key, &id);
  } else {
    look_up(store, how, &id);
  }
  if (token != nullptr) *token = token_of(id);
  try {
    comm = create(id, how);
  } catch (...) {
    if (how.rank == 0) delete_quietly(store, how.key);
    throw;
  }
  /* All ranks have read it. */
  if (how.rank == 0) store_delete(store, how.key);
  return comm;
}

}  // namespace coll_torch
