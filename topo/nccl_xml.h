/*
 * Topology files of NCCL, in NVIDIA's dialect (NCCL_TOPO_FILE, system version 1) and in AMD's
 * (RCCL, version 2), read into graphs and written from them. Facts of the format are those of
 * src/graph/xml.cc and topo.cc of both libraries.
 *
 * A file is a <system> of <cpu>, one per NUMA node, which contain nested <pci>; a <pci> contains
 * <gpu>, with <nvlink>, <xgmi> and <c2c>, or <nic> with <net>. The rules of reading:
 *
 *   cpu      a NUMA node of the host; cpus of different host_hash are different hosts. Our files
 *            have an attribute that NCCL ignores: package="2", the NUMA node is in package 2;
 *            package="self", it is the package itself. Each CPU of `affinity` is a core, as the
 *            format does not tell hardware threads. The cpus of a host are linked pairwise
 *            (memory) by the bandwidth that NCCL assumes between sockets of the vendor; cores are
 *            linked to their cpu by an assumed TOPO_NCCL_CORE_GBS
 *   pci      with <gpu> a GPU, with one <net> a NIC, with more nets a PCI switch with NICs, with
 *            <pci> a PCI switch; without any of these by `class`: 0x03 and 0x12 a GPU, 0x02 a NIC.
 *            The link to what contains it is link_speed x link_width per direction, less encoding
 *            (8b/10b, 128b/130b, FLIT), in three digits; as in NCCL 8 GT/s and 16 lanes if unknown
 *   gpu      host0/gpu3 for dev="3"; more <gpu> of one <pci> are further ranks, and ignored
 *   nvlink   `count` links to the GPU of the bus id `target`, or, by `tclass` 0x068000, to the one
 *   xgmi     NVSwitch that stands for all of the host (of all hosts, if there are several), or, by
 *            0x068001, to the cpu. The peak bandwidth of a link follows from `sm` or `gcn`
 *   c2c      `count` links of `bw` MB/s to the cpu, of class NVLink; a GPU with it and without
 *            link_speed has no link of PCIe
 *   net      a NIC; with a `speed` in Mb/s above 0 it is linked to a network switch of its own,
 *            which stands for the network's port. Nets without `dev` are ignored, as by NCCL
 *
 * What NCCL accepts is accepted, with a warning: pcilink, unknown elements and those in another
 * place are ignored; unknown speeds of PCIe are taken for 8 GT/s; links of a GPU to itself and to
 * GPUs that the host does not have are left out; the second device of a number gets another one;
 * digits before other characters are a number. The result is checked by topo_graph_check.
 */
#ifndef TOPO_NCCL_XML_H
#define TOPO_NCCL_XML_H

#include <stdio.h>

#include "topo/graph.h"

#define TOPO_NCCL_CORE_GBS 200.0 /* of a core and its memory, assumed */
#define TOPO_NCCL_DEPTH_MAX 64   /* of elements in elements */

/* Parses a text. What is left out or read otherwise is written to `warnings` (NULL: nowhere), a
 * line each with file and line. The caller frees *graph. COLL_ERROR_INVALID: the message names
 * file, line, what is wrong and what to do: among others malformed or cut-off XML, deep nesting,
 * attributes that NCCL needs, and a newer version. COLL_ERROR_UNSUPPORTED: built without expat. */
coll_status_t topo_graph_from_nccl_xml(const char *text, size_t bytes, const char *file_name,
                                       FILE *warnings, topo_graph_t **graph);

typedef enum topo_nccl_dialect {
  TOPO_NCCL_NVIDIA,
  TOPO_NCCL_AMD,
} topo_nccl_dialect_t;

/*
 * Writes one host; `host` is its name, or NULL if the graph has one only. NUMA nodes and packages
 * without NUMA nodes become cpus, cores are numbered in the order of nodes, bus ids are made up.
 * What the format cannot express is left out, and a sentence about it written to `warnings`, a line
 * each: root complexes (PCI switches that are linked to the processors faster than PCIe can be),
 * whose devices become those of the cpu; bandwidths of memory; other bandwidths of PCIe than those
 * of a generation and a number of lanes, and of NVLink than that of the GPU's model (the nearest
 * are written); the network beyond the NICs; NICs without a link to a network, whose speed is
 * unknown.
 *
 * COLL_ERROR_INVALID: there are several hosts and `host` is NULL, or none of that name; a GPU is of
 * the other vendor; PCI switches are nested too deep. COLL_ERROR_SYSTEM: the stream cannot be
 * written.
 */
coll_status_t topo_graph_to_nccl_xml(const topo_graph_t *graph, const char *host,
                                     topo_nccl_dialect_t dialect, FILE *out, FILE *warnings);

#endif
