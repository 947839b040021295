/* Copies write exactly the given bytes. */
#include <criterion/criterion.h>

#include "base/move.h"

Test(move, copies_exactly_the_given_bytes) {
  enum { ROOM = 300 };
  char from[ROOM], to[ROOM];
  for (int i = 0; i < ROOM; i++) from[i] = (char)(i % 101);
  for (size_t bytes = 0; bytes < 200; bytes += 13) {
    size_t at = bytes % 7 + 1;
    memset(to, -1, sizeof to);
    base_move_string(to + at, from + 2 * at, bytes);
    cr_assert_arr_eq(to + at, from + 2 * at, bytes);
    for (size_t i = 0; i < ROOM; i++) {
      cr_assert(to[i] == -1 || (i >= at && i < at + bytes), "byte %zu of a move of %zu", i, bytes);
    }
  }
}

Test(move, reports_string_moves_consistently) {
  bool first = base_moves_strings();
  cr_assert_eq(base_moves_strings(), first);
}

Test(move, copies_every_short_length_exactly) {
  for (size_t bytes = 0; bytes <= BASE_MOVE_SHORT; bytes++) {
    char from[BASE_MOVE_SHORT], to[BASE_MOVE_SHORT + 1];
    for (size_t i = 0; i < sizeof from; i++) from[i] = (char)(i + 1);
    memset(to, 0x7f, sizeof to);
    base_move_short(to, from, bytes);
    cr_assert_arr_eq(to, from, bytes);
    cr_assert_eq(to[bytes], 0x7f, "%zu bytes: wrote one more", bytes);
    base_move_short(from, from, bytes);
    cr_assert_arr_eq(from, to, bytes, "%zu bytes onto themselves", bytes);
  }
}
