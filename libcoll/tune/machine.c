/* Prices between two measured sizes are interpolated linearly over size classes. */
#include "tune/machine.h"

#include <assert.h>

const size_t tune_sizes[TUNE_SIZES] = {(size_t)16 << 10, (size_t)256 << 10, (size_t)1 << 20,
                                       (size_t)8 << 20};

const tune_machine_t tune_machine_builtin = {
    .fixed_ps = {[TUNE_CALL] = 90000,
                 [TUNE_ENTRY] = 50000,
                 [TUNE_HOP] = 80000,
                 [TUNE_MESSAGE] = 20000,
                 [TUNE_LINES] = 20000,
                 [TUNE_FLAG] = 12000,
                 [TUNE_STEP] = 15000,
                 [TUNE_SWITCH] = 1500000,
                 [TUNE_GET_CALL] = 600000,
                 [TUNE_DISTANT] = 2000000},
    .move_ps = {[TUNE_LOAD] = {5000, 10000, 20000, 20000},
                [TUNE_STORE] = {5000, 12000, 35000, 35000},
                [TUNE_LOAD_FAR] = {6000, 12000, 20000, 20000},
                [TUNE_STORE_FAR] = {7000, 14000, 40000, 40000},
                [TUNE_ALONG] = {14000, 14000, 40000, 40000},
                [TUNE_PUSH] = {14000, 12000, 14000, 16000},
                [TUNE_PULL] = {14000, 12000, 14000, 16000},
                [TUNE_NEAR] = {5000, 5000, 5000, 5000},
                [TUNE_GET] = {60000, 40000, 30000, 30000},
                [TUNE_FOLD] = {4000, 4000, 4000, 4000}},
};

/* Fixed costs: NCCL's tuning table (src/graph/tuning.cc), which states 6.6 us for a call and 0.6 us
 * for a message over NVLink by its LL protocol, both ends together. Moves: the 1.5 TB/s of an
 * A100's memory. */
const tune_machine_t tune_machine_gpu = {
    .fixed_ps = {[TUNE_CALL] = 6600000,
                 [TUNE_ENTRY] = 600000,
                 [TUNE_HOP] = 300000,
                 [TUNE_MESSAGE] = 300000,
                 [TUNE_FLAG] = 100000,
                 [TUNE_STEP] = 100000,
                 [TUNE_GET_CALL] = 600000},
    .move_ps = {[TUNE_LOAD] = {680, 680, 680, 680},
                [TUNE_STORE] = {680, 680, 680, 680},
                [TUNE_LOAD_FAR] = {680, 680, 680, 680},
                [TUNE_STORE_FAR] = {680, 680, 680, 680},
                [TUNE_ALONG] = {680, 680, 680, 680},
                [TUNE_PUSH] = {680, 680, 680, 680},
                [TUNE_PULL] = {680, 680, 680, 680},
                [TUNE_NEAR] = {340, 340, 340, 340},
                [TUNE_FOLD] = {0, 0, 0, 0}},
};

/* Bytes as above. */
#define COPY_MOVES                                                                   \
  {                                                                                  \
    [TUNE_LOAD] = {680, 680, 680, 680}, [TUNE_STORE] = {680, 680, 680, 680},         \
    [TUNE_LOAD_FAR] = {680, 680, 680, 680}, [TUNE_STORE_FAR] = {680, 680, 680, 680}, \
    [TUNE_ALONG] = {680, 680, 680, 680}, [TUNE_PUSH] = {680, 680, 680, 680},         \
    [TUNE_PULL] = {680, 680, 680, 680}, [TUNE_NEAR] = {680, 680, 680, 680},          \
    [TUNE_FOLD] = {0, 0, 0, 0},                                                      \
  }

/* Some microseconds for each operation of a stream: an end of a message is a copy, a wait and a
 * store of a flag. The sum of 8 bytes of two ranks is then that measured on an H200, 32 us. */
const tune_machine_t tune_machine_copy = {
    .fixed_ps = {[TUNE_CALL] = 10000000,
                 [TUNE_ENTRY] = 10000000,
                 [TUNE_HOP] = 6000000,
                 [TUNE_MESSAGE] = 6000000,
                 [TUNE_FLAG] = 2000000,
                 [TUNE_STEP] = 4000000,
                 [TUNE_GET_CALL] = 4000000},
    .move_ps = COPY_MOVES,
};

/* Fits what was measured on an H200 in 2, 4 and 8 processes: an allreduce by butterfly takes 0.25,
 * 1.4 and 3.1 to 4.1 ms, an alltoall by allpairs 0.22, 0.96 and 2.8 ms, whatever the bytes up to 1
 * MiB. */
const tune_machine_t tune_machine_turns = {
    .fixed_ps = {[TUNE_CALL] = 10000000,
                 [TUNE_ENTRY] = 10000000,
                 [TUNE_HOP] = 6000000,
                 [TUNE_MESSAGE] = 20000000,
                 [TUNE_FLAG] = 10000000,
                 [TUNE_STEP] = 4000000,
                 [TUNE_SWITCH] = 120000000,
                 [TUNE_GET_CALL] = 4000000},
    .move_ps = COPY_MOVES,
};

size_t tune_class_bytes(int class) {
  assert(class >= 0 && class < TUNE_CLASSES);
  if (class < 2) return (size_t) class;
  return ((size_t)2 + (size_t)(class % 2)) << (class / 2 - 1);
}

size_t tune_fine_class_bytes(size_t bytes) {
  if (bytes < 16) return bytes < 2 ? 0 : bytes;
  int below = 60 - __builtin_clzll((unsigned long long)bytes); /* bits after the first four */
  return bytes >> below << below;
}

uint64_t tune_machine_move_ps(const tune_machine_t *machine, tune_move_t move, size_t bytes) {
  const uint32_t *ps = machine->move_ps[move];
  int class = tune_class_of(bytes), above = 0;
  while (above < TUNE_SIZES && tune_class_of(tune_sizes[above]) <= class) above++;
  if (above == 0) return ps[0];
  if (above == TUNE_SIZES) return ps[TUNE_SIZES - 1];
  int from = tune_class_of(tune_sizes[above - 1]), to = tune_class_of(tune_sizes[above]);
  return ((uint64_t)ps[above - 1] * (uint64_t)(to - class) +
          (uint64_t)ps[above] * (uint64_t)(class - from)) /
         (uint64_t)(to - from);
}

const char *tune_fixed_name(tune_fixed_t fixed) {
  static const char *const names[TUNE_FIXED_COUNT] = {
      "call", "entry", "hop", "message", "lines", "flag", "step", "switch", "get_call", "distant"};
  assert((unsigned)fixed < TUNE_FIXED_COUNT);
  return names[fixed];
}

const char *tune_move_name(tune_move_t move) {
  static const char *const names[TUNE_MOVE_COUNT] = {"load",  "store", "load_far", "store_far",
                                                     "along", "push",  "pull",     "near",
                                                     "get",   "fold",  "cross"};
  assert((unsigned)move < TUNE_MOVE_COUNT);
  return names[move];
}
