/* Sizes and order of the axes; groups are found by mixed radix numbers over the coordinates. */
#include "libtrain/mesh/shape.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static const char *const names[TRAIN_MESH_GROUPS] = {"tp",   "cp", "dp",          "pp",
                                                     "data", "ep", "expert-data", "embedding"};

const char *train_mesh_group_name(train_mesh_group_t group) {
  return names[group];
}

/* ---- sizes ---- */

static long long product_of(const int size[TRAIN_MESH_AXES]) {
  long long product = 1;
  for (int axis = 0; axis < TRAIN_MESH_AXES; axis++) {
    product *= size[axis] > 0 ? size[axis] : 1;
    if (product > TRAIN_MESH_RANKS_MAX) return TRAIN_MESH_RANKS_MAX + 1LL;
  }
  return product;
}

/* How far a shape is from the one that was asked for. */
static double distance(const int wanted[TRAIN_MESH_AXES], const int size[TRAIN_MESH_AXES]) {
  double sum = 0;
  for (int axis = 0; axis < TRAIN_MESH_AXES; axis++) {
    bool any = wanted[axis] == 0 && axis == TRAIN_MESH_DP;
    if (!any) sum += fabs(log((double)size[axis] / (wanted[axis] > 0 ? wanted[axis] : 1)));
  }
  return sum;
}

/* The smallest divisor of a number that is greater than `than`; 0 if there is none. */
static int next_divisor(int number, int than) {
  for (int divisor = than + 1; divisor <= number; divisor++) {
    if (number % divisor == 0) return divisor;
  }
  return 0;
}

bool train_mesh_next_division(int ranks, int size[TRAIN_MESH_AXES]) {
  if (size[TRAIN_MESH_TP] == 0) size[TRAIN_MESH_TP] = size[TRAIN_MESH_CP] = 1;
  int *const counted[] = {&size[TRAIN_MESH_PP], &size[TRAIN_MESH_CP], &size[TRAIN_MESH_TP]};
  const int rests[] = {ranks / size[TRAIN_MESH_TP] / size[TRAIN_MESH_CP],
                       ranks / size[TRAIN_MESH_TP], ranks};
  for (int i = 0; i < 3; i++) {
    *counted[i] = next_divisor(rests[i], *counted[i]);
    if (*counted[i] > 0) {
      size[TRAIN_MESH_DP] = ranks / size[TRAIN_MESH_TP] / size[TRAIN_MESH_CP] / size[TRAIN_MESH_PP];
      return true;
    }
    *counted[i] = 1;
  }
  return false;
}

/* The shape of so many ranks that is nearest to the wanted one. */
static void find_nearest(const int wanted[TRAIN_MESH_AXES], int ranks, int nearest[]) {
  int size[TRAIN_MESH_AXES] = {0};
  double best = INFINITY;
  while (train_mesh_next_division(ranks, size)) {
    if (distance(wanted, size) >= best - 1e-9) continue;
    best = distance(wanted, size);
    memcpy(nearest, size, sizeof size);
  }
}

#define FLAGS_BYTES 80

/* "--tp 2 --pp 4": the axes of more than one rank, or dp alone. */
static const char *write_flags(const int size[TRAIN_MESH_AXES], char text[FLAGS_BYTES]) {
  int used = 0;
  text[0] = '\0';
  for (int axis = 0; axis < TRAIN_MESH_AXES; axis++) {
    if (size[axis] <= 1) continue;
    used += snprintf(text + used, FLAGS_BYTES - (size_t)used, "%s--%s %d", used > 0 ? " " : "",
                     names[axis], size[axis]);
  }
  if (used == 0) snprintf(text, FLAGS_BYTES, "--dp 1");
  return text;
}

static coll_status_t refuse_sizes(const int wanted[TRAIN_MESH_AXES], int ranks) {
  int nearest[TRAIN_MESH_AXES];
  char given[FLAGS_BYTES], better[FLAGS_BYTES];
  long long product = product_of(wanted);
  bool too_many = product > TRAIN_MESH_RANKS_MAX;
  const char *relation = product > ranks              ? "is more than"
                         : wanted[TRAIN_MESH_DP] == 0 ? "does not divide"
                                                      : "is less than";
  find_nearest(wanted, ranks, nearest);
  return base_fail(COLL_ERROR_INVALID,
                   "%s: the product %s%lld %s the job's %d rank%s; the nearest that fits is %s",
                   write_flags(wanted, given), too_many ? "of over " : "",
                   too_many ? product - 1 : product, relation, ranks, ranks > 1 ? "s" : "",
                   write_flags(nearest, better));
}

/* Replaces the sizes that are not given. */
static coll_status_t derive_sizes(const int given[TRAIN_MESH_AXES], int ranks,
                                  int size[TRAIN_MESH_AXES]) {
  int missing = 0, derived = TRAIN_MESH_DP;
  for (int axis = 0; axis < TRAIN_MESH_AXES; axis++) {
    if (given[axis] < 0 || given[axis] > TRAIN_MESH_RANKS_MAX) {
      return base_fail(COLL_ERROR_INVALID, "--%s %d: give 1 to %d, or 0 to derive it", names[axis],
                       given[axis], TRAIN_MESH_RANKS_MAX);
    }
    size[axis] = given[axis] > 0 ? given[axis] : 1;
    if (given[axis] == 0 && missing++ == 0) derived = axis;
  }
  long long product = product_of(given);
  if (missing > 1) derived = TRAIN_MESH_DP;
  bool derives = missing > 0 && given[derived] == 0;
  if (product > ranks || ranks % product != 0) return refuse_sizes(given, ranks);
  if (derives) size[derived] = (int)(ranks / product);
  return product_of(size) == ranks ? COLL_OK : refuse_sizes(given, ranks);
}

/* The divisor of `number` that is nearest to `wanted`; of two, the larger one. */
static int nearest_divisor(int number, int wanted) {
  int nearest = 1;
  for (int divisor = 1; divisor <= number; divisor++) {
    bool nearer = abs(divisor - wanted) <= abs(nearest - wanted);
    if (number % divisor == 0 && nearer) nearest = divisor;
  }
  return nearest;
}

static coll_status_t set_experts(const train_mesh_options_t *options, train_mesh_shape_t *shape) {
  int *size = shape->size, data = size[TRAIN_MESH_CP] * size[TRAIN_MESH_DP];
  int ep = options->ep == 0 ? 1 : options->ep, tp = size[TRAIN_MESH_TP];
  if (ep < 1 || data % ep != 0) {
    return base_fail(COLL_ERROR_INVALID,
                     "--ep %d does not divide dp x cp = %d x %d; the nearest that does is --ep %d",
                     ep, size[TRAIN_MESH_DP], size[TRAIN_MESH_CP], nearest_divisor(data, ep));
  }
  if (options->etp != 0 && options->etp != 1 && options->etp != tp) {
    int nearest = abs(tp - options->etp) <= abs(options->etp - 1) ? tp : 1;
    return base_fail(COLL_ERROR_INVALID,
                     "--etp %d: give 1 or %d, the ranks of tp; the nearest that fits is --etp %d",
                     options->etp, tp, nearest);
  }
  shape->etp = options->etp == 0 ? tp : options->etp;
  size[TRAIN_MESH_DATA] = data;
  size[TRAIN_MESH_EP] = ep;
  size[TRAIN_MESH_EXPERT_DATA] = data / ep * (tp / shape->etp);
  size[TRAIN_MESH_EMBEDDING] = size[TRAIN_MESH_PP] > 1 ? 2 : 1;
  return COLL_OK;
}

/* ---- order ---- */

/* Finds the first `length` characters of `text` among the names; "ep" is TRAIN_MESH_EP. */
static coll_status_t find_axis(const char *text, size_t length, const char *order,
                               train_mesh_group_t *axis) {
  char word[16];
  base_text_word(text, length, word, sizeof word);
  for (int group = 0; group < TRAIN_MESH_GROUPS; group++) {
    bool is_axis = group < TRAIN_MESH_AXES || group == TRAIN_MESH_EP;
    if (is_axis && strcmp(word, names[group]) == 0) {
      *axis = (train_mesh_group_t)group;
      return COLL_OK;
    }
  }
  return base_fail(COLL_ERROR_INVALID,
                   "--order %s: '%s' is no axis; give tp, cp, dp and pp from the innermost to the "
                   "outermost, such as tp-cp-dp-pp",
                   order, word);
}

/* Reads the order into shape->order; axes that are left out and have one rank are outermost. */
static coll_status_t read_order(const char *order, train_mesh_shape_t *shape) {
  bool is_seen[TRAIN_MESH_GROUPS] = {false};
  int count = 0;
  for (const char *at = order; *at != '\0';) {
    train_mesh_group_t axis = TRAIN_MESH_TP;
    size_t length = strcspn(at, "-");
    COLL_TRY(find_axis(at, length, order, &axis));
    if (is_seen[axis]) {
      return base_fail(COLL_ERROR_INVALID, "--order %s: it has %s twice", order, names[axis]);
    }
    is_seen[axis] = true;
    if (axis == TRAIN_MESH_EP) {
      bool is_after_cp = is_seen[TRAIN_MESH_CP] || shape->size[TRAIN_MESH_CP] == 1;
      shape->experts_far = is_seen[TRAIN_MESH_DP] && is_after_cp;
    } else {
      shape->order[count++] = axis;
    }
    at += length + (at[length] == '-');
  }
  for (int axis = 0; axis < TRAIN_MESH_AXES; axis++) {
    if (is_seen[axis]) continue;
    if (shape->size[axis] > 1) {
      return base_fail(COLL_ERROR_INVALID, "--order %s lacks %s, which has %d ranks", order,
                       names[axis], shape->size[axis]);
    }
    shape->order[count++] = (train_mesh_group_t)axis;
  }
  return COLL_OK;
}

coll_status_t train_mesh_shape_init(const train_mesh_options_t *options, int ranks,
                                    train_mesh_shape_t *shape) {
  train_mesh_shape_t made = {.ranks = ranks};
  assert(ranks >= 1 && ranks <= TRAIN_MESH_RANKS_MAX);
  COLL_TRY(derive_sizes(options->size, ranks, made.size));
  COLL_TRY(set_experts(options, &made));
  COLL_TRY(read_order(options->order != NULL ? options->order : TRAIN_MESH_ORDER, &made));
  for (int i = 0, stride = 1; i < TRAIN_MESH_AXES; i++) {
    made.stride[made.order[i]] = stride;
    stride *= made.size[made.order[i]];
  }
  *shape = made;
  return COLL_OK;
}

/* ---- groups ---- */

static int coordinate_on(const train_mesh_shape_t *shape, int axis, int place) {
  return place / shape->stride[axis] % shape->size[axis];
}

/* The number that the coordinates on the axes with a bit in `axes` make, the innermost first. */
static int number_of(const train_mesh_shape_t *shape, unsigned axes, int place) {
  int number = 0, unit = 1;
  for (int i = 0; i < TRAIN_MESH_AXES; i++) {
    int axis = shape->order[i];
    if ((axes & 1u << axis) == 0) continue;
    number += unit * coordinate_on(shape, axis, place);
    unit *= shape->size[axis];
  }
  return number;
}

enum {
  TP = 1u << TRAIN_MESH_TP,
  CP = 1u << TRAIN_MESH_CP,
  DP = 1u << TRAIN_MESH_DP,
  PP = 1u << TRAIN_MESH_PP,
  ALL = TP | CP | DP | PP
};

/* Where a place is in cp x dp as experts cut it. */
typedef struct expert_place {
  int part, within; /* part < ep, within < cp x dp / ep */
} expert_place_t;

static expert_place_t expert_place_of(const train_mesh_shape_t *shape, int place) {
  int data = number_of(shape, CP | DP, place), ep = shape->size[TRAIN_MESH_EP];
  int within = shape->size[TRAIN_MESH_DATA] / ep;
  if (shape->experts_far) return (expert_place_t){.part = data / within, .within = data % within};
  return (expert_place_t){.part = data % ep, .within = data / ep};
}

static bool cuts_experts(const train_mesh_shape_t *shape) {
  return shape->etp == shape->size[TRAIN_MESH_TP];
}

static int embedding_coordinate(const train_mesh_shape_t *shape, int place) {
  int stage = coordinate_on(shape, TRAIN_MESH_PP, place), last = shape->size[TRAIN_MESH_PP] - 1;
  if (stage == 0) return 0;
  return stage == last ? 1 : -1;
}

int train_mesh_coordinate(const train_mesh_shape_t *shape, train_mesh_group_t group, int place) {
  expert_place_t experts = expert_place_of(shape, place);
  int parts = shape->size[TRAIN_MESH_DATA] / shape->size[TRAIN_MESH_EP];
  switch (group) {
    case TRAIN_MESH_DATA: return number_of(shape, CP | DP, place);
    case TRAIN_MESH_EP: return experts.part;
    case TRAIN_MESH_EXPERT_DATA:
      return experts.within + (cuts_experts(shape) ? 0 : parts * number_of(shape, TP, place));
    case TRAIN_MESH_EMBEDDING: return embedding_coordinate(shape, place);
    default: return coordinate_on(shape, (int)group, place);
  }
}

int train_mesh_group_of(const train_mesh_shape_t *shape, train_mesh_group_t group, int place) {
  expert_place_t experts = expert_place_of(shape, place);
  const int *size = shape->size;
  int tp_pp = size[TRAIN_MESH_TP] * size[TRAIN_MESH_PP];
  switch (group) {
    case TRAIN_MESH_DATA: return number_of(shape, TP | PP, place);
    case TRAIN_MESH_EP: return number_of(shape, TP | PP, place) + tp_pp * experts.within;
    case TRAIN_MESH_EXPERT_DATA:
      return cuts_experts(shape) ? number_of(shape, TP | PP, place) + tp_pp * experts.part
                                 : number_of(shape, PP, place) + size[TRAIN_MESH_PP] * experts.part;
    case TRAIN_MESH_EMBEDDING:
      return embedding_coordinate(shape, place) < 0 ? -1 : number_of(shape, ALL & ~PP, place);
    default: return number_of(shape, ALL & ~(1u << group), place);
  }
}

int train_mesh_group_count(const train_mesh_shape_t *shape, train_mesh_group_t group) {
  int members = group == TRAIN_MESH_EMBEDDING ? shape->size[TRAIN_MESH_PP] : shape->size[group];
  return shape->ranks / members;
}

void train_mesh_members(const train_mesh_shape_t *shape, train_mesh_group_t group, int number,
                        int *places) {
  for (int place = 0; place < shape->ranks; place++) {
    if (train_mesh_group_of(shape, group, place) != number) continue;
    places[train_mesh_coordinate(shape, group, place)] = place;
  }
}

int train_mesh_place(const train_mesh_shape_t *shape, const int coordinates[TRAIN_MESH_AXES]) {
  int place = 0;
  for (int axis = 0; axis < TRAIN_MESH_AXES; axis++) {
    place += coordinates[axis] * shape->stride[axis];
  }
  return place;
}
