/*
 * Graphs of captured operations.
 */
#ifndef TESTS_GPU_STANDIN_GRAPH_H
#define TESTS_GPU_STANDIN_GRAPH_H

#include "gpu/standin/state.h"

typedef struct graph_node {
  operation_t operation; /* its launch belongs to the graph */
  int branch;
  int after; /* of OPERATION_AFTER: the node that it waits for; -1: of an event, see `operation` */
} graph_node_t;

typedef struct graph_branch {
  cuda_context_t context;
  int last;                        /* its last node; -1: none */
  int clock[STANDIN_BRANCHES_MAX]; /* how many nodes of each branch are before its end */
} graph_branch_t;

struct CUgraph_st {
  uint64_t id;
  cuda_capture_mode_t mode;
  pthread_t thread; /* that began the capture */
  bool is_invalid;
  int uses; /* by the program, and by executable graphs */
  int branch_count, node_count, node_capacity;
  graph_branch_t branches[STANDIN_BRANCHES_MAX];
  graph_node_t *nodes; /* in the order of their capture */
  struct CUgraph_st *next;
};

/* The program has the graph from now on. */
void standin_graph_add(cuda_graph_t graph);

/* Ends a use. */
void standin_graph_release(cuda_graph_t graph);

#endif
