/* The table and the picture of a mesh. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/mesh/show.h"

typedef coll_status_t (*show_t)(const train_mesh_shape_t *, const train_placement_t *, FILE *);

/* What is shown of `ranks` ranks on hosts of `host_ranks` each. The caller frees it. */
static char *show(show_t function, const train_mesh_options_t *options, int ranks, int host_ranks) {
  train_mesh_shape_t shape;
  train_placement_t placement;
  char *text;
  size_t bytes;
  int *host_of = malloc((size_t)ranks * sizeof *host_of);
  for (int rank = 0; rank < ranks; rank++) host_of[rank] = rank / host_ranks;
  cr_assert_eq(train_mesh_shape_init(options, ranks, &shape), COLL_OK, "%s", base_last_error());
  cr_assert_eq(train_placement_init(ranks, host_of, &placement), COLL_OK);
  FILE *out = open_memstream(&text, &bytes);
  cr_assert_eq(function(&shape, &placement, out), COLL_OK);
  fclose(out);
  train_placement_free(&placement);
  free(host_of);
  return text;
}

static int count_of(const char *text, const char *words) {
  int count = 0;
  for (const char *at = text; (at = strstr(at, words)) != NULL; at++) count++;
  return count;
}

static void expect(const char *text, const char *words, int count) {
  cr_assert_eq(count_of(text, words), count, "'%s' is %d times, not %d, in\n%s", words,
               count_of(text, words), count, text);
}

Test(mesh_show, table_of_all_axes) {
  char *text =
      show(train_mesh_table, &(train_mesh_options_t){.size = {2, 2, 2, 2}, .ep = 4}, 16, 4);
  expect(text,
         "16 ranks on 4 hosts: tp 2 x cp 2 x dp 2 x pp 2; experts: ep 4, etp 2; order "
         "tp-cp-dp-pp",
         1);
  expect(text, "tp   tensor         2       8       1  inside a host\n", 1);
  expect(text, "cp   context        2       8       2  inside a host\n", 1);
  expect(text, "dp   data           2       8       4  across 2 hosts\n", 1);
  expect(text, "pp   pipeline       2       8       8  across 2 hosts\n", 1);
  expect(text, "ep   experts        4       4       -  across 2 hosts\n", 1);
  expect(text, "\n rank  host     tp    cp    dp    pp    ep\n", 1);
  expect(text, "\n   11  host2     1     1     0     1     1\n", 1);
  free(text);
}

Test(mesh_show, table_of_one_rank) {
  char *text = show(train_mesh_table, &(train_mesh_options_t){.ep = 0}, 1, 1);
  expect(text, "1 rank on 1 host: dp 1; order tp-cp-dp-pp", 1);
  expect(text, "inside a host", 0);
  free(text);
}

Test(mesh_show, table_of_groups_on_unequal_hosts) {
  char *text = show(train_mesh_table, &(train_mesh_options_t){.size = {2, 0, 0, 0}}, 8, 3);
  expect(text, "tp   tensor         2       4       1  across 1 to 2 hosts\n", 1);
  free(text);
}

Test(mesh_show, table_has_the_order) {
  char *text =
      show(train_mesh_table, &(train_mesh_options_t){.size = {2, 0, 0, 0}, .order = "dp-tp"}, 8, 4);
  expect(text, "order dp-tp-cp-pp", 1);
  expect(text, "tp   tensor         2       4       4  across 2 hosts\n", 1);
  free(text);
}

Test(mesh_show, picture_has_a_panel_for_each_axis) {
  char *svg = show(train_mesh_draw, &(train_mesh_options_t){.size = {8, 0, 0, 4}}, 64, 8);
  expect(svg, "<rect class=\"host\"", 3 * 8);
  expect(svg, "<title>", 3 * 64);
  expect(svg, "tensor (tp): 8 groups of 8 ranks, inside a host", 1);
  expect(svg, "data (dp): 32 groups of 2 ranks, across 2 hosts", 1);
  expect(svg, "pipeline (pp): 16 groups of 4 ranks, across 4 hosts", 1);
  expect(svg, " first\"", 8 + 2 + 4);
  expect(svg, "<path class=\"line\"", 3);
  expect(svg, "nan", 0);
  expect(svg, "</svg>", 1);
  free(svg);
}

Test(mesh_show, pictures_of_one_rank_and_of_large_hosts) {
  char *svg = show(train_mesh_draw, &(train_mesh_options_t){.ep = 0}, 1, 1);
  expect(svg, "<rect class=\"host\"", 0);
  free(svg);
  svg = show(train_mesh_draw, &(train_mesh_options_t){.size = {3, 0, 0, 0}}, 96, 96);
  expect(svg, "<title>", 2 * 96);
  free(svg);
}

Test(mesh_show, too_large_a_picture_is_refused) {
  train_mesh_shape_t shape;
  train_placement_t placement;
  int ranks = TRAIN_MESH_DRAW_RANKS_MAX + 1;
  cr_assert_eq(train_mesh_shape_init(&(train_mesh_options_t){.ep = 0}, ranks, &shape), COLL_OK);
  cr_assert_eq(train_placement_init(ranks, NULL, &placement), COLL_OK);
  cr_assert_eq(train_mesh_draw(&shape, &placement, stdout), COLL_ERROR_INVALID);
  train_placement_free(&placement);
}
