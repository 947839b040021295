/* colltopo: makes and checks descriptions of machines, and shows where ranks are placed. */
#include "base/tool.h"
#include "tools/colltopo/colltopo.h"

static const char usage[] =
    "colltopo COMMAND [options]\n"
    "\n"
    "Describes machines and the network between them, for COLL_TOPO_FILE.\n"
    "\n"
    "Examples:\n"
    "  colltopo make dgx-h100 --hosts 4 --fabric rail > dgx4.json\n"
    "      four machines whose NICs are joined by rails\n"
    "  colltopo make laptop --hosts 16 --fabric torus:4x4 > torus.json\n"
    "      a grid of hosts\n"
    "  colltopo record > here.json\n"
    "      this machine\n"
    "  colltopo check dgx4.json\n"
    "      what the file contains, or the line that is wrong and why\n"
    "  colltopo convert dgx.xml --out dgx.json\n"
    "      a topology file of NCCL, RCCL or hwloc; --to nccl, rccl or hwloc writes one\n"
    "  colltopo show dgx4.json\n"
    "      hosts and what they contain as a tree, and the links\n"
    "  colltopo draw dgx4.json > dgx4.svg\n"
    "      a picture: hosts as boxes, links as wide as they are fast\n"
    "  colltopo paths dgx4.json host0/gpu0 host1/gpu0\n"
    "      the widest path between two nodes\n"
    "  colltopo layout dgx4.json -n 16\n"
    "      groups of ranks, and the host, GPU and cores of each rank\n"
    "  colltopo predict dgx4.json --collective allreduce\n"
    "      the algorithm that is chosen for each size, and the time\n"
    "  colltopo traffic dgx4.json --svg maps.svg\n"
    "      bytes over each class of link, for each map of ranks to hosts\n"
    "\n"
    "Commands:\n"
    "  make     a known machine as JSON: dgx-a100 dgx-h100 gb200-nvl72 mi300x laptop\n"
    "  record   this machine as JSON\n"
    "  check    the rules of a file\n"
    "  convert  between our files and those of NCCL, RCCL and hwloc\n"
    "  show     hosts as a tree, and the links\n"
    "  draw     a picture of them\n"
    "  paths    the widest path between two nodes\n"
    "  layout   where ranks are placed\n"
    "  predict  the fastest algorithm for each size\n"
    "  traffic  bytes over each class of link, by map\n"
    "\n"
    "colltopo COMMAND --help says more. Exit codes: 0 done, 1 a file was rejected, 2 wrong "
    "usage.\n";

static const base_tool_command_t commands[] = {
    {"make", colltopo_make},       {"record", colltopo_record}, {"check", colltopo_check},
    {"convert", colltopo_convert}, {"show", colltopo_show},     {"draw", colltopo_draw},
    {"paths", colltopo_paths},     {"layout", colltopo_layout}, {"predict", colltopo_predict},
    {"traffic", colltopo_traffic}};

static int run(int argc, char **argv) {
  return base_tool_dispatch("colltopo", usage, commands, sizeof commands / sizeof commands[0], argc,
                            argv);
}

int main(int argc, char **argv) {
  return base_tool_main("colltopo", run, argc, argv);
}
