/* The commands of colltopo and what they share. */
#ifndef COLLTOPO_COLLTOPO_H
#define COLLTOPO_COLLTOPO_H

#include "base/options.h"
#include "base/tool.h"
#include "topo/load.h"
#include "topo/place.h"

/* Each runs with argv[0] as its own name and returns the exit code. */
int colltopo_make(int argc, char **argv);
int colltopo_record(int argc, char **argv);
int colltopo_check(int argc, char **argv);
int colltopo_convert(int argc, char **argv);
int colltopo_show(int argc, char **argv);
int colltopo_draw(int argc, char **argv);
int colltopo_layout(int argc, char **argv);
int colltopo_paths(int argc, char **argv);
int colltopo_predict(int argc, char **argv);
int colltopo_traffic(int argc, char **argv);

/* Parses options and exactly `count` words, in any order. False if the command ends with *code: it
 * printed its help, or the command line is wrong. */
bool colltopo_begin(const base_command_t *command, int argc, char **argv, const char *words[],
                    int count, int *code);

/* Also reads the graph in the file that the first word names. */
bool colltopo_open(const base_command_t *command, int argc, char **argv, const char *words[],
                   int count, topo_graph_t **graph, int *code);

/* Frees the graph (NULL: none), prints the error of `status` and returns the exit code. */
int colltopo_close(topo_graph_t *graph, coll_status_t status);

/* --map: *map is a topo_map_t. */
base_option_t colltopo_map_option(int *map);

/* Reads the graph in a file ("-": standard input), with warnings on standard error. The caller
 * frees *graph. */
coll_status_t colltopo_load(const char *file_name, topo_format_t format, topo_graph_t **graph);

/* Places the ranks (0: one per GPU, or per host without GPUs) and adds the links between them.
 * layout->fabric remains NULL for ranks of one host without GPUs. Takes the graph over, also on
 * failure. COLL_ERROR_INVALID: no links connect all ranks. The caller calls topo_placement_free. */
coll_status_t colltopo_place(topo_graph_t *graph, int64_t ranks, topo_map_t map,
                             topo_placement_t *placement);

#endif
