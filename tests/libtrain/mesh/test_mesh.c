/* Meshes of 8 ranks with communicators: who is in each group, and how failures spread. */
#include <criterion/criterion.h>
#include <string.h>

#include "harness/party.h"
#include "libtrain/mesh/mesh.h"

#define TIMEOUT_MS 60000
#define RANKS 8

typedef struct trial {
  train_mesh_options_t options;
  bool by_rail; /* ranks are dealt out to two hosts in turn */
} trial_t;

static int create(party_rank_t *self, const trial_t *trial, train_mesh_t **mesh) {
  train_group_t job;
  train_mesh_shape_t shape;
  train_placement_t placement;
  int host_of[RANKS];
  for (int rank = 0; rank < RANKS; rank++) host_of[rank] = rank % 2;
  PARTY_OK(train_group_init(self->comm, &job));
  PARTY_OK(train_mesh_shape_init(&trial->options, self->size, &shape));
  if (trial->by_rail) {
    PARTY_OK(train_placement_init(self->size, host_of, &placement));
  } else {
    PARTY_OK(train_placement_discover(&job, &placement));
    PARTY_REQUIRE(placement.hosts == 1, "%d hosts", placement.hosts);
  }
  PARTY_OK(train_mesh_create(&job, &shape, &placement, mesh));
  return 0;
}

/* Gathers the ranks of this rank's group and compares them with the shape. */
static int check_group(party_rank_t *self, train_mesh_t *mesh, train_mesh_group_t group) {
  train_axis_t *axis = &mesh->axes[group];
  int places[RANKS], number = train_mesh_group_of(&mesh->shape, group, mesh->place);
  float own = (float)self->rank, members[RANKS] = {-1, -1, -1, -1, -1, -1, -1, -1};
  bool is_none = train_mesh_rank(mesh, group) < 0;
  const char *name = train_mesh_group_name(group);
  train_axis_allgather(axis, TRAIN_FLOAT32, &own, members, 1);
  PARTY_OK(train_mesh_status(mesh));
  PARTY_REQUIRE(axis->group.size == (is_none ? 1 : mesh->shape.size[group]), "%s: size", name);
  if (is_none) return 0;
  train_mesh_members(&mesh->shape, group, number, places);
  for (int i = 0; i < axis->group.size; i++) {
    int expected = mesh->placement.rank_at[places[i]];
    PARTY_REQUIRE((int)members[i] == expected, "%s: member %d is %d, not %d", name, i,
                  (int)members[i], expected);
  }
  return 0;
}

static int groups_body(party_rank_t *self) {
  const trial_t *trial = self->context;
  train_mesh_t *mesh;
  int failed = 0;
  PARTY_TRY(create(self, trial, &mesh));
  for (int group = 0; group < TRAIN_MESH_GROUPS && !failed; group++) {
    failed = check_group(self, mesh, (train_mesh_group_t)group);
  }
  train_mesh_destroy(mesh);
  return failed;
}

static const train_mesh_options_t shapes[] = {
    {.ep = 0},
    {.size = {8, 0, 0, 0}},
    {.size = {0, 8, 0, 0}, .ep = 4},
    {.size = {0, 0, 0, 8}},
    {.size = {2, 2, 2, 1}, .ep = 2},
    {.size = {2, 1, 2, 2}, .ep = 2, .etp = 1},
    {.size = {1, 2, 2, 2}, .ep = 4, .order = "pp-dp-cp-tp"},
    {.size = {2, 1, 4, 1}, .ep = 2, .order = "dp-tp-ep"}};

Test(mesh, groups_have_the_ranks_of_the_shape) {
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    for (int by_rail = 0; by_rail < 2; by_rail++) {
      trial_t trial = {shapes[i], by_rail};
      harness_result_t result;
      cr_assert(party_threads(RANKS, TIMEOUT_MS, groups_body, &trial, &result), "shape %zu%s: %s",
                i, by_rail ? ", by rail" : "", result.text);
    }
  }
}

Test(mesh, ranks_can_be_processes) {
  trial_t trial = {shapes[4], true};
  harness_result_t result;
  cr_assert(party_processes(RANKS, TIMEOUT_MS, groups_body, &trial, &result), "%s", result.text);
}

/* Without other axes there is no communicator besides the job's. */
static int shared_body(party_rank_t *self) {
  const trial_t *trial = self->context;
  train_mesh_t *mesh;
  int failed = 0;
  PARTY_TRY(create(self, trial, &mesh));
  for (int group = 0; group < TRAIN_MESH_GROUPS && !failed; group++) {
    bool is_used = group == TRAIN_MESH_DP || group == TRAIN_MESH_DATA;
    bool is_experts = group == TRAIN_MESH_EXPERT_DATA;
    if (mesh->comms[group] != NULL && !is_experts) failed = harness_fail("group %d", group);
    if (is_used && mesh->axes[group].group.comm != self->comm) failed = harness_fail("not shared");
  }
  train_mesh_destroy(mesh);
  return failed;
}

Test(mesh, data_parallelism_alone_uses_the_communicator_of_the_job) {
  trial_t trial = {shapes[0], false};
  harness_result_t result;
  cr_assert(party_threads(RANKS, TIMEOUT_MS, shared_body, &trial, &result), "%s", result.text);
}

#define ROUNDS 1000

/* Sums over all axes, until a failure. */
static void use_axes(party_rank_t *self, train_mesh_t *mesh) {
  for (int round = 0; round < ROUNDS && train_mesh_status(mesh) == COLL_OK; round++) {
    for (int axis = 0; axis < TRAIN_MESH_AXES; axis++) {
      float value = 1;
      train_axis_allreduce(&mesh->axes[axis], TRAIN_FLOAT32, &value, 1);
    }
    if (self->rank == 5 && round == 3) {
      train_mesh_fail(mesh, base_fail(COLL_ERROR_MEMORY, "no memory for a layer"));
    }
  }
  train_mesh_fail(mesh, train_mesh_status(mesh));
}

/* Rank 5 fails alone while the others wait on different axes: all return, and every text names the
 * axis and its ranks. */
static int failure_body(party_rank_t *self) {
  const trial_t *trial = self->context;
  train_mesh_t *mesh;
  int failed = 0;
  PARTY_TRY(create(self, trial, &mesh));
  harness_barrier();
  use_axes(self, mesh);
  coll_status_t status = train_mesh_status(mesh);
  if (status == COLL_OK) failed = harness_fail("no failure");
  if (self->rank == 5 && status != COLL_ERROR_MEMORY) failed = harness_fail("another failure");
  if (self->rank != 5 && strstr(base_last_error(), " of ranks ") == NULL) {
    failed = harness_fail("text: %s", base_last_error());
  }
  harness_barrier();
  train_mesh_destroy(mesh);
  return failed;
}

Test(mesh, the_failure_of_one_rank_reaches_all) {
  trial_t trial = {shapes[4], false};
  harness_result_t result;
  cr_assert(party_threads(RANKS, TIMEOUT_MS, failure_body, &trial, &result), "%s", result.text);
}
