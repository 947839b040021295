/* Two threads that are timed together: that they work in step, what counts, and that they give up.
 */
#include <criterion/criterion.h>
#include <pthread.h>

#include "base/clock.h"
#include "comm/calibration/pair.h"

#define SLOW_NS 2000000u

typedef struct player {
  calibration_thread_t half;
  struct player *other;
  calibration_work_t *works[2];
  uint64_t ns[2];
  _Atomic int begun;
  int ended;
  bool out_of_step;
} player_t;

/* Neither begins a turn before the other has ended the one before. */
static void work_in_step(void *context, size_t size) {
  player_t *player = context;
  int turn = ++player->begun, theirs = player->other->begun;
  (void)size;
  if (theirs < turn - 1 || theirs > turn) player->out_of_step = true;
  player->ended++;
}

/* Half 1 alone, but the first time. */
static void work_long(void *context, size_t size) {
  player_t *player = context;
  player->ended++;
  if (player->half.number == 1 && player->ended > 1) base_clock_sleep_ns((uint32_t)size);
}

static void *play(void *context) {
  player_t *player = context;
  calibration_pair_time(&player->half, player, player->works, 2, SLOW_NS, 1, player->ns);
  return NULL;
}

static void run(player_t players[2], calibration_work_t *work, uint64_t late_ns) {
  static calibration_pair_t duet;
  pthread_t threads[2];
  duet = (calibration_pair_t){.late_ns = late_ns};
  for (int i = 0; i < 2; i++) {
    players[i] = (player_t){
        .half = {.duet = &duet, .number = i}, .other = &players[1 - i], .works = {work, work}};
  }
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, play, &players[i]);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

Test(duet, works_in_step) {
  player_t players[2];
  run(players, work_in_step, UINT64_MAX);
  for (int i = 0; i < 2; i++) {
    cr_assert(!players[i].out_of_step, "half %d", i);
    cr_assert_geq(players[i].ended, 2 * (1 + 4), "a warm-up, and four turns at least");
    cr_assert(players[i].ns[0] > 0 && players[i].ns[1] > 0);
  }
  cr_assert_eq(players[0].ended, players[1].ended);
}

Test(duet, takes_as_long_as_the_slower_half) {
  player_t players[2];
  run(players, work_long, UINT64_MAX);
  for (int i = 0; i < 2; i++) cr_assert_geq(players[i].ns[1], SLOW_NS, "half %d", i);
}

Test(duet, gives_up_when_it_is_late) {
  player_t players[2];
  run(players, work_in_step, 1);
  for (int i = 0; i < 2; i++) {
    cr_assert_eq(players[i].ended, 2, "no turn after the one in which it was late");
    cr_assert_eq(players[i].ns[0], 0);
  }
}
