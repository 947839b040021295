/*
 * Three or more consecutive ranks are written as a range.
 */
#include "flight/text.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#define RUNS_MAX 8 /* maximum number of ranges and single ranks listed */

flight_text_t flight_text_in(char *memory, size_t bytes) {
  memory[0] = '\0';
  return (flight_text_t){.text = memory, .bytes = bytes};
}

void flight_text_add(flight_text_t *to, const char *format, ...) {
  va_list arguments;
  if (to->used + 1 >= to->bytes) return;
  va_start(arguments, format);
  int written = vsnprintf(to->text + to->used, to->bytes - to->used, format, arguments);
  va_end(arguments);
  if (written > 0) to->used += (size_t)written;
}

static bool has(const uint64_t *set, int ranks, int rank) {
  return rank < ranks && (set[rank / 64] >> rank % 64 & 1) != 0;
}

static int next_in(const uint64_t *set, int ranks, int rank) {
  while (rank < ranks && !has(set, ranks, rank)) rank++;
  return rank;
}

/* The last rank of the range that starts at `rank`. */
static int run_end(const uint64_t *set, int ranks, int rank) {
  int last = rank;
  while (has(set, ranks, last + 1)) last++;
  return last - rank >= 2 ? last : rank;
}

void flight_text_add_ranks(flight_text_t *to, const uint64_t *set, int ranks) {
  int total = 0, listed = 0, runs = 0;
  for (int rank = 0; rank < ranks; rank++) total += has(set, ranks, rank);
  flight_text_add(to, total == 0 ? "no rank" : total == 1 ? "rank " : "ranks ");
  for (int rank = next_in(set, ranks, 0); rank < ranks && runs < RUNS_MAX; runs++) {
    int last = run_end(set, ranks, rank);
    int after = listed + last - rank + 1;
    if (runs > 0) flight_text_add(to, after == total ? " and " : ", ");
    flight_text_add(to, last > rank ? "%d to %d" : "%d", rank, last);
    listed = after;
    rank = next_in(set, ranks, last + 1);
  }
  if (listed < total) flight_text_add(to, " and %d more", total - listed);
}
