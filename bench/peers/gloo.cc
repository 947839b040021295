/* Describes Gloo, with its TCP transport on the loopback interface, for peers_measure. The
 * rendezvous uses RANK and WORLD_SIZE, as collrun sets them, and the folder in GLOO_STORE.
 * GLOO_ALGORITHM selects ring or bcube for allreduce; unset: Gloo chooses. */
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "bench/peers/measure.h"

namespace {

using Context = std::shared_ptr<gloo::rendezvous::Context>;

/* The context of all functions of peers_library_t. */
struct Peer {
  Context context;
  gloo::AllreduceOptions::Algorithm algorithm;
};

using Sum = void (*)(void *, const void *, const void *, size_t);

Sum sum_of_floats() {
  return &gloo::sum<float>;
}

void max_of_doubles(void *out, const void *left, const void *right, size_t count) {
  for (size_t i = 0; i < count; i++) {
    static_cast<double *>(out)[i] =
        std::max(static_cast<const double *>(left)[i], static_cast<const double *>(right)[i]);
  }
}

void allreduce(const Peer &peer, float *in, float *out, size_t count) {
  gloo::AllreduceOptions options(peer.context);
  options.setInput(in, count);
  options.setOutput(out, count);
  options.setReduceFunction(sum_of_floats());
  options.setAlgorithm(peer.algorithm);
  gloo::allreduce(options);
}

void reduce(const Peer &peer, float *in, float *out, size_t count, int root) {
  gloo::ReduceOptions options(peer.context);
  options.setInput(in, count);
  options.setOutput(out, count);
  options.setReduceFunction(sum_of_floats());
  options.setRoot(root);
  gloo::reduce(options);
}

void broadcast(const Peer &peer, float *in, float *out, size_t count, int root) {
  gloo::BroadcastOptions options(peer.context);
  if (peer.context->rank == root) options.setInput(in, count);
  options.setOutput(out, count);
  options.setRoot(root);
  gloo::broadcast(options);
}

void allgather(const Peer &peer, float *in, float *out, size_t count) {
  gloo::AllgatherOptions options(peer.context);
  options.setInput(in, count);
  options.setOutput(out, count * static_cast<size_t>(peer.context->size));
  gloo::allgather(options);
}

void alltoall(const Peer &peer, float *in, float *out, size_t count) {
  size_t all = count * static_cast<size_t>(peer.context->size);
  gloo::AlltoallOptions options(peer.context);
  options.setInput(in, all);
  options.setOutput(out, all);
  gloo::alltoall(options);
}

void gather(const Peer &peer, float *in, float *out, size_t count, int root) {
  gloo::GatherOptions options(peer.context);
  options.setInput(in, count);
  if (peer.context->rank == root) {
    options.setOutput(out, count * static_cast<size_t>(peer.context->size));
  }
  options.setRoot(root);
  gloo::gather(options);
}

void scatter(const Peer &peer, float *in, float *out, size_t count, int root) {
  gloo::ScatterOptions options(peer.context);
  if (peer.context->rank == root) {
    std::vector<float *> blocks;
    for (int i = 0; i < peer.context->size; i++) {
      blocks.push_back(in + static_cast<size_t>(i) * count);
    }
    options.setInputs(blocks, count);
  }
  options.setOutput(out, count);
  options.setRoot(root);
  gloo::scatter(options);
}

void barrier(const Peer &peer) {
  gloo::BarrierOptions options(peer.context);
  gloo::barrier(options);
}

/* Runs Gloo's code; returns the text of an exception, or NULL. */
template <typename Work>
const char *error_text(Work work) {
  static std::string text;
  try {
    work();
    return nullptr;
  } catch (const std::exception &exception) {
    text = exception.what();
    return text.c_str();
  }
}

bool supports(void *, coll_collective_t collective) {
  switch (collective) {
    case COLL_REDUCE_SCATTER: /* Gloo has it only in place, for buffers bound beforehand */
    case COLL_ALLTOALLV:
    case COLL_SENDRECV: return false;
    default: return true;
  }
}

const char *call(void *context, const peers_call_t *call, const void *send, void *recv) {
  const Peer &peer = *static_cast<Peer *>(context);
  auto in = static_cast<float *>(const_cast<void *>(send));
  auto out = static_cast<float *>(recv);
  size_t count = call->count;
  int root = call->root;
  return error_text([&] {
    switch (call->collective) {
      case COLL_ALLREDUCE: return allreduce(peer, in, out, count);
      case COLL_REDUCE: return reduce(peer, in, out, count, root);
      case COLL_ALLGATHER: return allgather(peer, in, out, count);
      case COLL_BROADCAST: return broadcast(peer, in, out, count, root);
      case COLL_GATHER: return gather(peer, in, out, count, root);
      case COLL_SCATTER: return scatter(peer, in, out, count, root);
      case COLL_ALLTOALL: return alltoall(peer, in, out, count);
      default: return barrier(peer);
    }
  });
}

const char *library_barrier(void *context) {
  return error_text([&] { barrier(*static_cast<Peer *>(context)); });
}

const char *library_max(void *context, double *values, int count) {
  return error_text([&] {
    gloo::AllreduceOptions options(static_cast<Peer *>(context)->context);
    options.setOutput(values, static_cast<size_t>(count));
    options.setReduceFunction(max_of_doubles);
    gloo::allreduce(options);
  });
}

Context connect(int rank, int ranks, const char *folder) {
  gloo::transport::tcp::attr address;
  address.iface = "lo";
  auto device = gloo::transport::tcp::CreateDevice(address);
  gloo::rendezvous::FileStore store(folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->connectFullMesh(store, device);
  return context;
}

gloo::AllreduceOptions::Algorithm algorithm_of(const char *name) {
  std::string word = name != nullptr ? name : "";
  if (word == "ring") return gloo::AllreduceOptions::Algorithm::RING;
  if (word == "bcube") return gloo::AllreduceOptions::Algorithm::BCUBE;
  return gloo::AllreduceOptions::Algorithm::UNSPECIFIED;
}

std::string version() {
  return "Gloo " + std::to_string(GLOO_VERSION_MAJOR) + "." + std::to_string(GLOO_VERSION_MINOR) +
         "." + std::to_string(GLOO_VERSION_PATCH);
}

}  // namespace

int main(int argc, char **argv) {
  const char *rank = std::getenv("RANK"), *ranks = std::getenv("WORLD_SIZE");
  const char *folder = std::getenv("GLOO_STORE");
  if (rank == nullptr || ranks == nullptr || folder == nullptr) {
    std::fputs("gloo: start this with collrun, and an empty folder in GLOO_STORE\n", stderr);
    return 2;
  }
  Peer peer = {nullptr, algorithm_of(std::getenv("GLOO_ALGORITHM"))};
  std::string name = version();
  peers_library_t library = {name.c_str(), std::stoi(rank), std::stoi(ranks), &peer, supports,
                             call,         library_barrier, library_max};
  if (const char *message =
          error_text([&] { peer.context = connect(library.rank, library.ranks, folder); })) {
    std::fprintf(stderr, "gloo, rank %s: %s\n", rank, message);
    return 1;
  }
  int code = peers_measure(argc, argv, &library);
  if (code == 0 && library_barrier(&peer) != nullptr) code = 1;
  return code;
}
