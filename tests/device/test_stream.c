/* The size from which destinations are streamed; smaller ones never are. */
#include <criterion/criterion.h>

#include "device/host/host.h"

Test(stream, uses_the_size_that_was_set) {
  for (int work = 0; work < HOST_WORK_COUNT; work++) {
    host_stream_set(4096);
    cr_assert(host_stream_pays(4096, (host_work_t)work));
    cr_assert_not(host_stream_pays(4095, (host_work_t)work));
    host_stream_set(SIZE_MAX);
    cr_assert_not(host_stream_pays(SIZE_MAX - 1, (host_work_t)work));
  }
}

Test(stream, derives_a_size_from_the_cache) {
  host_stream_set(0);
  for (int work = 0; work < HOST_WORK_COUNT; work++) {
    cr_assert_not(host_stream_pays(65536, (host_work_t)work));
    cr_assert(host_stream_pays((size_t)1 << 40, (host_work_t)work));
  }
}

#define LEAST_OF_ALL ((size_t)1 << 20)

/* Unless the last-level cache is so small that both have the lower limit. */
Test(stream, streams_reductions_from_a_smaller_size_than_copies) {
  host_stream_set(0);
  cr_assert(host_stream_pays((size_t)1 << 40, HOST_COPY));
  size_t least = atomic_load(&host_stream_min[HOST_COPY]);
  cr_assert(host_stream_pays(least, HOST_COPY) && host_stream_pays(least, HOST_REDUCE));
  cr_assert_not(host_stream_pays(least - 1, HOST_COPY));
  cr_assert_eq(host_stream_pays(least - 1, HOST_REDUCE), least > LEAST_OF_ALL);
}

/* Each communicator calls host_stream_set. That must not make its first large call look up the
 * cache again. */
Test(stream, looks_up_the_cache_once) {
  host_stream_set(0);
  cr_assert(host_stream_pays((size_t)1 << 40, HOST_COPY));
  size_t found = atomic_load(&host_stream_min[HOST_COPY]);
  host_stream_set(4096);
  host_stream_set(0);
  cr_assert_eq(atomic_load(&host_stream_min[HOST_COPY]), found);
}
