/*
 * A leak makes a test program fail. Criterion runs each test in a process of its own, to which it
 * passes BXFI_MAP, and has its result before LeakSanitizer looks, at the end of that process. So a
 * test's process looks for leaks when it exits, and writes what it finds to a file; the process
 * that starts the tests prints the file at its own end, and then fails.
 *
 * That process itself is not checked: Criterion now and then leaks a record of a test that has
 * ended. A suppression would not do, as Criterion's functions are in the stack of each test too.
 */
#include <fcntl.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/lsan_interface.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_NAME "HARNESS_LEAKS" /* the variable that has the path of the file */

/* Called by LeakSanitizer before it checks by itself (sanitizer/lsan_interface.h). */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);

static bool has_looked;

int __lsan_is_turned_off(void) {
  return getenv("BXFI_MAP") == NULL || has_looked;
}

/* ---- in a test's process --------------------------------------------------------------------*/

static void look(void) {
  const char *path = getenv(FILE_NAME);
  if (getenv("BXFI_MAP") == NULL || path == NULL) return; /* see harness_forked */
  int file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file < 0) return;
  __sanitizer_set_report_fd((void *)(intptr_t)file);
  (void)__lsan_do_recoverable_leak_check();
  has_looked = true;
}

/* ---- in the process that starts the tests ---------------------------------------------------*/

static char own_path[4096];
static pid_t maker; /* of the file */

static void print_found(void) {
  char line[400];
  bool found = false;
  if (getpid() != maker) return;
  FILE *file = fopen(own_path, "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    found = found || strstr(line, "ERROR: LeakSanitizer") != NULL; /* others are warnings */
    printf("# %s", line);
  }
  unlink(own_path);
  fflush(stdout);
  if (found) _exit(1);
}

static void make_file(void) {
  const char *folder = getenv("TMPDIR");
  snprintf(own_path, sizeof own_path, "%s/leaks-XXXXXX", folder != NULL ? folder : "/tmp");
  int file = mkstemp(own_path);
  if (file < 0 || setenv(FILE_NAME, own_path, 1) != 0 || atexit(print_found) != 0) abort();
  close(file);
  maker = getpid();
}

__attribute__((constructor)) static void begin(void) {
  if (getenv("BXFI_MAP") == NULL) {
    make_file();
  } else if (atexit(look) != 0) {
    abort();
  }
}
