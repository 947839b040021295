/* Lists of numbers in options. */
#ifndef TOOLS_GPT_LISTS_H
#define TOOLS_GPT_LISTS_H

#include <stdbool.h>
#include <stdint.h>

/* Longest list, with all repetitions. */
#define GPT_LIST_MAX 4096

/* Reads the next of a list such as "1,2.5", and moves *at behind it and its comma. False at its
 * end, or if it is no number >= 0; *at then points to it. *count gets N of "N*1.5", or 1; NULL:
 * that is no number. */
bool gpt_list_number(const char **at, double *value, int64_t *count);

/* Reads all of a list of numbers, each as often as it says, into values[GPT_LIST_MAX]. Returns how
 * many there are, 0 if the text is no such list. */
int gpt_list_numbers(const char *text, double values[]);

#endif
