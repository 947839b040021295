/* Which protocol a call takes, and the pieces of messages that carry their flags. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/clock.h"
#include "device/cuda/flagged.h"
#include "gpu/ranks.h"

/* ---- the choice -----------------------------------------------------------------------------*/

typedef struct slots {
  size_t ll, ll128; /* bytes */
} slots_t;

static gpu_protocol_t chosen(const char *algorithm, size_t count, slots_t slots, bool is_uneven,
                             gpu_protocol_t protocol) {
  static const size_t blocks[4] = {1, 1, 1, 1};
  gpu_room_t room = ranks_room(4);
  gpu_program_t *program = ranks_program(COLL_ALLREDUCE, algorithm, 4, 0);
  gpu_request_t request = {.count = count, .dtype = COLL_FLOAT32, .protocol = protocol};
  gpu_call_t call;
  room.ll_slot_bytes = slots.ll;
  room.ll128_slot_bytes = slots.ll128;
  if (is_uneven) request.input_blocks = request.output_blocks = (gpu_blocks_t){blocks, blocks};
  cr_assert_eq(gpu_bind_call(&room, NULL, program, program, &request, 1, &call), COLL_OK);
  cr_assert(protocol != GPU_PROTOCOL_ANY || call.protocol == GPU_PROTOCOL_SLOTS ||
            call.passes == 1);
  free(program);
  return (gpu_protocol_t)call.protocol;
}

Test(gpu, small_calls_take_flagged_words) {
  const gpu_protocol_t any = GPU_PROTOCOL_ANY, slots = GPU_PROTOCOL_SLOTS, ll = GPU_PROTOCOL_LL;
  const slots_t words = {.ll = 1024}, none = {0};
  cr_assert_eq(chosen("ring", 0, words, false, any), ll);
  cr_assert_eq(chosen("ring", 448, words, false, any), ll);
  cr_assert_eq(chosen("ring", 600, words, false, any), slots);
  cr_assert_eq(chosen("ring", 600, words, false, ll), ll);
  cr_assert_eq(chosen("ring", 10, words, false, slots), slots);
  cr_assert_eq(chosen("ring", 1, words, true, any), slots);
  cr_assert_eq(chosen("ring", 1, words, true, ll), ll);
  cr_assert_eq(chosen("ring", 10, none, false, ll), slots);
  cr_assert_eq(chosen("staged", 10, words, false, ll), slots);
}

/* A chunk is up to 15 of the 16 lines of a slot, so a call up to 1800 elements of 4 bytes. */
Test(gpu, calls_of_middle_size_take_flagged_lines) {
  const gpu_protocol_t any = GPU_PROTOCOL_ANY, slots = GPU_PROTOCOL_SLOTS;
  const gpu_protocol_t ll128 = GPU_PROTOCOL_LL128;
  const slots_t both = {.ll = 1024, .ll128 = 2048}, lines = {.ll128 = 2048}, words = {.ll = 1024};
  cr_assert_eq(chosen("ring", 448, both, false, any), GPU_PROTOCOL_LL);
  cr_assert_eq(chosen("ring", 600, both, false, any), ll128);
  cr_assert_eq(chosen("ring", 1792, both, false, any), ll128);
  cr_assert_eq(chosen("ring", 1824, both, false, any), slots);
  cr_assert_eq(chosen("ring", 1824, both, false, ll128), ll128);
  cr_assert_eq(chosen("ring", 10, lines, false, any), ll128);
  cr_assert_eq(chosen("ring", 10, both, false, ll128), ll128);
  cr_assert_eq(chosen("ring", 1, both, true, any), slots);
  cr_assert_eq(chosen("ring", 1, both, true, ll128), ll128);
  cr_assert_eq(chosen("ring", 10, words, false, ll128), slots);
  cr_assert_eq(chosen("staged", 600, both, false, ll128), slots);
}

/* ---- pieces ---------------------------------------------------------------------------------*/

#define PIECE_BYTES_MAX 400
#define MARGIN 16

/* A piece of any length between any addresses, in lines that had other data before: all of its
 * bytes arrive, and nothing else is written. */
static void check_lines(size_t bytes, size_t from_at, size_t to_at) {
  static _Alignas(GPU_LINE) uint64_t lines[5 * GPU_LINE_WORDS];
  static _Alignas(GPU_LINE) char from[PIECE_BYTES_MAX + 2 * MARGIN], to[sizeof from];
  const uint64_t flag = gpu_flag_of(bytes + 1, UINT64_C(0xabcdef) << GPU_COUNT_BITS);
  const gpu_run_t run = {.lane = 0};
  size_t used = gpu_ll128_lines(bytes) * GPU_LINE_WORDS;
  memset(lines, 0x55, sizeof lines);
  memset(to, 0x77, sizeof to);
  for (size_t i = 0; i < sizeof from; i++) from[i] = (char)(i * 7 + bytes);
  gpu_ll128_put(lines, from + from_at, bytes, flag);
  for (size_t i = used; i < sizeof lines / sizeof *lines; i++) {
    cr_assert_eq(lines[i], UINT64_C(0x5555555555555555), "%zu bytes: word %zu", bytes, i);
  }
  cr_assert(gpu_ll128_take(&run, lines, to + to_at, bytes, flag, 0));
  cr_assert_eq(memcmp(to + to_at, from + from_at, bytes), 0, "%zu bytes", bytes);
  for (size_t i = 0; i < sizeof to; i++) {
    bool is_in = i >= to_at && i < to_at + bytes;
    cr_assert(is_in || to[i] == 0x77, "%zu bytes: byte %zu", bytes, i);
  }
}

Test(gpu, pieces_of_flagged_lines) {
  cr_assert_eq(gpu_ll128_lines(0), 0u);
  cr_assert_eq(gpu_ll128_lines(120), 1u);
  cr_assert_eq(gpu_ll128_lines(121), 2u);
  for (size_t bytes = 0; bytes <= PIECE_BYTES_MAX; bytes++) {
    for (size_t at = 0; at < MARGIN; at++) {
      check_lines(bytes, at, at);
      check_lines(bytes, at, MARGIN - 1 - at);
    }
  }
}

/* ---- messages without data ------------------------------------------------------------------*/

#define CAPACITY 64

/* An allreduce of nothing by a ring of two ranks, of which the second is late. */
typedef struct empty {
  ranks_t ranks;
  gpu_program_t *programs[2];
  gpu_protocol_t protocol;
  uint64_t what[2]; /* which call a rank makes */
  int entered;
  bool left_early;
} empty_t;

static void run_empty(void *context, int rank) {
  empty_t *empty = context;
  const gpu_words_t words = {.what = empty->what[rank]};
  const gpu_request_t request = {.dtype = COLL_INT32, .words = &words, .protocol = empty->protocol};
  if (rank == 1) base_clock_sleep_ns(10000000);
  if (rank == 1) __atomic_store_n(&empty->entered, 1, __ATOMIC_RELAXED);
  if (!ranks_launch(&empty->ranks, rank, empty->programs[rank], &request, 1, 7)) abort();
  if (rank == 0) empty->left_early = __atomic_load_n(&empty->entered, __ATOMIC_RELAXED) == 0;
}

/* They are waited for, and their digests compared. */
static void check_empty(gpu_protocol_t protocol, bool is_odd) {
  empty_t empty = {.protocol = protocol, .what = {5, is_odd ? 6 : 5}};
  gpu_room_t room = ranks_room(2);
  ranks_init(&empty.ranks, &room, CAPACITY);
  for (int rank = 0; rank < 2; rank++)
    empty.programs[rank] = ranks_program(COLL_ALLREDUCE, "ring", 2, rank);
  cr_assert(ranks_run(&empty.ranks, run_empty, &empty), "protocol %d: deadlock", (int)protocol);
  bool found = false;
  for (int rank = 0; rank < 2; rank++) {
    found = found || empty.ranks.failed[rank] == GPU_FAILED_MISMATCH;
    free(empty.programs[rank]);
  }
  cr_assert_eq(found, is_odd, "protocol %d", (int)protocol);
  cr_assert_not(empty.left_early, "protocol %d", (int)protocol);
  ranks_free(&empty.ranks);
}

Test(gpu, messages_without_data) {
  for (int p = GPU_PROTOCOL_SLOTS; p < GPU_PROTOCOL_COUNT; p++) {
    check_empty((gpu_protocol_t)p, false);
    check_empty((gpu_protocol_t)p, true);
  }
}
