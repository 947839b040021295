/*
 * The memory of a rank that its peers access: rings of messages, flags, and SCRATCH. All ranks of a
 * communicator lay out their arenas alike, so the address of anything in a peer's arena follows
 * from the arena's address. An arena starts zeroed and is never cleared: flags only count up, over
 * all calls.
 *
 * Messages from one rank to another are in one ring per (channel, slice), in the receiver's arena.
 * The sender waits on `taken`, in its own arena, until a slot is free, writes the message, and
 * stores the number of messages so far to `sent`, in the receiver's arena. The receiver waits on
 * that and stores to `taken` when it has copied the message. So each side polls its own memory.
 * Signals are numbers alike, without data. Each flag has a line of its own and one writer.
 */
#ifndef DEVICE_CUDA_ARENA_H
#define DEVICE_CUDA_ARENA_H

#include "device/cuda/gpu.h"

/* The same on all ranks. */
typedef struct gpu_room {
  int32_t size;         /* ranks */
  int32_t channels;     /* of messages; also lanes */
  int32_t slices;       /* at most, of a call */
  int32_t depth;        /* slots of a ring */
  size_t slot_bytes;    /* a multiple of GPU_LINE */
  size_t scratch_bytes; /* of each slice; a multiple of GPU_LINE */
} gpu_room_t;

/* Between the arena's owner and one peer, on one channel in one slice. */
typedef struct gpu_fifo {
  /* written by the peer */
  uint64_t sent; /* messages of the peer to the owner */
  char pad_sent[GPU_LINE - sizeof(uint64_t)];
  uint64_t taken; /* messages of the owner that the peer has copied */
  char pad_taken[GPU_LINE - sizeof(uint64_t)];
  uint64_t signals; /* of the peer to the owner */
  char pad_signals[GPU_LINE - sizeof(uint64_t)];
  /* the owner's own counters */
  uint64_t own_sent, own_taken, own_signals, own_waits;
  char pad_own[GPU_LINE - 4 * sizeof(uint64_t)];
} gpu_fifo_t;

/* How far a lane of the owner has come in one slice (kernel.c). */
typedef struct gpu_progress {
  uint64_t steps;
  char pad[GPU_LINE - sizeof(uint64_t)];
} gpu_progress_t;

/* What the blocks of a launch leave for the next one. The last block that ends advances it. */
typedef struct gpu_counters {
  uint64_t calls; /* that have ended */
  uint64_t base;  /* every gpu_progress_t.steps is at most this when a call starts */
  uint32_t ended; /* blocks of the current launch */
  char pad[GPU_LINE - 2 * sizeof(uint64_t) - sizeof(uint32_t)];
} gpu_counters_t;

/* A rank, in its device's memory. */
typedef struct gpu_rank {
  gpu_room_t room;
  int32_t rank;
  const uint32_t *abort; /* not 0: all blocks end. In memory that the host can write */
  uint32_t *failed;      /* set to 1 by a block that ended so */
  char *const *arenas;   /* [size], as this device addresses them */
} gpu_rank_t;

GPU_FUNCTION size_t gpu_arena_fifos(const gpu_room_t *room) {
  return (size_t)room->size * (size_t)room->channels * (size_t)room->slices;
}

GPU_FUNCTION size_t gpu_arena_progress_at(const gpu_room_t *room) {
  return sizeof(gpu_counters_t) + gpu_arena_fifos(room) * sizeof(gpu_fifo_t);
}

GPU_FUNCTION size_t gpu_arena_scratch_at(const gpu_room_t *room) {
  size_t lanes = (size_t)room->channels * (size_t)room->slices;
  return gpu_arena_progress_at(room) + lanes * sizeof(gpu_progress_t);
}

GPU_FUNCTION size_t gpu_arena_slots_at(const gpu_room_t *room) {
  return gpu_arena_scratch_at(room) + (size_t)room->slices * room->scratch_bytes;
}

/* Bytes of an arena, which is aligned to GPU_LINE. */
GPU_FUNCTION size_t gpu_arena_bytes(const gpu_room_t *room) {
  size_t ring = (size_t)room->depth * room->slot_bytes;
  return gpu_arena_slots_at(room) + gpu_arena_fifos(room) * ring;
}

GPU_FUNCTION gpu_counters_t *gpu_arena_counters(char *arena) {
  return (gpu_counters_t *)(void *)arena;
}

GPU_FUNCTION size_t gpu_arena_fifo_index(const gpu_room_t *room, int32_t peer, int32_t channel,
                                         int32_t slice) {
  size_t row = (size_t)peer * (size_t)room->channels + (size_t)channel;
  return row * (size_t)room->slices + (size_t)slice;
}

/* Between the arena's owner and `peer`. */
GPU_FUNCTION gpu_fifo_t *gpu_arena_fifo(const gpu_room_t *room, char *arena, int32_t peer,
                                        int32_t channel, int32_t slice) {
  gpu_fifo_t *fifos = (gpu_fifo_t *)(void *)(arena + sizeof(gpu_counters_t));
  return &fifos[gpu_arena_fifo_index(room, peer, channel, slice)];
}

/* The slot of message number `number` of `peer` to the arena's owner. */
GPU_FUNCTION char *gpu_arena_slot(const gpu_room_t *room, char *arena, int32_t peer,
                                  int32_t channel, int32_t slice, uint64_t number) {
  size_t index = gpu_arena_fifo_index(room, peer, channel, slice);
  size_t slot = index * (size_t)room->depth + (size_t)(number % (uint64_t)room->depth);
  return arena + gpu_arena_slots_at(room) + slot * room->slot_bytes;
}

GPU_FUNCTION uint64_t *gpu_arena_progress(const gpu_room_t *room, char *arena, int32_t lane,
                                          int32_t slice) {
  gpu_progress_t *all = (gpu_progress_t *)(void *)(arena + gpu_arena_progress_at(room));
  return &all[(size_t)lane * (size_t)room->slices + (size_t)slice].steps;
}

GPU_FUNCTION char *gpu_arena_scratch(const gpu_room_t *room, char *arena, int32_t slice) {
  return arena + gpu_arena_scratch_at(room) + (size_t)slice * room->scratch_bytes;
}

#endif
