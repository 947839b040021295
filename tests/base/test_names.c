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

/* Programs contain these numbers; those of NCCL's types are NCCL's. */
Test(names, dtypes_keep_their_numbers) {
  static const char *const in_order[COLL_DTYPE_COUNT] = {
      "int8",    "uint8",   "int32",    "uint32",      "int64",       "uint64", "float16",
      "float32", "float64", "bfloat16", "float8_e4m3", "float8_e5m2", "int16",  "uint16"};
  int integers = 0, signed_ones = 0;
  for (int i = 0; i < COLL_DTYPE_COUNT; i++) {
    const char *name = base_dtype_name((coll_dtype_t)i);
    bool is_integer = strstr(name, "int") != NULL, is_signed = is_integer && name[0] == 'i';
    cr_assert_str_eq(name, in_order[i]);
    cr_assert_eq(base_dtype_is_integer((coll_dtype_t)i), is_integer, "%s", name);
    cr_assert_eq(base_dtype_is_signed((coll_dtype_t)i), is_signed, "%s", name);
    integers += is_integer;
    signed_ones += is_signed;
  }
  cr_assert(integers == 8 && signed_ones == 4);
  cr_assert_not(base_dtype_is_integer(COLL_DTYPE_COUNT));
}

Test(names, ops_keep_their_numbers) {
  static const char *const in_order[COLL_OP_BUILTIN_COUNT] = {"sum", "prod", "max", "min",
                                                              "avg", "band", "bor", "bxor"};
  for (int i = 0; i < COLL_OP_BUILTIN_COUNT; i++) {
    cr_assert_str_eq(base_op_name((coll_op_t)i), in_order[i]);
    cr_assert_eq(base_op_takes((coll_op_t)i, COLL_FLOAT32), i <= COLL_AVG);
    cr_assert(base_op_takes((coll_op_t)i, COLL_UINT16));
  }
  cr_assert_eq(COLL_OP_CREATED_MIN, 256);
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
