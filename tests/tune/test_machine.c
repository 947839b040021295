/* Size classes, and interpolation of prices between measured sizes. */
#include <criterion/criterion.h>

#include "tune/machine.h"

Test(machine, a_class_covers_sizes_up_to_the_next) {
  for (int class = 4; class < TUNE_CLASSES - 1; class ++) {
    size_t smallest = tune_class_bytes(class), next = tune_class_bytes(class + 1);
    cr_assert_lt(smallest, next);
    cr_assert_eq(tune_class_of(smallest), class);
    cr_assert_eq(tune_class_of(next - 1), class);
    cr_assert_eq(tune_class_of(next), class + 1);
  }
  cr_assert_eq(tune_class_of(SIZE_MAX), TUNE_CLASSES - 1);
}

Test(machine, fine_classes_divide_a_power_of_two_into_eight) {
  for (size_t power = 16; power != 0; power <<= 1) {
    int class = tune_fine_class_of(power);
    cr_assert_lt(tune_fine_class_of(power - 1), class);
    for (int part = 0; part < 8; part++) {
      size_t smallest = power + power / 8 * (size_t)part, largest = smallest + (power / 8 - 1);
      cr_assert_eq(tune_fine_class_of(smallest), class + part);
      cr_assert_eq(tune_fine_class_of(largest), class + part);
      cr_assert_eq(tune_fine_class_bytes(smallest), smallest);
      cr_assert_eq(tune_fine_class_bytes(largest), smallest);
    }
  }
  cr_assert_eq(tune_fine_class_of(SIZE_MAX), TUNE_FINE_CLASSES - 1);
}

Test(machine, small_fine_classes_cover_one_size_each) {
  cr_assert_eq(tune_fine_class_of(0), tune_fine_class_of(1));
  cr_assert_eq(tune_fine_class_bytes(1), tune_fine_class_bytes(0));
  for (size_t bytes = 2; bytes < 16; bytes++) {
    cr_assert_lt(tune_fine_class_of(bytes - 1), tune_fine_class_of(bytes));
    cr_assert_eq(tune_fine_class_bytes(bytes), bytes);
  }
}

Test(machine, small_classes_cover_one_size_each) {
  cr_assert_eq(tune_class_of(0), 0);
  cr_assert_eq(tune_class_of(1), 0);
  cr_assert_eq(tune_class_of(2), 2);
  cr_assert_eq(tune_class_of(3), 3);
  cr_assert_eq(tune_class_of(4), 4);
  cr_assert_eq(tune_class_bytes(2), 2);
  cr_assert_eq(tune_class_bytes(3), 3);
}

Test(machine, prices_are_interpolated) {
  tune_machine_t machine = {.move_ps = {[TUNE_PUSH] = {100, 900, 500, 700}}};
  const uint32_t *ps = machine.move_ps[TUNE_PUSH];
  for (int i = 0; i < TUNE_SIZES; i++) {
    cr_assert_eq(tune_machine_move_ps(&machine, TUNE_PUSH, tune_sizes[i]), ps[i]);
  }
  cr_assert_eq(tune_machine_move_ps(&machine, TUNE_PUSH, 0), ps[0]);
  cr_assert_eq(tune_machine_move_ps(&machine, TUNE_PUSH, SIZE_MAX), ps[TUNE_SIZES - 1]);
  /* 16 KiB and 256 KiB are 8 classes apart. */
  cr_assert_eq(tune_machine_move_ps(&machine, TUNE_PUSH, 64 << 10), 500);
  cr_assert_eq(tune_machine_move_ps(&machine, TUNE_PUSH, 32 << 10), 300);
  cr_assert_eq(tune_machine_move_ps(&machine, TUNE_PUSH, 512 << 10), 700);
  cr_assert_eq(tune_machine_move_ps(&machine, TUNE_LOAD, 64 << 10), 0);
}
