/* Sizes, counts and bandwidths, compared with values computed by hand. */
#include <criterion/criterion.h>
#include <math.h>

#include "bench/collectives.h"
#include "bench/result.h"

static bool is_close(double a, double b) {
  return fabs(a - b) < 1e-9;
}

Test(bandwidth, bus_factors) {
  cr_assert(is_close(bench_collective_bus_factor(COLL_ALLREDUCE, 4), 1.5));
  cr_assert(is_close(bench_collective_bus_factor(COLL_ALLREDUCE, 1), 0));
  cr_assert(is_close(bench_collective_bus_factor(COLL_REDUCE_SCATTER, 8), 0.875));
  cr_assert(is_close(bench_collective_bus_factor(COLL_ALLGATHER, 2), 0.5));
  cr_assert(is_close(bench_collective_bus_factor(COLL_GATHER, 4), 0.75));
  cr_assert(is_close(bench_collective_bus_factor(COLL_SCATTER, 4), 0.75));
  cr_assert(is_close(bench_collective_bus_factor(COLL_ALLTOALL, 5), 0.8));
  cr_assert(is_close(bench_collective_bus_factor(COLL_BROADCAST, 7), 1));
  cr_assert(is_close(bench_collective_bus_factor(COLL_REDUCE, 7), 1));
  cr_assert(is_close(bench_collective_bus_factor(COLL_SENDRECV, 7), 1));
  cr_assert(is_close(bench_collective_bus_factor(COLL_BARRIER, 7), 0));
  cr_assert(is_close(bench_collective_bus_factor(COLL_ALLGATHERV, 4), 0.75));
  cr_assert(is_close(bench_collective_bus_factor(COLL_REDUCE_SCATTERV, 4), 0.75));
  cr_assert(is_close(bench_collective_bus_factor(COLL_GATHERV, 4), 0.75));
  cr_assert(is_close(bench_collective_bus_factor(COLL_SCATTERV, 4), 0.75));
  /* Of 10 shares among 4 ranks, one stays on the rank and nine leave it. */
  cr_assert(is_close(bench_collective_bus_factor(COLL_ALLTOALLV, 4), 0.9));
}

Test(bandwidth, size_over_time) {
  bench_row_t row = {.collective = COLL_ALLREDUCE, .bytes = 64000000};
  bench_result_t result = {.ran = true, .time_us = 16000};
  cr_assert(is_close(bench_result_algbw(&row, &result), 4));
  cr_assert(is_close(bench_result_busbw(&row, &result, 4), 6));
  result.time_us = 0;
  cr_assert(is_close(bench_result_busbw(&row, &result, 4), 0));
}

Test(sizes, round_down_to_whole_elements_and_blocks) {
  cr_assert_eq(bench_collective_count(COLL_ALLREDUCE, 1003, COLL_FLOAT32, 4), 250);
  cr_assert_eq(bench_collective_bytes(COLL_ALLREDUCE, 250, COLL_FLOAT32, 4), 1000);
  cr_assert_eq(bench_collective_count(COLL_ALLGATHER, 1003, COLL_FLOAT32, 4), 62);
  cr_assert_eq(bench_collective_bytes(COLL_ALLGATHER, 62, COLL_FLOAT32, 4), 992);
  cr_assert_eq(bench_collective_count(COLL_REDUCE_SCATTER, 8, COLL_FLOAT64, 2), 0);
  cr_assert_eq(bench_collective_count(COLL_BARRIER, 1 << 20, COLL_FLOAT64, 2), 0);
  cr_assert_eq(bench_collective_count(COLL_BROADCAST, 7, COLL_INT8, 5), 7);
}

Test(alltoallv, every_rank_sends_the_same_and_no_more_than_the_size) {
  for (int ranks = 1; ranks <= 9; ranks++) {
    for (size_t count = 0; count < 50; count++) {
      size_t first = 0;
      for (int rank = 0; rank < ranks; rank++) {
        size_t sent = 0, received = 0;
        for (int peer = 0; peer < ranks; peer++) {
          sent += bench_alltoallv_count(count, ranks, rank, peer);
          received += bench_alltoallv_count(count, ranks, peer, rank);
        }
        if (rank == 0) first = sent;
        cr_assert(sent == received && sent == first && sent <= count * (size_t)ranks);
      }
    }
  }
  cr_assert_eq(bench_alltoallv_count(1000, 4, 0, 0), 400);
  cr_assert_eq(bench_alltoallv_count(1000, 4, 3, 2), 1600);
}
