/* The line about a wait is printed once, and only if the wait lasts. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>

#include "base/wait_notice.h"
#include "harness/virtual_time.h"

static char printed[256];

/* What has been printed so far. */
static const char *read_back(FILE *file) {
  fflush(stderr);
  rewind(file);
  printed[fread(printed, 1, sizeof printed - 1, file)] = '\0';
  return printed;
}

Test(wait_notice, is_printed_once_after_two_seconds) {
  virtual_time_begin();
  virtual_time_freeze();
  FILE *file = tmpfile();
  dup2(fileno(file), STDERR_FILENO);
  base_wait_notice_t notice = base_wait_notice_begin();
  base_wait_notice(&notice, "rank %d waits", 7);
  virtual_time_advance(BASE_WAIT_NOTICE_NS - 1);
  base_wait_notice(&notice, "rank %d waits", 7);
  cr_assert_str_eq(read_back(file), "");
  virtual_time_advance(1);
  base_wait_notice(&notice, "rank %d waits: %s", 7, "no answer");
  cr_assert_str_eq(read_back(file), "libcoll: rank 7 waits: no answer\n");
  virtual_time_advance(10 * BASE_WAIT_NOTICE_NS);
  base_wait_notice(&notice, "rank %d waits", 7);
  cr_assert_str_eq(read_back(file), "libcoll: rank 7 waits: no answer\n");
  fclose(file);
}
