/*
 * Panels below each other, one for each axis of several ranks. All have the same hosts and ranks at
 * the same positions; colours, numbers and lines are those of the axis.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/svg.h"
#include "libtrain/mesh/show.h"

enum {
  MARGIN = 24,
  HEAD = 72,        /* of the picture */
  PANEL_HEAD = 44,  /* of a panel */
  PANEL_GAP = 4,    /* between panels */
  CELL = 24,        /* a rank */
  CELL_GAP = 4,     /* between ranks */
  HOST_HEAD = 26,   /* the name of a host */
  HOST_INSIDE = 8,  /* around the ranks of a host */
  HOST_GAP = 12,    /* between hosts */
  WIDTH_MAX = 1000, /* of the hosts in a row */
  WIDTH_MIN = 560,  /* of the picture, for its texts */
  HOST_COLUMNS = 8, /* ranks in a row of a host */
  COLOURS = 8
};

/* Fill and stroke on light and on dark pages. */
static const char *const looks[COLOURS][4] = {
    {"#dae7fb", "#3b7dd8", "#16294a", "#5b97ea"}, {"#d6f0dd", "#349a5b", "#17382a", "#4dbd7a"},
    {"#fbe6cf", "#d9822b", "#4a2f12", "#e99a4c"}, {"#e9e2f8", "#8a6fd1", "#2a2145", "#a48be6"},
    {"#d3f0f2", "#1a9aa6", "#123a3e", "#3fbac6"}, {"#fadbe3", "#d1567a", "#4a1a2a", "#e87b9b"},
    {"#efe9c9", "#a8951f", "#3d3810", "#c9b545"}, {"#e1e5ea", "#7b8794", "#2b333e", "#8a97a6"}};

typedef struct picture {
  const train_mesh_shape_t *shape;
  const train_placement_t *placement;
  int host_columns, host_rows; /* ranks in the largest host */
  int columns, rows;           /* hosts in a panel */
  double host_width, host_height, width, height;
} picture_t;

/* ---- sizes ---- */

static int ranks_of_host(const train_placement_t *placement, int host) {
  int count = 0;
  for (int rank = 0; rank < placement->ranks; rank++) count += placement->host_of[rank] == host;
  return count;
}

static int panels_of(const train_mesh_shape_t *shape) {
  int panels = 0;
  for (int group = 0; group < TRAIN_MESH_GROUPS; group++) {
    panels += train_mesh_is_shown(shape, (train_mesh_group_t)group);
  }
  return panels;
}

static double panel_height(const picture_t *picture) {
  return PANEL_HEAD + picture->rows * (picture->host_height + HOST_GAP) + PANEL_GAP;
}

static picture_t picture_of(const train_mesh_shape_t *shape, const train_placement_t *placement) {
  picture_t picture = {.shape = shape, .placement = placement};
  int most = 1, hosts = placement->hosts;
  for (int host = 0; host < hosts; host++) {
    int ranks = ranks_of_host(placement, host);
    if (ranks > most) most = ranks;
  }
  picture.host_columns = most < HOST_COLUMNS ? most : hosts == 1 ? 2 * HOST_COLUMNS : HOST_COLUMNS;
  if (picture.host_columns > most) picture.host_columns = most;
  picture.host_rows = (most + picture.host_columns - 1) / picture.host_columns;
  picture.host_width = 2 * HOST_INSIDE - CELL_GAP + picture.host_columns * (CELL + CELL_GAP);
  if (picture.host_width < 80) picture.host_width = 80; /* for the name */
  picture.host_height = HOST_HEAD + HOST_INSIDE - CELL_GAP + picture.host_rows * (CELL + CELL_GAP);
  picture.columns = (int)((WIDTH_MAX + HOST_GAP) / (picture.host_width + HOST_GAP));
  if (picture.columns > hosts) picture.columns = hosts;
  picture.rows = (hosts + picture.columns - 1) / picture.columns;
  picture.width = 2 * MARGIN - HOST_GAP + picture.columns * (picture.host_width + HOST_GAP);
  if (picture.width < WIDTH_MIN) picture.width = WIDTH_MIN;
  picture.height = HEAD + panels_of(shape) * panel_height(&picture);
  return picture;
}

static double host_x(const picture_t *picture, int host) {
  return MARGIN + host % picture->columns * (picture->host_width + HOST_GAP);
}

static double host_y(const picture_t *picture, double top, int host) {
  return top + PANEL_HEAD + (double)(host / picture->columns) * (picture->host_height + HOST_GAP);
}

/* The upper left corner of the cell of the place: of the so-many-th rank of its host. */
static void cell_at(const picture_t *picture, double top, int place, double *x, double *y) {
  const train_placement_t *placement = picture->placement;
  int host = placement->host_of[placement->rank_at[place]], first = place;
  while (first > 0 && placement->host_of[placement->rank_at[first - 1]] == host) first--;
  int index = place - first;
  *x = host_x(picture, host) + HOST_INSIDE + index % picture->host_columns * (CELL + CELL_GAP);
  *y = host_y(picture, top, host) + HOST_HEAD +
       (double)(index / picture->host_columns) * (CELL + CELL_GAP);
}

/* ---- elements ---- */

/* The classes of groups, then that of the first group, which overrides its colour. */
static void write_looks(int fill, int stroke, FILE *out) {
  for (int i = 0; i < COLOURS; i++) {
    fprintf(out, ".g%d{fill:%s;stroke:%s}\n", i, looks[i][fill], looks[i][stroke]);
  }
  fprintf(out, ".first{fill:%s}.line{stroke:%s}\n", looks[0][stroke], looks[0][stroke]);
}

static void begin(const picture_t *picture, FILE *out) {
  fprintf(out,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
          "viewBox=\"0 0 %.0f %.0f\">\n<style>\n"
          "text{font-family:Inter,'Helvetica Neue',Helvetica,Arial,'DejaVu Sans',sans-serif;"
          "fill:#1f2933;font-size:11px}\n"
          ".bg{fill:#fff}.title{font-size:17px;font-weight:700}.axis{font-size:13px;"
          "font-weight:600}\n.s{fill:#56616e}.h{font-size:10.5px;font-weight:600}"
          ".host{fill:#f3f5f8;stroke:#bcc6d1}\n"
          ".line{fill:none;stroke-width:1.6;stroke-linecap:round}\n",
          picture->width, picture->height, picture->width, picture->height);
  write_looks(0, 1, out);
  fputs(
      ".v{fill:#fff}\n@media (prefers-color-scheme:dark){\n"
      "text{fill:#e6ebf1}.bg{fill:#11161d}.s{fill:#9aa7b5}.host{fill:#1a212b;stroke:#3f4b5a}\n",
      out);
  write_looks(2, 3, out);
  fputs(".v{fill:#11161d}}\n</style>\n<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n", out);
}

static void write_head(const picture_t *picture, FILE *out) {
  char axes[TRAIN_MESH_TEXT_BYTES], title[2 * TRAIN_MESH_TEXT_BYTES];
  train_mesh_describe(picture->shape, axes);
  snprintf(title, sizeof title, "%d ranks: %s", picture->shape->ranks, axes);
  base_svg_text(MARGIN, 32, "title", "start", title, out);
  base_svg_text(
      MARGIN, 52, "s", "start",
      "Ranks of one colour are a group, with their coordinates in it; colours repeat after "
      "8 groups. One group is joined by a line.",
      out);
}

static void write_tooltip(const picture_t *picture, int place, FILE *out) {
  fprintf(out, "<title>rank %d:", picture->placement->rank_at[place]);
  for (int axis = 0; axis < TRAIN_MESH_AXES; axis++) {
    train_mesh_group_t group = (train_mesh_group_t)axis;
    fprintf(out, " %s %d", train_mesh_group_name(group),
            train_mesh_coordinate(picture->shape, group, place));
  }
  fputs("</title>", out);
}

static void write_hosts(const picture_t *picture, double top, FILE *out) {
  for (int host = 0; host < picture->placement->hosts; host++) {
    double x = host_x(picture, host), y = host_y(picture, top, host);
    fprintf(out,
            "<rect class=\"host\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
            "rx=\"6\"/>\n",
            x, y, picture->host_width, picture->host_height);
    base_svg_text(x + HOST_INSIDE, y + 13, "h", "start", picture->placement->host_names[host], out);
  }
}

static void write_cells(const picture_t *picture, train_mesh_group_t group, double top, FILE *out) {
  for (int place = 0; place < picture->shape->ranks; place++) {
    char coordinate[16];
    double x, y;
    int number = train_mesh_group_of(picture->shape, group, place);
    cell_at(picture, top, place, &x, &y);
    fprintf(out, "<rect class=\"g%d%s\" x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" rx=\"4\">",
            number % COLOURS, number == 0 ? " first" : "", x, y, CELL, CELL);
    write_tooltip(picture, place, out);
    fputs("</rect>\n", out);
    snprintf(coordinate, sizeof coordinate, "%d",
             train_mesh_coordinate(picture->shape, group, place));
    base_svg_text(x + CELL / 2.0, y + CELL / 2.0 + 4, number == 0 ? "v" : "c", "middle", coordinate,
                  out);
  }
}

/* From the top of one cell to the top of another, above what is between them; to a lower host from
 * the bottom. */
static void write_arc(const double from[2], const double to[2], FILE *out) {
  double x1 = from[0] + CELL / 2.0, x2 = to[0] + CELL / 2.0, y1 = from[1], y2 = to[1];
  double bend = 5 + fmin(fabs(x2 - x1) / 24, 10);
  if (y2 > y1) {
    y1 += CELL;
    bend = (y2 - y1) / 2;
    fprintf(out, "M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f", x1, y1, x1, y1 + bend, x2, y2 - bend,
            x2, y2);
  } else {
    fprintf(out, "M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f", x1, y1, x1, y1 - bend, x2, y2 - bend,
            x2, y2);
  }
}

/* Joins the cells of the first group, in the order of coordinates. */
static void write_line(const picture_t *picture, train_mesh_group_t group, double top, FILE *out) {
  double last[2] = {0}, next[2];
  fputs("<path class=\"line\" d=\"", out);
  for (int i = 0; i < picture->shape->size[group]; i++) {
    for (int place = 0; place < picture->shape->ranks; place++) {
      if (train_mesh_group_of(picture->shape, group, place) != 0 ||
          train_mesh_coordinate(picture->shape, group, place) != i) {
        continue;
      }
      cell_at(picture, top, place, &next[0], &next[1]);
      if (i > 0) write_arc(last, next, out);
      memcpy(last, next, sizeof last);
    }
  }
  fputs("\"/>\n", out);
}

static coll_status_t write_panel(const picture_t *picture, train_mesh_group_t group, double top,
                                 FILE *out) {
  char where[TRAIN_MESH_TEXT_BYTES], title[TRAIN_MESH_TEXT_BYTES + 64];
  COLL_TRY(train_mesh_where(picture->shape, picture->placement, group, where));
  snprintf(title, sizeof title, "%s (%s): %d group%s of %d ranks, %s", train_mesh_group_word(group),
           train_mesh_group_name(group), train_mesh_group_count(picture->shape, group),
           train_mesh_group_count(picture->shape, group) > 1 ? "s" : "",
           picture->shape->size[group], where);
  base_svg_text(MARGIN, top + 26, "axis", "start", title, out);
  write_hosts(picture, top, out);
  write_cells(picture, group, top, out);
  write_line(picture, group, top, out);
  return COLL_OK;
}

coll_status_t train_mesh_draw(const train_mesh_shape_t *shape, const train_placement_t *placement,
                              FILE *out) {
  if (shape->ranks > TRAIN_MESH_DRAW_RANKS_MAX) {
    return base_fail(COLL_ERROR_INVALID, "a picture has at most %d ranks, not %d",
                     TRAIN_MESH_DRAW_RANKS_MAX, shape->ranks);
  }
  const picture_t picture = picture_of(shape, placement);
  double top = HEAD;
  begin(&picture, out);
  write_head(&picture, out);
  for (int group = 0; group < TRAIN_MESH_GROUPS; group++) {
    if (!train_mesh_is_shown(shape, (train_mesh_group_t)group)) continue;
    COLL_TRY(write_panel(&picture, (train_mesh_group_t)group, top, out));
    top += panel_height(&picture);
  }
  fputs("</svg>\n", out);
  return COLL_OK;
}
