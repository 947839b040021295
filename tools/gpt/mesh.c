/* gpt mesh: the groups of ranks of a job, as a table and a picture, without running it. */
#include "base/alloc.h"
#include "tools/gpt/gpt.h"
#include "tools/gpt/mesh_options.h"

#include <stdlib.h>

#define HOST_RANKS 8

typedef struct job {
  gpt_mesh_settings_t mesh;
  int64_t ranks, host_ranks;
  const char *topology, *map;
} job_t;

/* Hosts of equally many ranks, in blocks. */
static coll_status_t place_in_blocks(const job_t *job, train_placement_t *placement) {
  int *host_of, ranks = (int)job->ranks;
  COLL_TRY(base_alloc((size_t)ranks, sizeof *host_of, "hosts of ranks", (void **)&host_of));
  for (int rank = 0; rank < ranks; rank++) host_of[rank] = rank / (int)job->host_ranks;
  coll_status_t status = train_placement_init(ranks, host_of, placement);
  free(host_of);
  return status;
}

static coll_status_t run(const job_t *job) {
  train_mesh_shape_t shape;
  train_placement_t placement;
  if (job->map != NULL && job->topology == NULL) {
    return base_fail(COLL_ERROR_INVALID, "--map %s: it needs the hosts of a --topology", job->map);
  }
  COLL_TRY(gpt_mesh_shape(&job->mesh, (int)job->ranks, &shape));
  COLL_TRY(job->topology == NULL
               ? place_in_blocks(job, &placement)
               : gpt_mesh_place_on(job->topology, job->map, (int)job->ranks, stderr, &placement));
  coll_status_t status = gpt_mesh_show(&job->mesh, &shape, &placement);
  train_placement_free(&placement);
  return status;
}

int gpt_mesh(int argc, char **argv) {
  job_t job = {.mesh.show = true, .ranks = HOST_RANKS, .host_ranks = HOST_RANKS};
  base_option_t options[GPT_MESH_OPTIONS + 5] = {
      {'n', "ranks", BASE_OPTION_INTEGER, &job.ranks, "N", "ranks of the job", 1,
       TRAIN_MESH_RANKS_MAX},
      {0, "host-ranks", BASE_OPTION_INTEGER, &job.host_ranks, "N", "ranks on each host", 1,
       TRAIN_MESH_RANKS_MAX},
      {0, "topology", BASE_OPTION_TEXT, &job.topology, "FILE",
       "hosts of a topology (JSON of colltopo, XML of NCCL or hwloc), filled evenly"},
      {0, "map", BASE_OPTION_TEXT, &job.map, "NAME",
       "how they are filled: by-host (default), by-rail, grid"},
      {0, "draw-mesh", BASE_OPTION_TEXT, &job.mesh.draw, "FILE", "draw the groups as SVG"}};
  gpt_mesh_options(&job.mesh, options + 5);
  const base_command_t command = {
      .name = "gpt mesh",
      .usage = "[options]",
      .summary =
          "Shows how the ranks of a job are divided along the axes of parallelism: a line for "
          "each\n"
          "axis of several ranks, with where its groups are, and the coordinates of each rank. "
          "Ranks\n"
          "are numbered on the hosts so that the innermost axes stay inside a host.",
      .examples =
          "  gpt mesh --ranks 64 --tp 8 --pp 4 --draw-mesh mesh.svg\n"
          "      64 ranks on 8 hosts\n"
          "  gpt mesh --ranks 16 --tp 2 --cp 2 --ep 4 --topology machine.json --map by-rail\n"
          "      on the hosts of a file of colltopo, to which ranks are dealt out in turn\n",
      .options = options,
      .option_count = sizeof options / sizeof options[0]};
  bool done;
  coll_status_t status = gpt_options_parse(&command, argc, argv, &done);
  if (status == COLL_OK && !done) status = base_tool_input(run(&job));
  return gpt_finish(command.name, status, NULL);
}
