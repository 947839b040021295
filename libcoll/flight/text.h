/* Text that is added to piece by piece and cut where it does not fit: for reports, which must not
 * fail. */
#ifndef FLIGHT_TEXT_H
#define FLIGHT_TEXT_H

#include <stddef.h>
#include <stdint.h>

typedef struct flight_text {
  char *text; /* the caller's, [bytes]; always ends in '\0' */
  size_t bytes, used;
} flight_text_t;

/* Begins an empty text in memory of at least one byte. */
flight_text_t flight_text_in(char *memory, size_t bytes);

void flight_text_add(flight_text_t *to, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* "rank 1", "ranks 0, 2 and 3", "ranks 0 to 6 and 9", "ranks 0, 2, 4, 6 and 90 more"; `set` has bit
 * r % 64 of word r / 64 for rank r. "no rank" where it is empty. */
void flight_text_add_ranks(flight_text_t *to, const uint64_t *set, int ranks);

#endif
