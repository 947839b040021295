/*
 * Criterion's tests with parameters, as far as the tests here use them: one test runs the body for
 * each parameter, one after the other.
 */
#ifndef TESTS_HARNESS_CRITERION_PARAMETERIZED_H
#define TESTS_HARNESS_CRITERION_PARAMETERIZED_H

#include <criterion/criterion.h>

struct criterion_test_params {
  size_t bytes; /* of one */
  void *array;
  size_t count;
};

#define cr_make_param_array(type, array, count) \
  ((struct criterion_test_params){sizeof(type), array, count})

#define ParameterizedTestParameters(suite, name) \
  static struct criterion_test_params suite##_##name##_parameters(void)

#define ParameterizedTest(parameter, suite, name, ...)                      \
  static void suite##_##name##_of_one(parameter);                           \
  Test(suite, name, __VA_ARGS__) {                                          \
    const struct criterion_test_params all = suite##_##name##_parameters(); \
    for (size_t i = 0; i < all.count; i++) {                                \
      suite##_##name##_of_one((void *)((char *)all.array + i * all.bytes)); \
    }                                                                       \
  }                                                                         \
  static void suite##_##name##_of_one(parameter)

#endif
