/*
 * The verifier proves composed algorithms on families of layouts, every member up to a size, out of
 * place, in place, and with every second rank in place: one test per family, so that they run in
 * parallel.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "harness/sample.h"
#include "plans.h"
#include "tests/topo/layouts.h"
#include "topo/rings.h"
#include "verify/verify.h"

/* Under a sanitizer, small layouts are enough: it looks for errors in builders and verifier. */
enum { RANKS_MAX = HARNESS_BUILD == HARNESS_PLAIN ? 64 : 16 };

static size_t layouts_seen, plans_proved;

static void prove(const algo_t *algo, const topo_layout_t *layout, const char *text, int32_t root,
                  test_mode_t mode) {
  static unsigned number;
  if (!harness_takes(HARNESS_VALUES, number++)) return;
  verify_report_t report;
  const plan_shape_t shape = {
      .collective = algo->collective, .size = layout->size, .root = root, .layout = layout};
  plan_t *plan = test_plan_shape(algo, &shape, mode);
  cr_assert_eq(verify_plan(plan, &report), COLL_OK, "%s", base_last_error());
  cr_assert_eq(report.verdict, VERIFY_PROVED, "%s/%s on %s, root %d, mode %d: %s",
               base_collective_name(algo->collective), algo->name, text, (int)root, (int)mode,
               report.text);
  plans_proved++;
  plan_free(plan);
}

/* Proves the algorithm for the roots 0, 1 and the last, or all up to `all_roots` ranks. */
static void prove_roots(const algo_t *algo, const topo_layout_t *layout, const char *text,
                        int32_t all_roots) {
  for (int32_t root = -1; (root = test_next_lead(algo, layout->size, all_roots, root)) >= 0;) {
    for (int mode = 0; mode < TEST_MODE_COUNT; mode++) {
      prove(algo, layout, text, root, (test_mode_t)mode);
    }
  }
}

/* names: such as "torus2d mesh2d"; NULL: all composed algorithms. */
static bool is_named(const algo_t *algo, const char *names) {
  size_t length = strlen(algo->name);
  if (algo->composition == NULL) return false;
  for (const char *at = names; at != NULL && (at = strstr(at, algo->name)) != NULL; at += length) {
    if (at[length] == ' ' || at[length] == '\0') return true;
  }
  return names == NULL;
}

static void prove_layout(const topo_layout_t *layout, const char *text, const char *names) {
  const algo_t *algo;
  layouts_seen++;
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    for (int i = 0; (algo = algo_at((coll_collective_t)c, i)) != NULL; i++) {
      if (is_named(algo, names)) prove_roots(algo, layout, text, 8);
    }
  }
}

static void prove_text(const char *text, int32_t size, const char *names) {
  topo_layout_t *layout;
  cr_assert_eq(topo_layout_parse(text, size, &layout), COLL_OK, "%s", base_last_error());
  prove_layout(layout, text, names);
  topo_layout_free(layout);
}

/* ---- families -------------------------------------------------------------------------------*/

/* Every grid of two dimensions up to 8 x 8. */
static void tori(void) {
  char text[32];
  for (int a = 1; a <= 8; a++) {
    for (int b = 1; b <= 8 && a * b <= RANKS_MAX; b++) {
      snprintf(text, sizeof text, "grid:%dx%d", a, b);
      prove_text(text, a * b, NULL);
    }
  }
}

static void meshes(void) {
  char text[32];
  for (int a = 1; a <= 8; a++) {
    for (int b = 1; b <= 8 && a * b <= RANKS_MAX; b++) {
      snprintf(text, sizeof text, "mesh:%dx%d", a, b);
      prove_text(text, a * b, NULL);
    }
  }
}

/* Every grid of three dimensions up to 4 x 4 x 4. */
static void solid_tori(void) {
  char text[32];
  for (int i = 0; i < 64; i++) {
    int a = i / 16 + 1, b = i / 4 % 4 + 1, c = i % 4 + 1;
    if (a * b * c > RANKS_MAX) continue;
    snprintf(text, sizeof text, "grid:%dx%dx%d", a, b, c);
    prove_text(text, a * b * c, NULL);
  }
}

/* Equal hosts up to 8 of 8. */
static void equal_hosts(void) {
  char text[32];
  for (int hosts = 1; hosts <= 8; hosts++) {
    for (int ranks = 1; ranks <= 8 && hosts * ranks <= RANKS_MAX; ranks++) {
      snprintf(text, sizeof text, "hosts:%dx%d", hosts, ranks);
      prove_text(text, hosts * ranks, NULL);
    }
  }
}

/* All ways to divide few ranks among two or three hosts. */
static void uneven_hosts(void) {
  char text[32];
  for (int size = 2; size <= 12; size++) {
    for (int a = 1; a < size; a++) {
      snprintf(text, sizeof text, "hosts:%d+%d", a, size - a);
      prove_text(text, size, NULL);
    }
  }
  for (int size = 3; size <= 9; size++) {
    for (int a = 1; a < size - 1; a++) {
      for (int b = 1; b < size - a; b++) {
        snprintf(text, sizeof text, "hosts:%d+%d+%d", a, b, size - a - b);
        prove_text(text, size, "hierarchical hierarchical_pipelined blueconnect leaders");
      }
    }
  }
}

/* Every rank count: the hosts differ, one has a single rank, or neighbours are on different hosts
 * of which the last ones have a rank less. */
static void every_size(void) {
  char text[48];
  for (int size = 4; size <= RANKS_MAX; size++) {
    snprintf(text, sizeof text, "hosts:%d+%d", size / 3, size - size / 3);
    prove_text(text, size, "hierarchical hierarchical_pipelined blueconnect leaders");
    snprintf(text, sizeof text, "hosts:%d+1+%d", size / 2, size - size / 2 - 1);
    prove_text(text, size, "hierarchical hierarchical_pipelined leaders");
  }
}

static void dealt_hosts(void) {
  int32_t host_of[RANKS_MAX];
  char text[48];
  for (int size = 4; size <= RANKS_MAX; size++) {
    topo_layout_t *layout;
    int hosts = size < 8 ? 2 : 3 + size % 3;
    for (int rank = 0; rank < size; rank++) host_of[rank] = rank % hosts;
    cr_assert_eq(topo_layout_create(size, &layout), COLL_OK);
    cr_assert_eq(topo_layout_add_level(layout, TOPO_HOST, host_of), COLL_OK);
    cr_assert_eq(topo_layout_set_domains(layout, host_of), COLL_OK);
    snprintf(text, sizeof text, "%d ranks dealt to %d hosts", size, hosts);
    prove_layout(layout, text, "hierarchical hierarchical_pipelined blueconnect leaders");
    topo_layout_free(layout);
  }
}

/* Levels of the layout, three deep. */
static void nested(void) {
  char text[48];
  for (int hosts = 1; hosts <= 4; hosts++) {
    for (int numa = 2; numa <= 4; numa++) {
      for (int ranks = 1; ranks <= 4 && hosts * numa * ranks <= RANKS_MAX; ranks++) {
        snprintf(text, sizeof text, "hosts:%dx%d/numa:%d", hosts, numa * ranks, numa);
        prove_text(text, hosts * numa * ranks,
                   "hierarchical hierarchical_pipelined blueconnect leaders");
      }
    }
  }
}

/* Algorithms of one dimension too, wherever they are legal. */
static void all_algorithms(void) {
  static const struct {
    const char *text;
    int32_t size;
  } samples[] = {{"hosts:3+5", 8}, {"hosts:1+4+2", 7}, {"hosts:4x4", 16}, {"hosts:4x8/numa:2", 32},
                 {"grid:3x5", 15}, {"grid:2x3x4", 24}, {"mesh:4x4", 16}};
  for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
    topo_layout_t *layout;
    const algo_t *algo;
    cr_assert_eq(topo_layout_parse(samples[i].text, samples[i].size, &layout), COLL_OK);
    for (int c = 0; c < COLL_COLLECTIVE_COUNT && samples[i].size <= RANKS_MAX; c++) {
      for (int a = 0; (algo = algo_at((coll_collective_t)c, a)) != NULL; a++) {
        const plan_shape_t shape = {
            .collective = algo->collective, .size = layout->size, .layout = layout};
        bool legal;
        cr_assert_eq(algo_is_legal(algo, &shape, &legal), COLL_OK);
        if (legal) prove_roots(algo, layout, samples[i].text, 16);
      }
    }
    layouts_seen += samples[i].size <= RANKS_MAX;
    topo_layout_free(layout);
  }
}

/* Where there are rings over disjoint paths. */
static void over_rings(void) {
  static const struct {
    const char *kind, *fabric;
    int32_t hosts, ranks, rings;
  } samples[] = {{"dgx-h100", "rail", 2, 16, 8},    {"dgx-h100", "rail", 3, 24, 8},
                 {"dgx-h100", "rail", 4, 32, 8},    {"dgx-h100", "rail", 8, 64, 8},
                 {"dgx-h100", "rail", 3, 20, 6},    {"mi300x", "", 1, 8, 7},
                 {"mi300x", "rail", 2, 16, 8},      {"laptop", "torus:4x4", 16, 16, 4},
                 {"laptop", "torus:3x5", 15, 15, 4}};
  for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
    const algo_t *algo;
    if (samples[i].ranks > RANKS_MAX) continue;
    topo_layout_t *layout =
        test_layout_of(samples[i].kind, samples[i].hosts, samples[i].fabric, samples[i].ranks);
    cr_assert_eq(layout->rings->count, samples[i].rings);
    for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
      for (int a = 0; (algo = algo_at((coll_collective_t)c, a)) != NULL; a++) {
        if (algo->over_rings) prove_roots(algo, layout, samples[i].kind, 32);
      }
    }
    layouts_seen++;
    topo_layout_free(layout);
  }
}

static const struct {
  const char *name;
  void (*prove)(void);
} families[] = {
    {"tori", tori},
    {"meshes", meshes},
    {"solid tori", solid_tori},
    {"equal hosts", equal_hosts},
    {"uneven hosts", uneven_hosts},
    {"every size", every_size},
    {"dealt hosts", dealt_hosts},
    {"nested", nested},
    {"all algorithms", all_algorithms},
    {"over rings", over_rings},
};

enum { FAMILIES = sizeof families / sizeof families[0] };

ParameterizedTestParameters(layout_sweep, every_plan_is_proved) {
  static int numbers[FAMILIES];
  for (int i = 0; i < FAMILIES; i++) numbers[i] = i;
  return cr_make_param_array(int, numbers, FAMILIES);
}

ParameterizedTest(int *family, layout_sweep, every_plan_is_proved) {
  families[*family].prove();
  printf("proved: %-14s %4zu layouts, %6zu plans\n", families[*family].name, layouts_seen,
         plans_proved);
  fflush(stdout);
  cr_assert_gt(plans_proved, 100 / harness_stride(HARNESS_VALUES));
}
