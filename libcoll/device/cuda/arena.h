/*
 * The memory of a rank that its peers access: rings of messages, flags, and SCRATCH. All ranks of a
 * communicator lay out their arenas alike, so the address of anything in a peer's arena follows
 * from the arena's address. An arena starts zeroed and is never cleared: flags only count up, over
 * all calls.
 *
 * Messages from one rank to another are in one ring per (channel, slice), in the receiver's arena.
 * How many slices a call has depends on the call, and rings are numbered over both, so a ring may
 * be of another channel and slice in the next call: all that a call puts into it, it takes out.
 * The sender waits on `taken`, in its own arena, until a slot is free, writes the message, and
 * stores the number of messages so far to `sent`, in the receiver's arena. The receiver waits on
 * that and stores to `taken` when it has copied the message. So each side polls its own memory.
 * Signals are numbers alike, without data. Each kind of flag has a line of its own and one writer.
 *
 * A flag of messages or signals is a count in the lower 40 bits, modulo 2^40, and a digest of the
 * call in the upper 24. Number n is stored to word n % GPU_FLAGS, so it is still there when the
 * peer looks for it, unless the sender is GPU_FLAGS numbers ahead. That cannot be with messages,
 * for rings of at most GPU_FLAGS slots; a signal that was overwritten counts as one that matches.
 * `taken` and progress are plain 64-bit counts.
 *
 * Arrivals (enter.h) are flags of the same kind, in a line for each peer and slice, apart from
 * those of signals.
 */
#ifndef DEVICE_CUDA_ARENA_H
#define DEVICE_CUDA_ARENA_H

#include "device/cuda/record.h"

#define GPU_FLAGS 16      /* words of a flag: one line */
#define GPU_ENTRIES 16    /* collectives that a rank keeps for its peers */
#define GPU_COUNT_BITS 40 /* of a flag with a digest */
#define GPU_COUNT_MASK ((UINT64_C(1) << GPU_COUNT_BITS) - 1)

/* The same on all ranks. */
typedef struct gpu_room {
  int32_t size;         /* ranks */
  int32_t channels;     /* of messages; also lanes */
  int32_t slices;       /* at most, of a call */
  int32_t rings;        /* between two ranks: at most so many channels times slices has a call */
  int32_t depth;        /* slots of a ring, a power of two */
  size_t slot_bytes;    /* a multiple of GPU_LINE */
  size_t scratch_bytes; /* of all slices of a call together; a multiple of GPU_LINE */
  size_t ll_slot_bytes; /* of a slot for messages of flagged words (ll.h), half of which is data; a
                           multiple of GPU_LINE. 0: there are none */
  size_t ll128_slot_bytes; /* the same for messages of flagged lines (ll128.h) */
} gpu_room_t;

/* Protocols whose messages carry their flags (flagged.h). */
typedef enum gpu_flagged {
  GPU_FLAGGED_WORDS, /* ll.h */
  GPU_FLAGGED_LINES, /* ll128.h */
  GPU_FLAGGED_KINDS
} gpu_flagged_t;

/* A count with a line of its own. */
typedef struct gpu_count {
  uint64_t count;
  char pad[GPU_LINE - sizeof(uint64_t)];
} gpu_count_t;

/* The owner's own counters of messages of one protocol. */
typedef struct gpu_own {
  uint64_t sent, taken;
  uint64_t seen; /* what the peer had taken when the owner last waited for it */
} gpu_own_t;

/* A ring between the arena's owner and one peer. */
typedef struct gpu_fifo {
  /* written by the peer */
  uint64_t sent[GPU_FLAGS]; /* messages of the peer to the owner */
  uint64_t taken;           /* messages of the owner that the peer has copied */
  char pad_taken[GPU_LINE - sizeof(uint64_t)];
  uint64_t signals[GPU_FLAGS];                  /* of the peer to the owner */
  gpu_count_t flagged_taken[GPU_FLAGGED_KINDS]; /* as taken, of messages that carry their flags */
  /* the owner's own counters, of 64 bits */
  uint64_t own_sent, own_taken, own_signals, own_waits;
  uint64_t own_seen; /* as gpu_own_t.seen */
  gpu_own_t own_flagged[GPU_FLAGGED_KINDS];
  char pad_own[GPU_LINE - 5 * sizeof(uint64_t) - GPU_FLAGGED_KINDS * sizeof(gpu_own_t)];
} gpu_fifo_t;

/* That a peer has entered calls, in one slice. */
typedef struct gpu_arrivals {
  uint64_t flags[GPU_FLAGS];
} gpu_arrivals_t;

/* How far a lane of the owner has come in one slice (kernel.c). */
typedef struct gpu_progress {
  uint64_t steps;
  char pad[GPU_LINE - sizeof(uint64_t)];
} gpu_progress_t;

/* What the blocks of a launch leave for the next one. The last block that ends advances it. */
typedef struct gpu_counters {
  uint64_t calls;       /* that have ended */
  uint64_t base;        /* every gpu_progress_t.steps is at most this when a call starts */
  uint32_t ended;       /* blocks of the current launch */
  uint32_t failures;    /* blocks that ended early */
  uint64_t history;     /* digest of the collectives that have ended */
  uint64_t collectives; /* that have ended: calls that have an identity. Read by peers */
  uint64_t broken;      /* not 0: a launch has failed, and those behind it do nothing */
  char pad[GPU_LINE - 5 * sizeof(uint64_t) - 2 * sizeof(uint32_t)];
} gpu_counters_t;

/* The beginning of an arena. */
typedef struct gpu_head {
  gpu_counters_t counters;
  gpu_entry_t entries[GPU_ENTRIES]; /* the latest collectives; number n is in n % GPU_ENTRIES */
} gpu_head_t;

/* A rank, in its device's memory. */
typedef struct gpu_rank {
  gpu_room_t room;
  int32_t rank;
  const uint32_t *abort; /* not 0: all blocks end. In memory that the host can write */
  uint32_t *failed;      /* GPU_FAILED_..., set by the first block that ended early */
  char *const *arenas;   /* [size], as this device addresses them */
  gpu_record_t *record;  /* in memory that the host can read, zeroed; NULL: none */
} gpu_rank_t;

/* A digest of both values; their order matters. With the multiplications of SplitMix64. */
GPU_FUNCTION uint64_t gpu_mix(uint64_t digest, uint64_t value) {
  digest = (digest ^ value) * UINT64_C(0xbf58476d1ce4e5b9);
  digest = (digest ^ digest >> 31) * UINT64_C(0x94d049bb133111eb);
  return digest ^ digest >> 29;
}

/* Not 0. */
GPU_FUNCTION uint64_t gpu_words_digest(uint64_t digest, gpu_words_t words) {
  digest = gpu_mix(gpu_mix(digest, words.what), words.count);
  return gpu_mix(gpu_mix(digest, words.places[0]), words.places[1]) | 1;
}

GPU_FUNCTION size_t gpu_arena_fifos(const gpu_room_t *room) {
  return (size_t)room->size * (size_t)room->rings;
}

GPU_FUNCTION size_t gpu_arena_progress_at(const gpu_room_t *room) {
  return sizeof(gpu_head_t) + gpu_arena_fifos(room) * sizeof(gpu_fifo_t);
}

GPU_FUNCTION size_t gpu_arena_arrivals_at(const gpu_room_t *room) {
  return gpu_arena_progress_at(room) + (size_t)room->rings * sizeof(gpu_progress_t);
}

GPU_FUNCTION size_t gpu_arena_scratch_at(const gpu_room_t *room) {
  size_t arrivals = (size_t)room->slices * ((size_t)room->size + 1);
  return gpu_arena_arrivals_at(room) + arrivals * sizeof(gpu_arrivals_t);
}

GPU_FUNCTION size_t gpu_arena_slots_at(const gpu_room_t *room) {
  return gpu_arena_scratch_at(room) + room->scratch_bytes;
}

GPU_FUNCTION size_t gpu_flagged_slot_bytes(const gpu_room_t *room, gpu_flagged_t kind) {
  return kind == GPU_FLAGGED_WORDS ? room->ll_slot_bytes : room->ll128_slot_bytes;
}

/* The slots for messages that carry their flags are behind the others, kind by kind. */
GPU_FUNCTION size_t gpu_arena_flagged_at(const gpu_room_t *room, gpu_flagged_t kind) {
  size_t slots = gpu_arena_fifos(room) * (size_t)room->depth;
  size_t bytes = room->slot_bytes;
  for (int k = 0; k < (int)kind; k++) bytes += gpu_flagged_slot_bytes(room, (gpu_flagged_t)k);
  return gpu_arena_slots_at(room) + slots * bytes;
}

/* Bytes of an arena, which is aligned to GPU_LINE. */
GPU_FUNCTION size_t gpu_arena_bytes(const gpu_room_t *room) {
  return gpu_arena_flagged_at(room, GPU_FLAGGED_KINDS);
}

/* Lanes that a rank's record has words for: all of a plan, and all of an exchange (exchange.h),
 * which has one for each direction of each peer and one more. */
GPU_FUNCTION size_t gpu_record_lanes(const gpu_room_t *room) {
  size_t exchange = 2 * (size_t)room->size, plan = (size_t)room->channels;
  return exchange > plan ? exchange : plan;
}

/* Bytes of a rank's record. */
GPU_FUNCTION size_t gpu_record_bytes(const gpu_room_t *room) {
  size_t blocks = gpu_record_lanes(room) * (size_t)room->slices;
  return sizeof(gpu_record_t) + blocks * sizeof(uint64_t);
}

GPU_FUNCTION gpu_counters_t *gpu_arena_counters(char *arena) {
  return &((gpu_head_t *)(void *)arena)->counters;
}

/* Where the arena's owner keeps its collective of that number. */
GPU_FUNCTION gpu_entry_t *gpu_arena_entry(char *arena, uint64_t number) {
  return &((gpu_head_t *)(void *)arena)->entries[number % GPU_ENTRIES];
}

/* The ring of a channel, or the progress word of a lane, in a call of so many slices. */
GPU_FUNCTION int32_t gpu_ring(int32_t channel, int32_t slice, int32_t slices) {
  return channel * slices + slice;
}

GPU_FUNCTION size_t gpu_arena_fifo_index(const gpu_room_t *room, int32_t peer, int32_t ring) {
  return (size_t)peer * (size_t)room->rings + (size_t)ring;
}

/* Between the arena's owner and `peer`. */
GPU_FUNCTION gpu_fifo_t *gpu_arena_fifo(const gpu_room_t *room, char *arena, int32_t peer,
                                        int32_t ring) {
  gpu_fifo_t *fifos = (gpu_fifo_t *)(void *)(arena + sizeof(gpu_head_t));
  return &fifos[gpu_arena_fifo_index(room, peer, ring)];
}

/* Index of the slot of message number `number` of `peer` to the arena's owner. */
GPU_FUNCTION size_t gpu_arena_slot_index(const gpu_room_t *room, int32_t peer, int32_t ring,
                                         uint64_t number) {
  size_t index = gpu_arena_fifo_index(room, peer, ring);
  return index * (size_t)room->depth + (size_t)(number & (uint64_t)(room->depth - 1));
}

GPU_FUNCTION char *gpu_arena_slot(const gpu_room_t *room, char *arena, int32_t peer, int32_t ring,
                                  uint64_t number) {
  size_t slot = gpu_arena_slot_index(room, peer, ring, number);
  return arena + gpu_arena_slots_at(room) + slot * room->slot_bytes;
}

/* The same for messages that carry their flags, which are numbered apart. */
GPU_FUNCTION uint64_t *gpu_arena_flagged_slot(const gpu_room_t *room, char *arena,
                                              gpu_flagged_t kind, int32_t peer, int32_t ring,
                                              uint64_t number) {
  size_t slot = gpu_arena_slot_index(room, peer, ring, number);
  char *slots = arena + gpu_arena_flagged_at(room, kind);
  return (uint64_t *)(void *)(slots + slot * gpu_flagged_slot_bytes(room, kind));
}

GPU_FUNCTION uint64_t *gpu_arena_progress(const gpu_room_t *room, char *arena, int32_t ring) {
  gpu_progress_t *all = (gpu_progress_t *)(void *)(arena + gpu_arena_progress_at(room));
  return &all[ring].steps;
}

/* Flags of the peer's arrivals: [GPU_FLAGS], written by the peer. */
GPU_FUNCTION uint64_t *gpu_arena_arrivals(const gpu_room_t *room, char *arena, int32_t peer,
                                          int32_t slice) {
  gpu_arrivals_t *all = (gpu_arrivals_t *)(void *)(arena + gpu_arena_arrivals_at(room));
  return all[(size_t)slice * ((size_t)room->size + 1) + (size_t)peer].flags;
}

/* How often the owner has arrived in the slice: the line behind those of its peers. */
GPU_FUNCTION uint64_t *gpu_arena_own_arrivals(const gpu_room_t *room, char *arena, int32_t slice) {
  return gpu_arena_arrivals(room, arena, room->size, slice);
}

/* Bytes of SCRATCH of each slice of a call. */
GPU_FUNCTION size_t gpu_scratch_bytes(const gpu_room_t *room, int32_t slices) {
  return room->scratch_bytes / (size_t)slices / GPU_LINE * GPU_LINE;
}

GPU_FUNCTION char *gpu_arena_scratch(const gpu_room_t *room, char *arena, int32_t slice,
                                     int32_t slices) {
  return arena + gpu_arena_scratch_at(room) + (size_t)slice * gpu_scratch_bytes(room, slices);
}

#endif
