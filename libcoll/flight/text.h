/*
 * Text that is built by appending and truncated if it does not fit: for reports, which must not
 * fail.
 */
#ifndef FLIGHT_TEXT_H
#define FLIGHT_TEXT_H

#include <stddef.h>
#include <stdint.h>

typedef struct flight_text {
  char *text; /* owned by the caller, [bytes]; always terminated by '\0' */
  size_t bytes, used;
} flight_text_t;

/* Starts an empty text in `memory`, which has at least one byte. */
flight_text_t flight_text_in(char *memory, size_t bytes);

void flight_text_add(flight_text_t *to, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Appends "rank 1", "ranks 0, 2 and 3", "ranks 0 to 6 and 9", or "ranks 0, 2, 4, 6 and 90 more".
 * `set` has bit r % 64 of word r / 64 for rank r. Appends "no rank" if the set is empty. */
void flight_text_add_ranks(flight_text_t *to, const uint64_t *set, int ranks);

#endif
