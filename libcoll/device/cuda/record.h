/*
 * What a rank's kernel tells the host while it runs: plain data in memory of the host that the GPU
 * can write (gpu_rank_t.record). Results of calls do not depend on it.
 */
#ifndef DEVICE_CUDA_RECORD_H
#define DEVICE_CUDA_RECORD_H

#include "device/cuda/gpu.h"

/* Values of a rank's `failed` word. The report is written before the word. */
enum {
  GPU_FAILED_ABORTED = 1, /* the abort word was set */
  GPU_FAILED_MISMATCH = 2 /* a peer makes another call: gpu_record_t.mismatch */
};

/* What must be the same on all ranks of a call: the words of a flight_call_t, without number and
 * history, and where INPUT and OUTPUT are in windows (gpu/places.h). */
typedef struct gpu_words {
  uint64_t what, count;
  uint64_t places[2];
} gpu_words_t;

/* A collective of a rank. Peers read it at any time: it is valid if `check` fits the rest. */
typedef struct gpu_entry {
  uint64_t number; /* on the communicator, from 0; counts calls that have an identity */
  gpu_words_t words;
  uint64_t check; /* 0: none */
  uint64_t unused[2];
} gpu_entry_t;

/* Two calls that do not match. The entries are the first calls in which the two ranks differ, as
 * far as they keep them. If they do not differ, the blocks of an alltoallv or the bytes of a send
 * and its receive do. An entry whose check is 0 is unknown: of a send or receive, of a call too
 * long ago, or of a peer that made no such call. */
typedef struct gpu_mismatch {
  uint32_t peer;
  uint32_t is_found;                /* 1 if this was written */
  uint64_t own_digest, peer_digest; /* 0 in both if no message or signal was compared */
  gpu_entry_t own, theirs;
} gpu_mismatch_t;

/*
 * Every word has one writer at a time, and is written as a whole; words do not change together. A
 * call that runs is `collective` if that is known and its number is `collectives`, else it is sends
 * and receives.
 *
 * An array of words follows, of gpu_record_bytes in all: what each block waits for. 0: nothing, or
 * not for long. Else the lower half is 1 + the peer, and the upper half how often the block has
 * polled, in GPU_LONG_INTERVAL. The words of a call that failed stay.
 */
typedef struct gpu_record {
  gpu_mismatch_t mismatch; /* written by the block that fails first */
  uint64_t begun, ended;   /* launches; those that failed have not ended */
  uint64_t collectives;    /* that have ended */
  gpu_entry_t collective;  /* the latest that has begun */
} gpu_record_t;

GPU_FUNCTION uint64_t *gpu_record_waits(gpu_record_t *record) {
  return (uint64_t *)(void *)(record + 1);
}

#endif
