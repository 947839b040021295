/*
 * How long a flag takes from one multiprocessor to another: a thread on each of two passes a
 * message on as soon as it has it. Both mailboxes are in the memory of the GPU.
 */
#ifndef BENCH_GPU_MEMORY_FLAGS_CUH
#define BENCH_GPU_MEMORY_FLAGS_CUH

#include "bench/gpu_memory/device.cuh"

#define WARM_MESSAGES 16 /* before the clock starts: by then both threads run */

enum way {
  WAY_RELAXED, /* the flag alone */
  WAY_RELEASE, /* 8 bytes of data, then a flag: st.release, ld.acquire */
  WAY_LL,      /* a word of 8 bytes: 4 of data, 4 of flag */
  WAY_LL16     /* 16 bytes: 12 of data, 4 of flag */
};

/* Data and flag are in lines of their own, as a message's slot and its flag are. */
struct mailbox {
  alignas(128) uint64_t flag; /* WAY_LL: with the data */
  alignas(128) uint64_t data;
  alignas(128) words128 both; /* WAY_LL16 */
};

/* The data of a message differs from that of the one before in each byte. */
DEVICE uint64_t data_of(uint32_t message) {
  return message * 0x9e3779b97f4a7c15ull;
}

DEVICE uint64_t flagged(uint32_t message) {
  return (uint64_t)message << 32 | (uint32_t)data_of(message);
}

template <way WAY>
DEVICE void put(mailbox *box, uint32_t message) {
  if (WAY == WAY_RELAXED) store_relaxed(&box->flag, message);
  if (WAY == WAY_RELEASE) {
    store_relaxed(&box->data, data_of(message));
    store_release(&box->flag, message);
  }
  if (WAY == WAY_LL) store_relaxed(&box->flag, flagged(message));
  if (WAY == WAY_LL16) store_relaxed128(&box->both, {data_of(message), flagged(message)});
}

/* One poll: whether the message is there, and if so whether its data is wrong. */
template <way WAY>
DEVICE bool poll(const mailbox *box, uint32_t message, uint32_t *wrong) {
  if (WAY == WAY_RELAXED) return load_relaxed(&box->flag) == message;
  if (WAY == WAY_RELEASE) {
    if (load_acquire(&box->flag) != message) return false;
    *wrong += load_relaxed(&box->data) != data_of(message);
  }
  if (WAY == WAY_LL) {
    uint64_t word = load_relaxed(&box->flag);
    if (word >> 32 != message) return false;
    *wrong += word != flagged(message);
  }
  if (WAY == WAY_LL16) {
    words128 found = load_relaxed128(&box->both);
    if (found.high >> 32 != message) return false;
    *wrong += found.high != flagged(message) || found.low != data_of(message);
  }
  return true;
}

template <way WAY>
DEVICE bool take(const mailbox *box, uint32_t message, uint32_t *wrong, deadline *limit,
                 outcome *result) {
  while (!poll<WAY>(box, message, wrong)) {
    if (deadline_over(limit, result)) return false;
    pause_poll();
  }
  return true;
}

/* Blocks `first` and `second`, of one thread, send each other messages in turn; the others end.
 * The mailboxes are zero. */
template <way WAY>
__global__ void pass_messages(mailbox *boxes, uint32_t first, uint32_t second, uint32_t messages,
                              outcome *result) {
  bool is_first = blockIdx.x == first;
  if (!is_first && blockIdx.x != second) return;
  deadline limit = deadline_begin();
  uint64_t begin_ns = 0;
  uint32_t wrong = 0;
  result->multiprocessors[is_first ? 0 : 1] = multiprocessor();
  for (uint32_t message = 1; message <= WARM_MESSAGES + messages; message++) {
    if (message == WARM_MESSAGES + 1) begin_ns = now_ns();
    if (is_first) put<WAY>(&boxes[0], message);
    if (!take<WAY>(&boxes[is_first ? 1 : 0], message, &wrong, &limit, result)) return;
    if (!is_first) put<WAY>(&boxes[1], message);
  }
  if (is_first) result->ns = now_ns() - begin_ns;
  if (wrong > 0) atomicAdd(&result->wrong, wrong);
}

#endif
