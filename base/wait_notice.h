/*
 * One line on standard error about a wait that lasts: what is waited for, and what was tried last.
 * Nothing is printed about waits that end soon.
 */
#ifndef BASE_WAIT_NOTICE_H
#define BASE_WAIT_NOTICE_H

#include <stdbool.h>
#include <stdint.h>

#define BASE_WAIT_NOTICE_NS UINT64_C(2000000000)

typedef struct base_wait_notice {
  uint64_t since_ns;
  bool is_said;
} base_wait_notice_t;

/* Of a wait that begins now. */
base_wait_notice_t base_wait_notice_begin(void);

/* To be called again and again during the wait. Prints "libcoll: " and the text, once, when the
 * wait has lasted for BASE_WAIT_NOTICE_NS. */
void base_wait_notice(base_wait_notice_t *notice, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
