/*
 * Simulates the ranks: advances all of them, round after round, until none can continue. A small
 * send never waits; a large one waits for its receive, a receive for its send, and a collective for
 * all ranks' collectives of its number. A call that differs from its counterpart never completes.
 * Ranks that have then not reached their end would wait for ever in a library without reports:
 * these must report.
 */
#include "call_oracle.h"

#include <string.h>

#define STEPS_MAX (CALL_KIND_CALLS_MAX + 1)
#define CALLS_MAX (CALL_KIND_CALLS_MAX + 1)
#define SEND_BYTES_MAX ((size_t)256 << 10) /* a send of more than this may wait for its receive */

/* One call of a rank: its number among the rank's collectives, or among its messages to or from the
 * peer. */
typedef struct item {
  const call_t *call;
  int step, number;
  int group_size, group_place; /* number of collectives in its group, and its index among them */
} item_t;

typedef struct player {
  int item_count, step_count;
  item_t items[CALLS_MAX];
  int step; /* the current step; step_count at the end */
} player_t;

static const call_t barrier = {.verb = COLL_BARRIER};

static bool is_message(const call_t *call) {
  return call->verb == CALL_SEND || call->verb == CALL_RECV;
}

static bool is_large(const call_t *call) {
  return coll_dtype_bytes(call->dtype) * call->count > SEND_BYTES_MAX;
}

static int count_like(const player_t *player, const call_t *call, int rank) {
  int like = 0;
  for (int i = 0; i < player->item_count; i++) {
    const call_t *other = player->items[i].call;
    if (is_message(call)) {
      like += other->verb == call->verb && call_peer(other, rank) == call_peer(call, rank);
    } else {
      like += !is_message(other);
    }
  }
  return like;
}

static void add(player_t *player, int rank, const call_t *call, int step) {
  int number = count_like(player, call, rank);
  player->items[player->item_count++] = (item_t){call, step, number, 1, 0};
}

static void make_player(player_t *player, int rank, const call_kind_t *kind) {
  *player = (player_t){0};
  int collectives = 0;
  for (int i = 0; i < kind->call_count; i++) {
    add(player, rank, &kind->calls[i], kind->grouped ? 0 : i);
    if (is_message(&kind->calls[i])) continue;
    player->items[i].group_place = kind->grouped ? collectives : 0;
    collectives++;
  }
  for (int i = 0; i < kind->call_count; i++) {
    if (kind->grouped) player->items[i].group_size = collectives;
  }
  int steps = kind->grouped ? 1 : kind->call_count;
  add(player, rank, &barrier, steps);
  player->step_count = steps + 1;
}

/* ---- what is compared -----------------------------------------------------------------------*/

static const item_t *find_collective(const player_t *player, int number) {
  for (int i = 0; i < player->item_count; i++) {
    const item_t *item = &player->items[i];
    if (!is_message(item->call) && item->number == number) return item;
  }
  return NULL;
}

static bool same_algo(const call_t *a, const call_t *b) {
  if (a->algo == NULL || b->algo == NULL) return a->algo == b->algo;
  return strcmp(a->algo, b->algo) == 0;
}

static bool same_group(const item_t *a, const item_t *b) {
  return a->group_size == b->group_size && a->group_place == b->group_place;
}

static bool same_shape(const call_t *a, const call_t *b) {
  if (a->verb != b->verb) return false;
  if (a->verb == COLL_ALLTOALLV) {
    return a->dtype == b->dtype && a->count == b->recv_count && a->recv_count == b->count;
  }
  return a->dtype == b->dtype && a->op == b->op && a->count == b->count && a->step == b->step &&
         a->root == b->root;
}

static bool same_collective(const item_t *a, const item_t *b) {
  return same_shape(a->call, b->call) && same_algo(a->call, b->call) && same_group(a, b);
}

/* Finds the lowest number whose collectives differ. */
static void find_difference(const player_t players[], int size, call_verdict_t *verdict) {
  verdict->differ_number = -1;
  for (int number = 0; number < CALLS_MAX; number++) {
    for (int a = 0; a < size; a++) {
      for (int b = a + 1; b < size; b++) {
        const item_t *one = find_collective(&players[a], number);
        const item_t *other = find_collective(&players[b], number);
        if (one == NULL || other == NULL || same_collective(one, other)) continue;
        bool shape = same_shape(one->call, other->call);
        verdict->differ_number = number;
        verdict->differ_ranks[0] = a;
        verdict->differ_ranks[1] = b;
        verdict->differ_in_group = shape && !same_group(one, other);
        verdict->differ_in_algorithm = shape && !same_algo(one->call, other->call);
        return;
      }
    }
  }
}

/* The receive of a send, or the send of a receive; NULL if there is none. */
static const item_t *find_counterpart(const player_t players[], int rank, const item_t *item) {
  int peer = call_peer(item->call, rank);
  int verb = item->call->verb == CALL_SEND ? CALL_RECV : CALL_SEND;
  for (int i = 0; i < players[peer].item_count; i++) {
    const item_t *other = &players[peer].items[i];
    if (other->call->verb == verb && call_peer(other->call, peer) == rank &&
        other->number == item->number) {
      return other;
    }
  }
  return NULL;
}

/* ---- playing --------------------------------------------------------------------------------*/

static bool has_begun(const player_t *player, const item_t *item) {
  return player->step >= item->step;
}

static bool collective_is_done(const player_t players[], int size, const item_t *item,
                               int differ_number) {
  if (differ_number >= 0 && item->number >= differ_number) return false;
  for (int rank = 0; rank < size; rank++) {
    const item_t *other = find_collective(&players[rank], item->number);
    if (other == NULL || !has_begun(&players[rank], other)) return false;
  }
  return true;
}

static bool item_is_done(const player_t players[], int size, int rank, const item_t *item,
                         const call_verdict_t *verdict, bool sends_wait) {
  if (!is_message(item->call)) {
    return collective_is_done(players, size, item, verdict->differ_number);
  }
  const item_t *other = find_counterpart(players, rank, item);
  if (item->call->verb == CALL_SEND && (!is_large(item->call) || !sends_wait)) return true;
  if (other == NULL || !has_begun(&players[call_peer(item->call, rank)], other)) return false;
  return item->call->dtype == other->call->dtype && item->call->count == other->call->count;
}

static bool step_is_done(const player_t players[], int size, int rank,
                         const call_verdict_t *verdict, bool sends_wait) {
  const player_t *player = &players[rank];
  for (int i = 0; i < player->item_count; i++) {
    if (player->items[i].step != player->step) continue;
    if (!item_is_done(players, size, rank, &player->items[i], verdict, sends_wait)) return false;
  }
  return true;
}

/* Whether all ranks reach their end. */
static bool play(player_t players[], int size, const call_verdict_t *verdict, bool sends_wait) {
  bool moved = true, all = true;
  for (int rank = 0; rank < size; rank++) players[rank].step = 0;
  while (moved) {
    moved = false;
    for (int rank = 0; rank < size; rank++) {
      if (players[rank].step == players[rank].step_count) continue;
      if (!step_is_done(players, size, rank, verdict, sends_wait)) continue;
      players[rank].step++;
      moved = true;
    }
  }
  for (int rank = 0; rank < size; rank++) {
    all = all && players[rank].step == players[rank].step_count;
  }
  return all;
}

static bool has_untaken(const player_t players[], int size) {
  for (int rank = 0; rank < size; rank++) {
    for (int i = 0; i < players[rank].item_count; i++) {
      const item_t *item = &players[rank].items[i];
      if (item->call->verb == CALL_SEND && find_counterpart(players, rank, item) == NULL) {
        return true;
      }
    }
  }
  return false;
}

void call_oracle_judge(const call_kind_t *const kinds[], int size, call_verdict_t *verdict) {
  player_t players[CALL_RANKS_MAX];
  *verdict = (call_verdict_t){0};
  for (int rank = 0; rank < size; rank++) make_player(&players[rank], rank, kinds[rank]);
  find_difference(players, size, verdict);
  verdict->untaken = has_untaken(players, size);
  verdict->may_buffer = play(players, size, verdict, false) && verdict->untaken;
  bool all = play(players, size, verdict, true);
  verdict->legal = all && !verdict->untaken;
  for (int rank = 0; rank < size; rank++) {
    verdict->must_report[rank] = players[rank].step < players[rank].step_count;
  }
}

/* ---- sentences ------------------------------------------------------------------------------*/

/* The next occurrence of the text as a whole word, or NULL. */
static const char *find_text(const char *sentence, const char *text) {
  size_t length = strlen(text);
  for (const char *at = sentence; (at = strstr(at, text)) != NULL; at++) {
    if (at[length] != '\0' && strchr("(,)", at[length]) != NULL) return at;
  }
  return NULL;
}

static bool names_both(const char *sentence, const char *one, const char *other) {
  const char *first = find_text(sentence, one);
  while (first != NULL) {
    for (const char *second = find_text(sentence, other); second != NULL;
         second = find_text(second + 1, other)) {
      if (second != first) return true;
    }
    first = find_text(first + 1, one);
  }
  return false;
}

static bool names_algo(const char *sentence, const call_t *call) {
  return call->algo == NULL || strstr(sentence, call->algo) != NULL;
}

/* Whether the report names two ranks that differ in their collectives of that number. */
static bool names_items(const item_t *one, int a, const item_t *other, int b,
                        const char *sentence) {
  char texts[2][CALL_TEXT_BYTES];
  call_describe(one->call, a, texts[0]);
  call_describe(other->call, b, texts[1]);
  bool alike = same_shape(one->call, other->call);
  if (alike && !same_group(one, other) && strstr(sentence, "group") == NULL) return false;
  if (alike && !same_algo(one->call, other->call) &&
      !(names_algo(sentence, one->call) && names_algo(sentence, other->call))) {
    return false;
  }
  return names_both(sentence, texts[0], texts[1]);
}

/* Accepts any two ranks that differ: if there are several pairs, any of them may be found first. */
static bool names_difference(const player_t players[], int size, const call_verdict_t *verdict,
                             const char *sentence) {
  for (int a = 0; a < size; a++) {
    for (int b = 0; b < size; b++) {
      const item_t *one = find_collective(&players[a], verdict->differ_number);
      const item_t *other = find_collective(&players[b], verdict->differ_number);
      if (one == NULL || other == NULL || same_collective(one, other)) continue;
      if (names_items(one, a, other, b, sentence)) return true;
    }
  }
  return false;
}

static bool any_of_two_ranks(const player_t players[], int a, int b, const char *sentence) {
  char one[CALL_TEXT_BYTES], other[CALL_TEXT_BYTES];
  for (int i = 0; i < players[a].item_count; i++) {
    for (int j = 0; j < players[b].item_count; j++) {
      call_describe(players[a].items[i].call, a, one);
      call_describe(players[b].items[j].call, b, other);
      if (names_both(sentence, one, other)) return true;
    }
  }
  return false;
}

static bool names_any(const player_t *player, int rank, bool sends_only, const char *sentence) {
  char text[CALL_TEXT_BYTES];
  for (int i = 0; i < player->item_count; i++) {
    const call_t *call = player->items[i].call;
    call_describe(call, rank, text);
    if (sends_only && call->verb != CALL_SEND) continue;
    if (find_text(sentence, text) != NULL) return true;
  }
  return false;
}

static bool uses_messages(const call_kind_t *const kinds[], int size) {
  for (int rank = 0; rank < size; rank++) {
    for (int i = 0; i < kinds[rank]->call_count; i++) {
      if (is_message(&kinds[rank]->calls[i])) return true;
    }
  }
  return false;
}

bool call_oracle_accepts(const call_kind_t *const kinds[], int size, const call_verdict_t *verdict,
                         bool returned, const char *sentence) {
  player_t players[CALL_RANKS_MAX];
  bool ended = returned, waits = false;
  for (int rank = 0; rank < size; rank++) {
    make_player(&players[rank], rank, kinds[rank]);
    ended = ended || !verdict->must_report[rank];
    waits = waits || (verdict->must_report[rank] && !returned);
  }
  /* A wait for a rank that has exited has no second call, and neither has an unreceived message. */
  for (int rank = 0; ended && rank < size; rank++) {
    if (names_any(&players[rank], rank, !waits, sentence)) return true;
  }
  if (ended) return false;
  if (!uses_messages(kinds, size)) return names_difference(players, size, verdict, sentence);
  for (int a = 0; a < size; a++) {
    for (int b = 0; b < size; b++) {
      if (a != b && any_of_two_ranks(players, a, b, sentence)) return true;
    }
  }
  return false;
}
