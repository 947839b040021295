/*
 * The process that only starts the tests is not checked for leaks. Criterion runs each test in a
 * process of its own, to which it passes BXFI_MAP; now and then it leaks a record of one that has
 * ended. A suppression would not do: Criterion's functions are in the stack of each test too.
 */
#include <stdlib.h>

/* Called by LeakSanitizer before it checks (sanitizer/lsan_interface.h). */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);

int __lsan_is_turned_off(void) {
  return getenv("BXFI_MAP") == NULL;
}
