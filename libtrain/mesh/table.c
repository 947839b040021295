/* The table, and the texts that it shares with the picture. */
#include <stdio.h>
#include <string.h>

#include "libtrain/mesh/show.h"

/* ---- texts ---- */

bool train_mesh_is_shown(const train_mesh_shape_t *shape, train_mesh_group_t group) {
  return (group < TRAIN_MESH_AXES || group == TRAIN_MESH_EP) && shape->size[group] > 1;
}

const char *train_mesh_group_word(train_mesh_group_t group) {
  static const char *const words[TRAIN_MESH_GROUPS] = {
      "tensor", "context", "data", "pipeline", "data", "experts", "experts' data", "embedding"};
  return words[group];
}

coll_status_t train_mesh_where(const train_mesh_shape_t *shape, const train_placement_t *placement,
                               train_mesh_group_t group, char text[TRAIN_MESH_TEXT_BYTES]) {
  train_spread_t spread;
  COLL_TRY(train_placement_spread(placement, shape, group, &spread));
  if (spread.most == 1) {
    snprintf(text, TRAIN_MESH_TEXT_BYTES, "inside a host");
  } else if (spread.least == spread.most) {
    snprintf(text, TRAIN_MESH_TEXT_BYTES, "across %d hosts", spread.most);
  } else {
    snprintf(text, TRAIN_MESH_TEXT_BYTES, "across %d to %d hosts", spread.least, spread.most);
  }
  return COLL_OK;
}

static void append(char text[TRAIN_MESH_TEXT_BYTES], const char *between, const char *words) {
  size_t used = strlen(text);
  snprintf(text + used, TRAIN_MESH_TEXT_BYTES - used, "%s%s", used > 0 ? between : "", words);
}

void train_mesh_describe(const train_mesh_shape_t *shape, char text[TRAIN_MESH_TEXT_BYTES]) {
  char words[32];
  text[0] = '\0';
  for (int i = 0; i < TRAIN_MESH_AXES; i++) {
    train_mesh_group_t axis = shape->order[i];
    if (shape->size[axis] == 1) continue;
    snprintf(words, sizeof words, "%s %d", train_mesh_group_name(axis), shape->size[axis]);
    append(text, " x ", words);
  }
  if (text[0] == '\0') append(text, "", "dp 1");
  if (shape->size[TRAIN_MESH_EP] == 1) return;
  snprintf(words, sizeof words, "experts: ep %d, etp %d", shape->size[TRAIN_MESH_EP], shape->etp);
  append(text, "; ", words);
}

void train_mesh_write_order(const train_mesh_shape_t *shape, char text[TRAIN_MESH_TEXT_BYTES]) {
  text[0] = '\0';
  for (int i = 0; i < TRAIN_MESH_AXES; i++) {
    append(text, "-", train_mesh_group_name(shape->order[i]));
  }
}

/* ---- table ---- */

static coll_status_t print_axes(const train_mesh_shape_t *shape, const train_placement_t *placement,
                                FILE *out) {
  char where[TRAIN_MESH_TEXT_BYTES];
  fprintf(out, "%-4s %-8s  %6s  %6s  %6s  %s\n", "axis", "", "ranks", "groups", "stride",
          "each group is");
  for (int group = 0; group < TRAIN_MESH_GROUPS; group++) {
    train_mesh_group_t kind = (train_mesh_group_t)group;
    char stride[16] = "-";
    if (!train_mesh_is_shown(shape, kind)) continue;
    COLL_TRY(train_mesh_where(shape, placement, kind, where));
    if (group < TRAIN_MESH_AXES) snprintf(stride, sizeof stride, "%d", shape->stride[group]);
    fprintf(out, "%-4s %-8s  %6d  %6d  %6s  %s\n", train_mesh_group_name(kind),
            train_mesh_group_word(kind), shape->size[group], train_mesh_group_count(shape, kind),
            stride, where);
  }
  return COLL_OK;
}

static int longest_name(const train_placement_t *placement) {
  size_t longest = strlen("host");
  for (int host = 0; host < placement->hosts; host++) {
    size_t length = strlen(placement->host_names[host]);
    if (length > longest) longest = length;
  }
  return (int)longest;
}

static void print_ranks(const train_mesh_shape_t *shape, const train_placement_t *placement,
                        FILE *out) {
  int width = longest_name(placement);
  fprintf(out, "\n%5s  %-*s", "rank", width, "host");
  for (int group = 0; group < TRAIN_MESH_GROUPS; group++) {
    if (group < TRAIN_MESH_AXES || train_mesh_is_shown(shape, (train_mesh_group_t)group)) {
      fprintf(out, "  %4s", train_mesh_group_name((train_mesh_group_t)group));
    }
  }
  fputc('\n', out);
  for (int rank = 0; rank < shape->ranks; rank++) {
    fprintf(out, "%5d  %-*s", rank, width, placement->host_names[placement->host_of[rank]]);
    for (int group = 0; group < TRAIN_MESH_GROUPS; group++) {
      train_mesh_group_t kind = (train_mesh_group_t)group;
      if (group >= TRAIN_MESH_AXES && !train_mesh_is_shown(shape, kind)) continue;
      fprintf(out, "  %4d", train_mesh_coordinate(shape, kind, placement->place_of[rank]));
    }
    fputc('\n', out);
  }
}

coll_status_t train_mesh_table(const train_mesh_shape_t *shape, const train_placement_t *placement,
                               FILE *out) {
  char axes[TRAIN_MESH_TEXT_BYTES], order[TRAIN_MESH_TEXT_BYTES];
  train_mesh_describe(shape, axes);
  train_mesh_write_order(shape, order);
  fprintf(out, "%d rank%s on %d host%s: %s; order %s, the innermost first\n\n", shape->ranks,
          shape->ranks > 1 ? "s" : "", placement->hosts, placement->hosts > 1 ? "s" : "", axes,
          order);
  if (shape->ranks > 1) COLL_TRY(print_axes(shape, placement, out));
  print_ranks(shape, placement, out);
  return COLL_OK;
}
