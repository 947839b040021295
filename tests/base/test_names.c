/* Every enumerator has a name of its own; values outside have none. */
#include "base/names.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/status.h"

static void check_distinct(const char *const names[], int count) {
  for (int i = 0; i < count; i++) {
    cr_assert_not_null(names[i], "enumerator %d has no name", i);
    for (int j = 0; j < i; j++) cr_assert_str_neq(names[i], names[j]);
  }
}

Test(names, cover_every_enumerator) {
  const char *names[COLL_DTYPE_COUNT];
  for (int i = 0; i < COLL_DTYPE_COUNT; i++) {
    names[i] = base_dtype_name((coll_dtype_t)i);
    size_t bytes = base_dtype_bytes((coll_dtype_t)i);
    cr_assert(bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8, "%s: %zu", names[i], bytes);
  }
  check_distinct(names, COLL_DTYPE_COUNT);
  for (int i = 0; i < COLL_OP_BUILTIN_COUNT; i++) names[i] = base_op_name((coll_op_t)i);
  check_distinct(names, COLL_OP_BUILTIN_COUNT);
}

Test(names, are_null_outside_the_enumerations) {
  cr_assert_null(base_dtype_name(COLL_DTYPE_COUNT));
  cr_assert_null(base_dtype_name((coll_dtype_t)-1));
  cr_assert_eq(base_dtype_bytes(COLL_DTYPE_COUNT), 0);
  cr_assert_null(base_op_name(COLL_OP_BUILTIN_COUNT));
  cr_assert_null(base_op_name((coll_op_t)-1));
  cr_assert_null(base_collective_name(COLL_COLLECTIVE_COUNT));
}

Test(names, find_collectives_by_name) {
  for (int i = 0; i < COLL_COLLECTIVE_COUNT; i++) {
    coll_collective_t found = COLL_COLLECTIVE_COUNT;
    cr_assert_eq(base_collective_find(base_collective_name((coll_collective_t)i), &found), COLL_OK);
    cr_assert_eq((int)found, i);
  }
  coll_collective_t original = COLL_BARRIER;
  cr_assert_eq(base_collective_find("allreduse", &original), COLL_ERROR_INVALID);
  cr_assert_not_null(strstr(base_last_error(), "'allreduce'"), "%s", base_last_error());
  cr_assert_eq(original, COLL_BARRIER);
}
