/* The engine's arithmetic: positions of chunks, sentences about mismatched calls, and whether a
 * plan fits. */
#include <criterion/criterion.h>
#include <string.h>

#include "engine/mismatch.h"
#include "engine/run.h"
#include "engine/span.h"

#define SIZE 3

/* Rank 1 of 3 and its call. */
typedef struct fixture {
  plan_t plan;
  engine_call_t call;
  engine_layout_t layout;
} fixture_t;

static void set_fixture(fixture_t *fixture, coll_collective_t collective, int parts, size_t count,
                        size_t element_bytes) {
  memset(fixture, 0, sizeof *fixture);
  fixture->plan = (plan_t){.shape = {collective, SIZE, 0}, .parts = parts, .lanes = 1};
  fixture->call = (engine_call_t){.count = count, .element_bytes = element_bytes};
  fixture->layout = (engine_layout_t){.plan = &fixture->plan,
                                      .call = &fixture->call,
                                      .pass = {.first = 0, .count = count, .grain = 1}};
}

static size_t elements_of(const fixture_t *fixture, const plan_span_t *span) {
  int32_t pieces = engine_span_pieces(&fixture->layout, span);
  size_t elements = 0;
  for (int32_t i = 0; i < pieces; i++) {
    elements += engine_span_piece(&fixture->layout, span, pieces, i).elements;
  }
  return elements;
}

static plan_span_t span_of(plan_buffer_t buffer, int first, int count) {
  return (plan_span_t){.rank = 1, .buffer = buffer, .first = first, .count = count};
}

/* Iterates over every chunk of every pass and counts how often each element of the input is
 * covered. */
static void cover(fixture_t *fixture, size_t pass_max, int blocks, unsigned char seen[]) {
  for (size_t first = 0; first < fixture->call.count; first += pass_max) {
    size_t left = fixture->call.count - first;
    fixture->layout.pass.first = first;
    fixture->layout.pass.count = left < pass_max ? left : pass_max;
    for (int chunk = 0; chunk < blocks * fixture->plan.parts; chunk++) {
      plan_span_t span = span_of(PLAN_INPUT, chunk, 1);
      cr_assert_eq(engine_span_pieces(&fixture->layout, &span), 1);
      engine_piece_t piece = engine_span_piece(&fixture->layout, &span, 1, 0);
      for (size_t i = 0; i < piece.elements; i++) seen[piece.start + i]++;
    }
  }
}

Test(span, chunks_of_all_passes_cover_even_blocks_once) {
  static const size_t grains[] = {1, 4, 16};
  for (int parts = 1; parts <= 5; parts++) {
    for (size_t count = 1; count <= 40; count += 3) {
      for (size_t pass = 1; pass <= count; pass += 4) {
        static fixture_t fixture;
        unsigned char seen[4000] = {0};
        set_fixture(&fixture, COLL_ALLTOALL, parts, count, 4);
        fixture.layout.pass.grain = grains[(count + pass) % 3];
        cover(&fixture, pass, SIZE, seen);
        for (size_t i = 0; i < sizeof seen; i++) {
          cr_assert_eq(seen[i], i < SIZE * count,
                       "element %zu of %zu: %d times (%d parts, passes of %zu)", i, SIZE * count,
                       seen[i], parts, pass);
        }
      }
    }
  }
}

Test(span, chunks_of_all_passes_cover_uneven_blocks_once) {
  static const size_t counts[SIZE] = {0, 17, 5}, offsets[SIZE] = {2, 3, 30};
  for (size_t pass = 1; pass <= 18; pass++) {
    static fixture_t fixture;
    unsigned char seen[4000] = {0};
    set_fixture(&fixture, COLL_ALLTOALLV, 1, 17, 2);
    fixture.call.input_blocks = (engine_blocks_t){counts, offsets};
    cover(&fixture, pass, SIZE, seen);
    for (size_t i = 0; i < sizeof seen; i++) {
      bool named = (i >= 3 && i < 20) || (i >= 30 && i < 35);
      cr_assert_eq(seen[i], named, "element %zu, passes of %zu: %d times", i, pass, seen[i]);
    }
  }
}

Test(span, is_one_piece_only_if_contiguous) {
  static fixture_t fixture;
  set_fixture(&fixture, COLL_ALLTOALL, 2, 10, 1);
  plan_span_t all = span_of(PLAN_INPUT, 0, 6), some = span_of(PLAN_INPUT, 1, 2);
  cr_assert_eq(engine_span_pieces(&fixture.layout, &all), 1, "a pass of whole blocks");
  cr_assert_eq(elements_of(&fixture, &all), 30);
  fixture.layout.pass = (engine_pass_t){.first = 4, .count = 4, .grain = 1};
  cr_assert_eq(engine_span_pieces(&fixture.layout, &all), 3, "slices are not contiguous");
  cr_assert_eq(elements_of(&fixture, &all), 12);
  cr_assert_eq(engine_span_pieces(&fixture.layout, &some), 2,
               "the end of one, the start of the next");
  cr_assert_eq(engine_span_blocks(&fixture.layout, &some), 2);
  engine_piece_t first = engine_span_piece(&fixture.layout, &some, 2, 0);
  engine_piece_t second = engine_span_piece(&fixture.layout, &some, 2, 1);
  cr_assert(first.start == 6 && first.elements == 2);
  cr_assert(second.start == 14 && second.elements == 2);
  plan_span_t scratch = span_of(PLAN_SCRATCH, 0, 6);
  cr_assert_eq(engine_span_pieces(&fixture.layout, &scratch), 1,
               "scratch holds slices without gaps");
  cr_assert_eq(elements_of(&fixture, &scratch), 12);
}

Test(span, ends_with_a_block_that_is_shorter_than_the_pass) {
  static fixture_t fixture;
  static const size_t counts[SIZE] = {3, 9, 0}, offsets[SIZE] = {0, 3, 12};
  set_fixture(&fixture, COLL_ALLTOALLV, 1, 9, 8);
  fixture.call.output_blocks = (engine_blocks_t){counts, offsets};
  fixture.layout.pass = (engine_pass_t){.first = 4, .count = 4, .grain = 1};
  plan_span_t over = span_of(PLAN_OUTPUT, 0, 1), on = span_of(PLAN_OUTPUT, 1, 1);
  cr_assert_eq(elements_of(&fixture, &over), 0, "it ended in the pass before");
  cr_assert_eq(elements_of(&fixture, &on), 4);
  fixture.layout.pass.first = 8;
  cr_assert_eq(elements_of(&fixture, &on), 1);
  cr_assert_eq(engine_span_piece(&fixture.layout, &on, 1, 0).start, 3 + 8);
}

/* ---- uneven blocks --------------------------------------------------------------------------*/

/* The blocks of all ranks, the rank's own alone, and those of SCRATCH, of which each has the room
 * of the largest. */
Test(span, of_uneven_blocks) {
  static const size_t counts[SIZE] = {3, 9, 0}, offsets[SIZE] = {5, 20, 40};
  static fixture_t fixture;
  set_fixture(&fixture, COLL_ALLGATHERV, 1, 9, 1);
  fixture.call.ranks = (engine_blocks_t){counts, offsets};
  fixture.layout.pass = (engine_pass_t){.first = 0, .count = 9, .grain = 1};
  plan_span_t own = span_of(PLAN_INPUT, 0, 1), out = span_of(PLAN_OUTPUT, 1, 1);
  own.rank = 1;
  engine_piece_t piece = engine_span_piece(&fixture.layout, &own, 1, 0);
  cr_expect(piece.start == 0 && piece.elements == 9);
  own.rank = 0;
  cr_expect_eq(elements_of(&fixture, &own), 3);
  piece = engine_span_piece(&fixture.layout, &out, 1, 0);
  cr_expect(piece.start == 20 && piece.elements == 9);
  plan_span_t scratch = span_of(PLAN_SCRATCH, 3, 2); /* blocks of ranks 0 and 1 */
  fixture.plan.scratch_chunks = 6;
  cr_expect_eq(engine_span_pieces(&fixture.layout, &scratch), 2);
  piece = engine_span_piece(&fixture.layout, &scratch, 2, 0);
  cr_expect(piece.start == 27 && piece.elements == 3);
  piece = engine_span_piece(&fixture.layout, &scratch, 2, 1);
  cr_expect(piece.start == 36 && piece.elements == 9);
  fixture.plan.own_scratch = true;
  scratch.rank = 2;
  cr_expect_eq(elements_of(&fixture, &scratch), 0);
  fixture.layout.pass = (engine_pass_t){.first = 4, .count = 4, .grain = 1};
  piece = engine_span_piece(&fixture.layout, &out, 1, 0);
  cr_expect(piece.start == 24 && piece.elements == 4);
}

/* ---- mismatches -----------------------------------------------------------------------------*/

enum { HISTORY = 12345 };

/* The identity as sent. */
static flight_call_t id_of(uint64_t number, int verb, size_t count, uint64_t history) {
  const flight_words_t words = {
      .verb = verb, .dtype = COLL_FLOAT32, .op = FLIGHT_OP_NONE, .root = 1, .count = count};
  flight_call_t id = flight_call_make(&words);
  return (flight_call_t){flight_what_at(id.what, number), id.count + history};
}

/* The error of rank 2 that finds the identity `found` of rank 5 in its own call. */
static const char *mismatch(flight_call_t own, flight_call_t found, uint64_t history) {
  engine_world_t world = {.rank = 2, .size = 6};
  engine_call_t call = {.id = own, .history = history};
  cr_assert_eq(engine_mismatch(&world, &call, own, 5, found), COLL_ERROR_MISMATCH);
  return base_last_error();
}

static void holds(const char *sentence, const char *words) {
  cr_assert_not_null(strstr(sentence, words), "no '%s' in: %s", words, sentence);
}

Test(mismatch, subtracts_the_history_from_counts) {
  flight_call_t own = id_of(3, COLL_BROADCAST, 10, HISTORY);
  const char *sentence = mismatch(own, id_of(3, COLL_BROADCAST, 11, HISTORY), HISTORY);
  holds(sentence, "call 3: rank 2 is in broadcast(float32, count 10, root 1)");
  holds(sentence, "rank 5 is in broadcast(float32, count 11, root 1)");
}

Test(mismatch, names_send_and_receive) {
  flight_call_t own = id_of(7, COLL_SENDRECV, 10, 0);
  const char *sentence = mismatch(own, id_of(7, COLL_SENDRECV, 11, 0), 0);
  holds(sentence, "rank 2 is in recv(float32, count 10, from rank 5)");
  holds(sentence, "rank 5 is in send(float32, count 11, to rank 2)");
}

/* ---- room -----------------------------------------------------------------------------------*/

Test(fits, asks_for_one_element_per_chunk) {
  engine_world_t world = {.room = {.slot_bytes = 64, .scratch_bytes = 48}};
  plan_t plan = {.parts = 4, .lanes = 1, .message_chunks = 8, .scratch_chunks = 12};
  cr_assert(engine_run_fits(&world, &plan, 4), "48 bytes for 12 chunks of one float32");
  cr_assert_not(engine_run_fits(&world, &plan, 8), "12 doubles need 96 bytes");
  plan.scratch_chunks = 0;
  cr_assert(engine_run_fits(&world, &plan, 8), "8 doubles are 64 bytes");
  plan.message_chunks = 9;
  cr_assert_not(engine_run_fits(&world, &plan, 8), "9 doubles do not fit a slot");
  plan.message_chunks = 0;
  cr_assert(engine_run_fits(&world, &plan, 8), "without messages and scratch anything fits");
}
