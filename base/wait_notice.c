/* The line is written with one call, so that lines of several ranks are not mixed. */
#include "base/wait_notice.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"

base_wait_notice_t base_wait_notice_begin(void) {
  return (base_wait_notice_t){.since_ns = base_clock_now_ns()};
}

void base_wait_notice(base_wait_notice_t *notice, const char *format, ...) {
  char text[512];
  va_list arguments;
  if (notice->is_said || base_clock_now_ns() < notice->since_ns + BASE_WAIT_NOTICE_NS) return;
  notice->is_said = true;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "libcoll: %s\n", text);
}
