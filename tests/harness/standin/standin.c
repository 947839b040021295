/*
 * One child per test, one after the other: a crash, a hang or a report of the sanitizer ends that
 * test alone. Of the arguments that Criterion takes, `--filter SUITE/NAME` (a pattern as of bash
 * with extglob) chooses tests; the others have no effect.
 */
#include <criterion/criterion.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/sample.h"

/* Longer than any test needs: it is for those that hang. */
#define TIMEOUT_SECONDS (harness_full() ? 3000 : 300)
#define SKIPPED 77 /* exit code of a test that is not to be run here */
#define REASON_BYTES 512

static standin_test_t *first, **last = &first;
static bool expectation_failed;
static char *skip_reason;       /* [REASON_BYTES], written by the process of a test */
static void (*finish[2])(void); /* of the test and of its suite */

void standin_register(standin_test_t *test) {
  *last = test;
  last = &test->next;
}

void standin_report(const char *file, int line, const char *condition, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  printf("# %s:%d: not so: %s:", file, line, condition);
  vprintf(format, arguments);
  printf("\n");
  va_end(arguments);
}

void standin_fail(void) {
  fflush(NULL);
  _exit(1);
}

void standin_expect_failed(void) {
  expectation_failed = true;
}

static void run_finish(void) {
  for (int i = 0; i < 2; i++) {
    if (finish[i] != NULL) finish[i]();
  }
}

_Noreturn void standin_skip(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(skip_reason, REASON_BYTES, format, arguments);
  va_end(arguments);
  run_finish();
  exit(SKIPPED);
}

static standin_options_t suite_options(const char *suite) {
  for (const standin_test_t *test = first; test != NULL; test = test->next) {
    if (test->body == NULL && strcmp(test->suite, suite) == 0) return test->options;
  }
  return (standin_options_t){0};
}

/* exit, not _exit: the sanitizer has its say at the end. */
static _Noreturn void child_main(const standin_test_t *test, const standin_options_t *suite) {
  alarm(TIMEOUT_SECONDS);
  finish[0] = test->options.fini;
  finish[1] = suite->fini;
  if (suite->init != NULL) suite->init();
  if (test->options.init != NULL) test->options.init();
  test->body();
  run_finish();
  exit(expectation_failed ? 1 : 0);
}

typedef enum outcome { FAILED, PASSED, LEFT_OUT } outcome_t;

static outcome_t run_test(const standin_test_t *test) {
  standin_options_t suite = suite_options(test->suite);
  int signal = test->options.signal != 0 ? test->options.signal : suite.signal;
  int code = test->options.exit_code != 0 ? test->options.exit_code : suite.exit_code;
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) child_main(test, &suite);
  int status;
  if (pid < 0 || waitpid(pid, &status, 0) != pid) return FAILED;
  if (WIFSIGNALED(status)) {
    if (WTERMSIG(status) != signal) printf("# ended by signal %d\n", WTERMSIG(status));
    return WTERMSIG(status) == signal ? PASSED : FAILED;
  }
  if (WEXITSTATUS(status) == SKIPPED) return LEFT_OUT;
  if (WEXITSTATUS(status) != code) printf("# returned %d\n", WEXITSTATUS(status));
  return signal == 0 && WEXITSTATUS(status) == code ? PASSED : FAILED;
}

static const char *filter_of(int argc, char **argv) {
  for (int i = 1; i + 1 < argc; i++) {
    if (strcmp(argv[i], "--filter") == 0) return argv[i + 1];
  }
  return "*";
}

static bool is_chosen(const standin_test_t *test, const char *filter) {
  char name[256];
  if (test->body == NULL || test->options.disabled) return false;
  snprintf(name, sizeof name, "%s/%s", test->suite, test->name);
  return fnmatch(filter, name, FNM_EXTMATCH) == 0;
}

int main(int argc, char **argv) {
  const char *filter = filter_of(argc, argv);
  int count = 0, failed = 0, number = 0;
  skip_reason = mmap(NULL, REASON_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (skip_reason == MAP_FAILED) return 1;
  for (const standin_test_t *test = first; test != NULL; test = test->next) {
    count += is_chosen(test, filter);
  }
  printf("1..%d\n", count);
  for (const standin_test_t *test = first; test != NULL; test = test->next) {
    if (!is_chosen(test, filter)) continue;
    outcome_t outcome = run_test(test);
    printf("%s %d - %s::%s", outcome == FAILED ? "not ok" : "ok", ++number, test->suite,
           test->name);
    if (outcome == LEFT_OUT) printf(" # SKIP %s", skip_reason);
    printf("\n");
    failed += outcome == FAILED;
  }
  return failed > 0;
}
