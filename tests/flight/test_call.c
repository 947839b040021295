/*
 * The identity of a call: unpacking returns what was packed, and identities of different calls
 * differ.
 */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "flight/call.h"

#define NUMBERS (UINT64_C(1) << FLIGHT_NUMBER_BITS)
#define ROOT_MAX ((1 << FLIGHT_ROOT_BITS) - 1)

static bool same_words(const flight_words_t *a, const flight_words_t *b) {
  return a->verb == b->verb && a->dtype == b->dtype && a->op == b->op && a->root == b->root &&
         a->count == b->count && a->algo == b->algo && a->continues == b->continues &&
         a->coalesced == b->coalesced && a->on_gpu == b->on_gpu;
}

/* Every combination of each field's lowest, highest and a middle value. */
static const int verbs[] = {0, COLL_BARRIER, FLIGHT_VERB_COUNT - 1};
static const int dtypes[] = {0, COLL_FLOAT32, COLL_DTYPE_COUNT - 1};
static const int ops[] = {0, COLL_MAX, FLIGHT_OP_NONE};
static const int roots[] = {0, 77, ROOT_MAX};
static const size_t counts[] = {0, 10000000, SIZE_MAX};
static const int algos[] = {0, 5, FLIGHT_ALGO_MAX};
static const uint64_t numbers[] = {0, 12345, NUMBERS - 1};

enum { VALUES = 3, FIELDS = 7, COMBINATIONS = 2187 * 8 };

static flight_words_t combination(int index, uint64_t *number) {
  int at[FIELDS];
  flight_words_t words = {
      .continues = index % 2 != 0, .coalesced = index / 2 % 2 != 0, .on_gpu = index / 4 % 2 != 0};
  index /= 8;
  for (int field = 0; field < FIELDS; field++, index /= VALUES) at[field] = index % VALUES;
  words.verb = verbs[at[0]];
  words.dtype = (coll_dtype_t)dtypes[at[1]];
  words.op = ops[at[2]];
  words.root = roots[at[3]];
  words.count = counts[at[4]];
  words.algo = algos[at[5]];
  *number = numbers[at[6]];
  return words;
}

Test(call, keeps_every_field) {
  for (int i = 0; i < COMBINATIONS; i++) {
    uint64_t number;
    const flight_words_t words = combination(i, &number);
    flight_call_t call = flight_call_make(&words);
    cr_assert_eq(flight_call_number(call), 0);
    call.what = flight_what_at(call.what, number);
    cr_assert_eq(flight_call_number(call), number);
    const flight_words_t again = flight_call_words(call);
    cr_assert(same_words(&words, &again), "combination %d", i);
  }
}

Test(call, counts_numbers_modulo_their_bits) {
  const flight_words_t words = {.verb = FLIGHT_SPLIT, .op = FLIGHT_OP_NONE};
  flight_call_t call = flight_call_make(&words);
  cr_assert_eq(flight_what_at(call.what, NUMBERS + 3), flight_what_at(call.what, 3));
}

/* The call with one field changed; false past the last. */
static bool change(flight_words_t *words, int field) {
  switch (field) {
    case 0: words->verb = COLL_REDUCE; return true;
    case 1: words->dtype = COLL_INT32; return true;
    case 2: words->op = COLL_MAX; return true;
    case 3: words->op = FLIGHT_OP_PREMUL; return true;
    case 4: words->root ^= 1 << (FLIGHT_ROOT_BITS - 1); return true;
    case 5: words->root ^= 1; return true;
    case 6: words->count ^= 1; return true;
    case 7: words->count ^= (size_t)1 << 63; return true;
    case 8: words->algo ^= 1; return true;
    case 9: words->algo ^= 32; return true;
    case 10: words->continues = true; return true;
    case 11: words->coalesced = true; return true;
    case 12: words->on_gpu = true; return true;
    default: return false;
  }
}

static const flight_words_t some = {
    .verb = COLL_ALLREDUCE, .dtype = COLL_FLOAT32, .op = COLL_SUM, .count = 10000000};

Test(call, differs_with_any_field) {
  flight_call_t call = flight_call_make(&some);
  cr_assert(flight_call_is(call, flight_call_make(&some)));
  flight_words_t other = some;
  for (int field = 0; change(&other, field); field++) {
    cr_assert_not(flight_call_is(call, flight_call_make(&other)), "field %d", field);
    other = some;
  }
  flight_call_t numbered = {flight_what_at(call.what, 1), call.count};
  cr_assert_not(flight_call_is(call, numbered));
}

/* ---- history --------------------------------------------------------------------------------*/

Test(history, is_equal_for_equal_calls_alone) {
  const uint64_t histories[] = {0, 1, UINT64_MAX, 0x123456789abcdef};
  flight_call_t call = flight_call_make(&some);
  for (size_t h = 0; h < sizeof histories / sizeof histories[0]; h++) {
    uint64_t history = flight_history_add(histories[h], call);
    cr_assert_eq(history, flight_history_add(histories[h], call));
    cr_assert_neq(history, flight_history_add(histories[h] ^ 1, call));
    flight_words_t other = some;
    for (int field = 0; change(&other, field); field++) {
      cr_assert_neq(history, flight_history_add(histories[h], flight_call_make(&other)), "field %d",
                    field);
      other = some;
    }
  }
}

Test(history, depends_on_the_order) {
  flight_words_t others = some;
  others.count = 16787931;
  flight_call_t one = flight_call_make(&some), other = flight_call_make(&others);
  uint64_t forth = flight_history_add(flight_history_add(0, one), other);
  uint64_t back = flight_history_add(flight_history_add(0, other), one);
  cr_assert_neq(forth, back);
  cr_assert_neq(flight_history_add(0, one), flight_history_add(flight_history_add(0, one), one));
}

/* Ranks whose histories once differed continue to differ, whatever calls follow. */
Test(history, stays_different) {
  flight_words_t other = some;
  other.count++;
  uint64_t a = flight_history_add(0, flight_call_make(&some));
  uint64_t b = flight_history_add(0, flight_call_make(&other));
  for (int i = 0; i < 100000; i++) {
    other.count = (size_t)i;
    a = flight_history_add(a, flight_call_make(&other));
    b = flight_history_add(b, flight_call_make(&other));
    cr_assert_neq(a, b, "after %d calls", i);
  }
}

/* ---- words ----------------------------------------------------------------------------------*/

static const char *describe(flight_words_t words) {
  static char text[FLIGHT_TEXT_BYTES];
  flight_call_describe(flight_call_make(&words), NULL, text, sizeof text);
  return text;
}

Test(describe, names_all_arguments) {
  cr_assert_str_eq(describe(some), "allreduce(float32, sum, count 10000000)");
  cr_assert_str_eq(
      describe((flight_words_t){
          .verb = COLL_BROADCAST, .dtype = COLL_INT8, .op = FLIGHT_OP_NONE, .root = 3}),
      "broadcast(int8, count 0, root 3)");
  cr_assert_str_eq(
      describe((flight_words_t){
          .verb = COLL_REDUCE, .dtype = COLL_BFLOAT16, .op = FLIGHT_OP_PREMUL, .count = 1}),
      "reduce(bfloat16, premul_sum, count 1, root 0)");
  cr_assert_str_eq(describe((flight_words_t){.verb = COLL_BARRIER, .op = FLIGHT_OP_NONE}),
                   "barrier()");
  cr_assert_str_eq(describe((flight_words_t){.verb = FLIGHT_SPLIT, .op = FLIGHT_OP_NONE}),
                   "split()");
  cr_assert_str_eq(describe((flight_words_t){.verb = COLL_ALLTOALLV, .op = FLIGHT_OP_NONE}),
                   "alltoallv(int8)");
  cr_assert_str_eq(
      describe((flight_words_t){.verb = COLL_GATHERV, .op = FLIGHT_OP_NONE, .root = 2}),
      "gatherv(int8, root 2)");
}

Test(describe, names_the_peer_of_sends_and_receives) {
  flight_words_t words = {
      .verb = FLIGHT_SEND, .dtype = COLL_FLOAT64, .op = FLIGHT_OP_NONE, .root = 4, .count = 9};
  cr_assert_str_eq(describe(words), "send(float64, count 9, to rank 4)");
  words.verb = FLIGHT_RECV;
  cr_assert_str_eq(describe(words), "recv(float64, count 9, from rank 4)");
}

Test(describe, names_group_and_algorithm) {
  flight_words_t words = some;
  words.algo = 8;
  words.continues = true;
  cr_assert_str_eq(describe(words),
                   "allreduce(float32, sum, count 10000000) forced to algorithm 7,"
                   " not the last of its group");
  words.coalesced = true;
  words.algo = 0;
  cr_assert_str_eq(describe(words),
                   "allreduce(float32, sum) coalesced with others of its group,"
                   " not the last of its group");
  words = some;
  words.on_gpu = true;
  cr_assert_str_eq(describe(words), "allreduce(float32, sum, count 10000000) on GPUs");
}

/* An identity may be arbitrary bytes from memory; text is truncated, not overrun. */
Test(describe, accepts_any_fields_and_short_buffers) {
  const flight_call_t calls[] = {{0, 0}, {UINT64_MAX, UINT64_MAX}, {0x5555555555555555, 1}};
  for (size_t c = 0; c < sizeof calls / sizeof calls[0]; c++) {
    char whole[2 * FLIGHT_TEXT_BYTES];
    flight_call_describe(calls[c], NULL, whole, sizeof whole);
    for (size_t bytes = 1; bytes <= FLIGHT_TEXT_BYTES; bytes++) {
      char text[FLIGHT_TEXT_BYTES + 1];
      memset(text, 0x7f, sizeof text);
      flight_call_describe(calls[c], NULL, text, bytes);
      cr_assert_eq(text[bytes], 0x7f, "%zu bytes overrun", bytes);
      cr_assert(strlen(text) < bytes && strncmp(text, whole, strlen(text)) == 0);
    }
  }
}

/* The longest description of a valid call. */
Test(describe, has_room_for_every_call) {
  for (int i = 0; i < COMBINATIONS; i++) {
    uint64_t number;
    char text[2 * FLIGHT_TEXT_BYTES];
    const flight_words_t words = combination(i, &number);
    flight_call_describe(flight_call_make(&words), NULL, text, sizeof text);
    cr_assert_lt(strlen(text), FLIGHT_TEXT_BYTES, "%s", text);
  }
}

Test(mismatch, names_both_ranks_and_calls) {
  flight_words_t words = some;
  flight_seen_t here = {3, 12, flight_call_make(&words)};
  words.count = 6;
  flight_seen_t there = {1, 12, flight_call_make(&words)};
  cr_assert_eq(flight_mismatch(&here, &there), COLL_ERROR_MISMATCH);
  const char *same_number =
      "call 12: rank 3 is in allreduce(float32, sum, count 10000000), but rank 1 is in "
      "allreduce(float32, sum, count 6); all ranks must make the same calls in the same order";
  cr_assert_str_eq(base_last_error(), same_number);
  there.number = UINT64_C(1) << 40;
  cr_assert_eq(flight_mismatch(&here, &there), COLL_ERROR_MISMATCH);
  const char *other_number =
      "rank 3 is in call 12, allreduce(float32, sum, count 10000000), but "
      "rank 1 is in call 1099511627776, allreduce(float32, sum, count 6)";
  cr_assert_eq(strncmp(base_last_error(), other_number, strlen(other_number)), 0, "%s",
               base_last_error());
}

/* The counts of allgatherv and reduce_scatterv: their sum, and a digest of their order too. */
Test(describe, counts_of_vector_collectives) {
  const size_t up[] = {5, 6}, down[] = {6, 5}, equal[] = {7, 7};
  flight_words_t words[3] = {{.verb = COLL_ALLGATHERV, .op = FLIGHT_OP_NONE}};
  words[1] = words[2] = words[0];
  flight_words_set_counts(&words[0], up, 0, 2);
  flight_words_set_counts(&words[1], down, 0, 2);
  char text[FLIGHT_TEXT_BYTES];
  snprintf(text, sizeof text, "%s", describe(words[0]));
  cr_expect(strncmp(text, "allgatherv(int8, 11 elements, counts #", 38) == 0, "%s", text);
  cr_expect(strncmp(text, describe(words[1]), 38) == 0);
  cr_expect(strcmp(text, describe(words[1])) != 0, "%s", text);
  cr_expect(!flight_call_is(flight_call_make(&words[0]), flight_call_make(&words[1])));
  flight_words_set_counts(&words[1], equal, 0, 2);
  flight_words_set_counts(&words[2], NULL, 7, 2);
  cr_expect(flight_call_is(flight_call_make(&words[1]), flight_call_make(&words[2])));
}
