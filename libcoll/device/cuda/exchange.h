/*
 * A group of sends and receives as one program: they progress together, so they cannot deadlock
 * each other.
 *
 * The two ends of a message know only their own groups, which may differ. So all messages from one
 * rank to another take one ring (channel 0), in the order of their calls; each is cut by its own
 * size, into slices and windows whose number and size are the same for all exchanges of a
 * communicator; and a lane ends a message before it begins the next.
 */
#ifndef DEVICE_CUDA_EXCHANGE_H
#define DEVICE_CUDA_EXCHANGE_H

#include "base/status.h"
#include "device/cuda/arena.h"
#include "device/cuda/program.h"

/* A send or a receive. Those between two ranks match in the order in which each calls them. */
typedef struct gpu_transfer {
  int32_t peer; /* may be this rank; then a send and a receive of the group match */
  bool sends;
  void *address; /* device memory */
  size_t bytes;
} gpu_transfer_t;

/*
 * Makes the program of a group of `count` >= 1 transfers. Its blocks are the transfers: block i of
 * INPUT is transfer i if that sends, block i of OUTPUT if it receives, of type uint8, with the
 * sizes and the offsets that *counts and *offsets state ([2 * count] each: of input, then of
 * output), relative to address 0. Every direction of every peer has a lane, and copies within this
 * rank have one. All of *program and *counts (which *offsets follows in the same allocation)
 * belongs to the caller: free(). COLL_ERROR_INVALID: there is no such peer, or the group's sends to
 * this rank do not match its receives in number or bytes. COLL_ERROR_MEMORY. After a failure
 * nothing is returned.
 */
coll_status_t gpu_bind_exchange(int rank, int size, const gpu_transfer_t transfers[], int count,
                                gpu_program_t **program, size_t **counts, size_t **offsets);

/* The number of slices of all exchanges of a communicator: `wanted`, or as many as the room and
 * `resident` blocks (bind.h) allow for a group of all peers. The result must be the same on all
 * ranks, so the arguments must be. COLL_ERROR_UNSUPPORTED: not even one slice. */
coll_status_t gpu_exchange_slices(const gpu_room_t *room, uint32_t resident, int wanted,
                                  int *slices);

#endif
