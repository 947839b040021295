/* What hwloc's interface does not tell of its XML: the version of a file that it refuses, and what
 * the graph leaves out, each with its line. */
#ifndef TOPO_HWLOC_XML_SCAN_H
#define TOPO_HWLOC_XML_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The version of <topology version="3.0"> and its line. False: the file has none, as those of
 * hwloc 1. */
bool topo_hwloc_xml_version(const char *text, size_t bytes, int *major, int *minor, int *line);

/* Whether the text has the end of its outermost element. */
bool topo_hwloc_xml_is_whole(const char *text, size_t bytes);

/* Writes a line for each matrix of distances and each attribute of memory that are bandwidths. */
void topo_hwloc_xml_warn(const char *text, size_t bytes, const char *file_name, FILE *warnings);

#endif
