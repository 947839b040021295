/* collplan: lists, prints, draws, verifies and converts the plans of collectives. */
#include "base/tool.h"
#include "tools/collplan/collplan.h"

static const char usage[] =
    "collplan COMMAND [options]\n"
    "\n"
    "Shows the steps of each rank of a collective, and proves that they are correct.\n"
    "\n"
    "Examples:\n"
    "  collplan list\n"
    "      every collective and its algorithms\n"
    "  collplan show allreduce --algo ring -n 4\n"
    "      the steps of all ranks, as text that loads back\n"
    "  collplan show allreduce --algo ring -n 8 --svg ring.svg\n"
    "      the same as a picture: ranks downwards, time to the right\n"
    "  collplan draw allreduce --algo ring -n 8 --topology dgx.json > ring.svg\n"
    "      the load of every link, step by step\n"
    "  collplan verify allreduce -n 1-64\n"
    "      proves every algorithm for every rank count up to 64\n"
    "  collplan verify my.plan\n"
    "      proves a plan from a file, or names the wrong step and the reason\n"
    "  collplan stats allreduce -n 8\n"
    "      rounds, messages and volume, algorithm by algorithm\n"
    "\n"
    "Commands:\n"
    "  list     collectives and algorithms\n"
    "  show     a plan as text or as a picture\n"
    "  draw     a plan over machines, step by step, as a picture\n"
    "  verify   the proof, or where it fails\n"
    "  stats    what the algorithms cost\n"
    "  table    the same beside the formulas of the papers: docs/algorithms.md\n"
    "  import   a schedule in MSCCL's XML as a plan\n"
    "  export   a plan as such a schedule\n"
    "\n"
    "collplan COMMAND --help says more. Exit codes: 0 done, 1 a plan was rejected, 2 wrong "
    "usage.\n";

static const base_tool_command_t commands[] = {
    {"list", collplan_list},     {"show", collplan_show},    {"draw", collplan_draw},
    {"verify", collplan_verify}, {"stats", collplan_stats},  {"table", collplan_table},
    {"import", collplan_import}, {"export", collplan_export}};

static int run(int argc, char **argv) {
  return base_tool_dispatch("collplan", usage, commands, sizeof commands / sizeof commands[0], argc,
                            argv);
}

int main(int argc, char **argv) {
  return base_tool_main("collplan", run, argc, argv);
}
