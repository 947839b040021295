/*
 * Layouts of parts: over all parts of a model every element is owned once, every held element maps
 * into its tensor, and cut tensors have the sizes of the cut.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "libtrain/model/layout.h"

static const train_model_config_t config = {
    .vocabulary = 37, .context = 6, .layers = 4, .heads = 6, .width = 24};

static train_layout_t *layout_of(const train_part_t *part) {
  train_layout_t *layout;
  cr_assert_eq(train_layout_create_part(&config, part, &layout), COLL_OK, "%s", base_last_error());
  return layout;
}

/* Padding is behind the tables of tokens of the last tensor ranks. */
static void check_padding(const train_layout_t *part, size_t at, size_t length) {
  size_t rows =
      (size_t)((config.vocabulary + part->part.tensor_ranks - 1) / part->part.tensor_ranks);
  const train_tensor_t *table = train_layout_tensor_at(part, at - 1);
  cr_assert_str_eq(table->name, "wte.weight");
  cr_assert_eq(at, table->offset + train_tensor_count(table));
  cr_assert_eq(at + length, table->offset + rows * (size_t)config.width);
  for (size_t i = 0; i < length; i++) cr_assert_null(train_layout_tensor_at(part, at + i));
}

/* Visits the held elements of a part in order; counts those that it owns. */
static void count_owned(const train_layout_t *part, const train_layout_t *whole, uint8_t *owners) {
  for (size_t at = 0; at < part->parameter_count;) {
    const train_tensor_t *tensor = train_layout_tensor_at(part, at);
    size_t full, run = train_layout_run(part, at, &full);
    cr_assert(run > 0 && at + run <= part->parameter_count);
    if (full == TRAIN_LAYOUT_PADDING) {
      check_padding(part, at, run);
      at += run;
      continue;
    }
    for (size_t i = 0; i < run; i++) {
      const train_tensor_t *here = train_layout_tensor_at(part, at + i);
      const train_tensor_t *there = train_layout_tensor_at(whole, full + i);
      cr_assert_str_eq(here->name, there->name);
      size_t again, rest = train_layout_run(part, at + i, &again);
      cr_assert_eq(again, full + i);
      cr_assert_eq(rest, run - i);
      if (here->owned) owners[full + i]++;
    }
    cr_assert(part->whole || tensor->offset + train_tensor_count(tensor) >= at + run);
    at += run;
  }
}

/* blocks[stages * chunks] layers on each virtual stage. */
static void check_cut(int tensor_ranks, int stages, int chunks, const int *blocks) {
  const train_part_t all = train_part_whole(config.layers);
  train_layout_t *whole = layout_of(&all);
  uint8_t *owners = calloc(whole->parameter_count, 1);
  for (int stage = 0; stage < stages; stage++) {
    for (int rank = 0; rank < tensor_ranks; rank++) {
      train_part_t part = train_part_cut(config.layers, stage, stages, chunks, blocks);
      part.tensor_rank = rank;
      part.tensor_ranks = tensor_ranks;
      train_layout_t *layout = layout_of(&part);
      cr_assert_eq(layout->whole, tensor_ranks == 1 && stages == 1);
      count_owned(layout, whole, owners);
      train_layout_destroy(layout);
    }
  }
  for (size_t i = 0; i < whole->parameter_count; i++) {
    cr_assert_eq(owners[i], 1, "%zu of %s has %d owners", i, train_layout_tensor_at(whole, i)->name,
                 owners[i]);
  }
  free(owners);
  train_layout_destroy(whole);
}

static void check_division(int tensor_ranks, int stages, int chunks) {
  check_cut(tensor_ranks, stages, chunks, NULL);
}

/* Some stages have the embedding or the head only. */
Test(part, every_element_of_an_uneven_cut_is_owned_once) {
  for (int ranks = 1; ranks <= 2; ranks++) {
    check_cut(ranks, 3, 1, (const int[]){1, 2, 1});
    check_cut(ranks, 2, 1, (const int[]){0, 4});
    check_cut(ranks, 2, 1, (const int[]){4, 0});
    check_cut(ranks, 6, 1, (const int[]){0, 1, 1, 1, 1, 0});
    check_cut(ranks, 2, 2, (const int[]){0, 2, 2, 0});
    check_cut(ranks, 1, 3, (const int[]){0, 4, 0});
  }
}

Test(part, stages_without_layers_have_the_embedding_or_the_head) {
  const int ends[] = {0, 4, 0}, middle[] = {2, 0, 2};
  train_part_t part = train_part_cut(config.layers, 0, 3, 1, ends);
  cr_assert(train_part_embeds(&part) && !train_part_classifies(&part, config.layers));
  part = train_part_cut(config.layers, 1, 3, 1, ends);
  cr_assert(!train_part_embeds(&part) && !train_part_classifies(&part, config.layers));
  part = train_part_cut(config.layers, 2, 3, 1, ends);
  cr_assert(!train_part_embeds(&part) && train_part_classifies(&part, config.layers));
  train_layout_t *layout;
  part = train_part_cut(config.layers, 1, 3, 1, middle);
  cr_assert_eq(train_layout_create_part(&config, &part, &layout), COLL_ERROR_INVALID);
}

Test(part, every_element_is_owned_once) {
  const int tensor_ranks[] = {1, 2, 3, 6};
  for (int i = 0; i < 4; i++) {
    check_division(tensor_ranks[i], 1, 1);
    check_division(tensor_ranks[i], 2, 1);
    check_division(tensor_ranks[i], 4, 1);
    check_division(tensor_ranks[i], 2, 2);
    check_division(tensor_ranks[i], 1, 2);
  }
}

/* Heads stay whole: a rank has the same features of queries, keys and values. */
Test(part, cuts_heads_and_features) {
  const train_part_t part = {
      .tensor_rank = 1, .tensor_ranks = 3, .chunk_count = 1, .chunks = {{2, 2}}};
  train_layout_t *layout = layout_of(&part);
  const train_tensor_t *qkv = train_layout_tensor(layout, 1, TRAIN_QKV_WEIGHT);
  const train_tensor_t *out = train_layout_tensor(layout, 2, TRAIN_ATTENTION_WEIGHT);
  const train_tensor_t *table = train_layout_tensor(layout, 0, TRAIN_TOKEN_TABLE);
  size_t full;
  cr_assert_str_eq(qkv->name, "h.2.attn.c_attn.weight");
  cr_assert_eq(qkv->rows, 24);
  cr_assert_eq(qkv->columns, 24);
  cr_assert_eq(train_layout_run(layout, qkv->offset + 8 * 24, &full), 8 * 24);
  cr_assert_eq(full, qkv->full_offset + (24 + 8) * 24, "the first key");
  cr_assert_eq(out->rows, 24);
  cr_assert_eq(out->columns, 8);
  cr_assert_eq(train_layout_run(layout, out->offset + 8, &full), 8);
  cr_assert_eq(full, out->full_offset + 24 + 8, "the second row");
  cr_assert_eq(table->rows, 13, "37 tokens are 13, 13 and 11");
  cr_assert_not(table->owned, "the first stage owns it");
  train_layout_destroy(layout);
}

/* The tensors that all tensor ranks hold are at the same places: those of all units. */
Test(part, tensor_ranks_have_units_of_one_size) {
  for (int untied = 0; untied <= 1; untied++) {
    train_model_config_t odd = config;
    train_layout_t *layouts[3];
    odd.untied = untied;
    for (int rank = 0; rank < 3; rank++) {
      const train_part_t part = {
          .tensor_rank = rank, .tensor_ranks = 3, .chunk_count = 1, .chunks = {{0, 4}}};
      cr_assert_eq(train_layout_create_part(&odd, &part, &layouts[rank]), COLL_OK);
      for (int unit = 0; unit < layouts[0]->unit_count; unit++) {
        cr_assert_eq(layouts[rank]->units[unit].count, layouts[0]->units[unit].count);
      }
      for (int i = 0; i < layouts[0]->tensor_count; i++) {
        cr_assert_eq(layouts[rank]->tensors[i].offset, layouts[0]->tensors[i].offset);
      }
    }
    for (int rank = 0; rank < 3; rank++) train_layout_destroy(layouts[rank]);
  }
}

Test(part, refuses_what_does_not_divide) {
  train_layout_t *layout;
  train_part_t part = train_part_whole(config.layers);
  part.tensor_ranks = 4;
  cr_assert_eq(train_layout_create_part(&config, &part, &layout), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "give --tp 3"), "%s", base_last_error());
  part = (train_part_t){.tensor_ranks = 1, .chunk_count = 2, .chunks = {{0, 2}, {1, 2}}};
  cr_assert_eq(train_layout_create_part(&config, &part, &layout), COLL_ERROR_INVALID);
  part = (train_part_t){.tensor_ranks = 1, .chunk_count = 1, .chunks = {{3, 2}}};
  cr_assert_eq(train_layout_create_part(&config, &part, &layout), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "layers 3 to 4 of 4"), "%s", base_last_error());
}
