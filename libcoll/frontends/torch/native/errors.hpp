/*
 * Errors of libcoll as exceptions of PyTorch.
 */
#ifndef COLL_TORCH_ERRORS_H
#define COLL_TORCH_ERRORS_H

#include <string>

#include <coll.h>
#include "c10d.hpp"

namespace coll_torch {

/* Throws libcoll's own text if the status is an error. `what` is the call, as "allreduce". Programs
 * recognize a timeout by these words, which Gloo uses. */
inline void check(coll_status_t status, coll_comm_t comm, const char *what) {
  if (status == COLL_OK) return;
  const char *kind = status == COLL_ERROR_TIMEOUT ? "Timed out waiting for other ranks: " : "";
  throw_backend_error(std::string("coll: ") + what + ": " + kind + coll_last_error(comm));
}

}  // namespace coll_torch

#endif
