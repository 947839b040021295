/*
 * Criterion's interface, as far as the tests here use it, for programs built with a sanitizer:
 * Criterion itself maps memory at addresses that ThreadSanitizer reserves, and so cannot start
 * under it, and starts a program anew for each test, which takes AddressSanitizer long. Here every
 * test runs in a forked child under a time limit, which LeakSanitizer checks when it ends, and
 * results are printed as TAP.
 */
#ifndef TESTS_HARNESS_CRITERION_H
#define TESTS_HARNESS_CRITERION_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Criterion's names for what a test or suite is given. */
typedef struct standin_options {
  void (*init)(void), (*fini)(void);
  double timeout; /* seconds */
  int signal, exit_code;
  bool disabled;
  const char *description;
} standin_options_t;

typedef struct standin_test {
  const char *suite, *name;
  void (*body)(void);
  standin_options_t options;
  struct standin_test *next;
} standin_test_t;

/* Adds a test, or with body NULL a suite's defaults. The entry lives as long as the program. */
void standin_register(standin_test_t *test);

/* Prints what failed. */
void standin_report(const char *file, int line, const char *condition, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
_Noreturn void standin_fail(void);
void standin_expect_failed(void);
_Noreturn void standin_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define STANDIN_REGISTER(symbol, suite_name, test_name, function, ...)                       \
  __attribute__((constructor)) static void symbol(void) {                                    \
    static standin_test_t test = {                                                           \
        .suite = suite_name, .name = test_name, .body = function, .options = {__VA_ARGS__}}; \
    standin_register(&test);                                                                 \
  }

#define Test(suite, name, ...)                                                                   \
  static void suite##_##name##_test(void);                                                       \
  STANDIN_REGISTER(suite##_##name##_register, #suite, #name, suite##_##name##_test, __VA_ARGS__) \
  static void suite##_##name##_test(void)

#define TestSuite(name, ...)                                            \
  STANDIN_REGISTER(name##_suite_register, #name, "", NULL, __VA_ARGS__) \
  struct standin_test

#define STANDIN_CHECK(then, condition, text, ...)                \
  do {                                                           \
    if (!(condition)) {                                          \
      standin_report(__FILE__, __LINE__, text, " " __VA_ARGS__); \
      then();                                                    \
    }                                                            \
  } while (0)

#define cr_assert(condition, ...) STANDIN_CHECK(standin_fail, condition, #condition, __VA_ARGS__)
#define cr_expect(condition, ...) \
  STANDIN_CHECK(standin_expect_failed, condition, #condition, __VA_ARGS__)
#define cr_assert_fail(...) STANDIN_CHECK(standin_fail, false, "reached", __VA_ARGS__)
/* In the process of a test, in its body or in what is called before it. */
#define cr_skip_test(...) standin_skip(__VA_ARGS__)
#define cr_log_info(...) ((void)printf("# " __VA_ARGS__), (void)printf("\n"))

#define cr_assert_not(condition, ...) cr_assert(!(condition), __VA_ARGS__)
#define cr_assert_null(value, ...) cr_assert((value) == NULL, __VA_ARGS__)
#define cr_assert_not_null(value, ...) cr_assert((value) != NULL, __VA_ARGS__)
#define cr_assert_eq(a, b, ...) cr_assert((a) == (b), __VA_ARGS__)
#define cr_assert_neq(a, b, ...) cr_assert((a) != (b), __VA_ARGS__)
#define cr_assert_lt(a, b, ...) cr_assert((a) < (b), __VA_ARGS__)
#define cr_assert_leq(a, b, ...) cr_assert((a) <= (b), __VA_ARGS__)
#define cr_assert_gt(a, b, ...) cr_assert((a) > (b), __VA_ARGS__)
#define cr_assert_geq(a, b, ...) cr_assert((a) >= (b), __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...) cr_assert(strcmp(a, b) == 0, __VA_ARGS__)
#define cr_assert_str_neq(a, b, ...) cr_assert(strcmp(a, b) != 0, __VA_ARGS__)
#define cr_assert_arr_eq(a, b, bytes, ...) cr_assert(memcmp(a, b, bytes) == 0, __VA_ARGS__)
#define cr_assert_str_empty(value, ...) cr_assert((value)[0] == '\0', __VA_ARGS__)
#define cr_assert_float_eq(a, b, most, ...) cr_assert(fabs((a) - (b)) <= (most), __VA_ARGS__)

#define cr_expect_not(condition, ...) cr_expect(!(condition), __VA_ARGS__)
#define cr_expect_null(value, ...) cr_expect((value) == NULL, __VA_ARGS__)
#define cr_expect_not_null(value, ...) cr_expect((value) != NULL, __VA_ARGS__)
#define cr_expect_eq(a, b, ...) cr_expect((a) == (b), __VA_ARGS__)
#define cr_expect_neq(a, b, ...) cr_expect((a) != (b), __VA_ARGS__)
#define cr_expect_lt(a, b, ...) cr_expect((a) < (b), __VA_ARGS__)
#define cr_expect_leq(a, b, ...) cr_expect((a) <= (b), __VA_ARGS__)
#define cr_expect_gt(a, b, ...) cr_expect((a) > (b), __VA_ARGS__)
#define cr_expect_geq(a, b, ...) cr_expect((a) >= (b), __VA_ARGS__)
#define cr_expect_str_eq(a, b, ...) cr_expect(strcmp(a, b) == 0, __VA_ARGS__)
#define cr_expect_arr_eq(a, b, bytes, ...) cr_expect(memcmp(a, b, bytes) == 0, __VA_ARGS__)
#define cr_expect_float_eq(a, b, most, ...) cr_expect(fabs((a) - (b)) <= (most), __VA_ARGS__)

#endif
