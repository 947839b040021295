/*
 * Windows: memory that all ranks of a communicator have made accessible to each other together, so
 * that a call on a CUDA stream needs no exchange of addresses. A buffer at an offset of a window on
 * one rank is at the same offset on all.
 */
#ifndef OFFLOAD_WINDOW_H
#define OFFLOAD_WINDOW_H

#include "comm/comm.h"
#include "device/cuda/share.h"

/* The number of tags of windows (base/fork.h); those of communicators and streams are others. */
#define OFFLOAD_WINDOW 140

struct coll_window {
  base_handle_tag_t tag;
  struct coll_comm *comm;
  char *ptr; /* this rank's part */
  size_t bytes;
  int device; /* whose memory it is; CUDA_NO_DEVICE: of the host, and nothing is mapped */
  /* [size]: where this process, and this rank's GPU, find the part of each rank. NULL: the rank is
   * on another host, or the GPUs of two ranks cannot map each other's memory, or, with
   * memory of the host, it is in another process. */
  char **parts;
  size_t *part_bytes;       /* [size] */
  cuda_mapping_t *mappings; /* [size] */
  uint64_t number;          /* of the window on the communicator, the same on all ranks */
  cuda_ptr_t uploaded;      /* parts, in memory of the GPU; 0: not yet. For the holder of the
                               communicator's lock */
  struct coll_window *next; /* of the communicator */
};

/* Collective. Maps the parts of all ranks of this host, or none if a GPU cannot access the memory
 * of another's, and then calls do not use the window. If one rank fails, all fail; the communicator
 * stays usable unless a rank is lost. *window belongs to the communicator until
 * offload_window_destroy. COLL_ERROR_INVALID: memory of the host on one rank and of a GPU on
 * another. COLL_ERROR_UNSUPPORTED: the memory of a rank cannot be shared. */
coll_status_t offload_window_create(struct coll_comm *comm, void *ptr, size_t bytes,
                                    struct coll_window **window);

/* COLL_ERROR_INVALID unless it is a window of this process. *inherited: it is one of a process from
 * which this one was forked, which is no error. */
coll_status_t offload_window_check(const struct coll_window *window, bool *inherited);

/* Not collective: unmaps the peers' parts. The text of a failure is that of the driver. */
coll_status_t offload_window_destroy(struct coll_window *window);

/* The window of the communicator that has all of [ptr, ptr + bytes) in this rank's part, and where;
 * NULL: none. Valid until it is destroyed. */
struct coll_window *offload_window_find(struct coll_comm *comm, const void *ptr, size_t bytes,
                                        size_t *offset);

/* Destroys those that are left. */
void offload_windows_free(struct coll_comm *comm);

#endif
