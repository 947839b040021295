/* How many blocks a rank has of each buffer. */
#include <criterion/criterion.h>

#include "base/names.h"
#include "plan/plan.h"

Test(blocks, has_blocks_agrees_with_the_number_of_blocks) {
  for (int which = 0; which < COLL_COLLECTIVE_COUNT; which++) {
    plan_shape_t shape = {.collective = (coll_collective_t)which, .size = 3, .root = 1};
    for (int rank = 0; rank < shape.size; rank++) {
      for (int buffer = PLAN_INPUT; buffer <= PLAN_OUTPUT; buffer++) {
        bool has = plan_has_blocks(shape.collective, rank == shape.root, (plan_buffer_t)buffer);
        cr_assert_eq(has, plan_blocks(&shape, rank, (plan_buffer_t)buffer) > 0, "%s of %s, rank %d",
                     plan_buffer_name((plan_buffer_t)buffer),
                     base_collective_name(shape.collective), rank);
      }
    }
  }
}
