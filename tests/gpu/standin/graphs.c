/*
 * Executable graphs. Each branch has a stream of its own, which no program sees; a launch queues
 * copies of the nodes there, between two operations of the program's stream.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu/standin/graph.h"

struct CUgraphExec_st {
  cuda_graph_t graph;
  cuda_stream_t streams[STANDIN_BRANCHES_MAX];
  /* In the launch under way, of each node: the number of its copy in its stream; of those that wait
   * for an event, first the number that they wait for, in that stream. */
  uint64_t *numbers;
  cuda_stream_t *others;
  cuda_stream_t last; /* of the last launch; NULL: none */
  uint64_t last_number;
  struct CUgraphExec_st *next;
};

static cuda_graph_t graphs; /* that the program has */
static cuda_graph_exec_t execs;

int standin_graphs(void) {
  int count = 0;
  for (cuda_graph_t g = graphs; g != NULL; g = g->next) count++;
  for (cuda_graph_exec_t e = execs; e != NULL; e = e->next) count++;
  return count;
}

void standin_graph_add(cuda_graph_t graph) {
  graph->next = graphs;
  graphs = graph;
}

void standin_graph_release(cuda_graph_t graph) {
  if (--graph->uses > 0) return;
  for (int i = 0; i < graph->node_count; i++) free(graph->nodes[i].operation.launch);
  free(graph->nodes);
  free(graph);
}

/* The link to what the handle names; NULL, which is reported: it does not exist. */
static cuda_graph_t *find_graph(cuda_graph_t graph) {
  for (cuda_graph_t *link = &graphs; *link != NULL; link = &(*link)->next) {
    if (*link == graph) return link;
  }
  standin_misuse("use of a graph that does not exist, or was destroyed");
  return NULL;
}

static cuda_graph_exec_t *find_exec(cuda_graph_exec_t exec) {
  for (cuda_graph_exec_t *link = &execs; *link != NULL; link = &(*link)->next) {
    if (*link == exec) return link;
  }
  standin_misuse("use of an executable graph that does not exist, or was destroyed");
  return NULL;
}

cuda_result_t cuGraphDestroy(cuda_graph_t graph) {
  cuda_result_t result = standin_enter();
  if (result != CUDA_RESULT_OK) return result;
  cuda_graph_t *link = find_graph(graph);
  if (link == NULL) return standin_leave(CUDA_RESULT_INVALID_VALUE);
  *link = graph->next;
  standin_graph_release(graph);
  return standin_leave(CUDA_RESULT_OK);
}

/* Counts the nodes; those that only order others are none of the driver's. */
cuda_result_t cuGraphGetNodes(cuda_graph_t graph, cuda_node_t *nodes, size_t *count) {
  cuda_result_t result = standin_enter();
  if (result != CUDA_RESULT_OK) return result;
  if (find_graph(graph) == NULL) return standin_leave(CUDA_RESULT_INVALID_VALUE);
  if (nodes != NULL) return standin_leave(CUDA_RESULT_NOT_SUPPORTED);
  *count = 0;
  for (int i = 0; i < graph->node_count; i++) {
    const graph_node_t *node = &graph->nodes[i];
    *count += node->operation.kind != OPERATION_AFTER || node->after < 0;
  }
  return standin_leave(CUDA_RESULT_OK);
}

/* ---- executable graphs -----------------------------------------------------------------------*/

static void free_exec(cuda_graph_exec_t exec) {
  for (int i = 0; i < exec->graph->branch_count; i++) {
    if (exec->streams[i] != NULL) standin_stream_end(exec->streams[i]);
  }
  standin_graph_release(exec->graph);
  free(exec->numbers);
  free(exec->others);
  free(exec);
}

static cuda_graph_exec_t make_exec(cuda_graph_t graph) {
  cuda_graph_exec_t exec = calloc(1, sizeof *exec);
  if (exec == NULL) return NULL;
  exec->graph = graph;
  graph->uses++;
  exec->numbers = calloc((size_t)graph->node_count + 1, sizeof exec->numbers[0]);
  exec->others = calloc((size_t)graph->node_count + 1, sizeof exec->others[0]);
  bool is_good = exec->numbers != NULL && exec->others != NULL;
  for (int i = 0; i < graph->branch_count && is_good; i++) {
    exec->streams[i] = standin_stream_hidden(graph->branches[i].context);
    is_good = exec->streams[i] != NULL;
  }
  if (is_good) return exec;
  free_exec(exec);
  return NULL;
}

cuda_result_t cuGraphInstantiateWithFlags(cuda_graph_exec_t *exec, cuda_graph_t graph,
                                          unsigned long long flags) {
  cuda_result_t result = standin_enter();
  if (result != CUDA_RESULT_OK) return result;
  if (exec == NULL || flags > 15 || find_graph(graph) == NULL) {
    return standin_leave(CUDA_RESULT_INVALID_VALUE);
  }
  cuda_graph_exec_t made = make_exec(graph);
  if (made == NULL) return standin_leave(CUDA_RESULT_OUT_OF_MEMORY);
  made->next = execs;
  execs = made;
  *exec = made;
  return standin_leave(CUDA_RESULT_OK);
}

/* What is queued is still carried out. */
cuda_result_t cuGraphExecDestroy(cuda_graph_exec_t exec) {
  cuda_result_t result = standin_enter();
  if (result != CUDA_RESULT_OK) return result;
  cuda_graph_exec_t *link = find_exec(exec);
  if (link == NULL) return standin_leave(CUDA_RESULT_INVALID_VALUE);
  *link = exec->next;
  free_exec(exec);
  return standin_leave(CUDA_RESULT_OK);
}

/* ---- launches --------------------------------------------------------------------------------*/

static standin_launch_t *copy_launch(const operation_t *operation) {
  const standin_launch_t *from = operation->launch;
  standin_launch_t *launch = malloc(operation->launch_bytes);
  if (launch == NULL) return NULL;
  memcpy(launch, from, operation->launch_bytes);
  launch->arguments = (void **)(launch + 1);
  for (int i = 0; i < operation->argument_count; i++) {
    launch->arguments[i] = (char *)launch + ((char *)from->arguments[i] - (const char *)from);
  }
  return launch;
}

/* What events stand for when the graph is launched, whatever the graph records. */
static cuda_result_t find_events(cuda_graph_exec_t exec) {
  for (int i = 0; i < exec->graph->node_count; i++) {
    cuda_event_t event = exec->graph->nodes[i].operation.event;
    if (event == NULL) continue;
    if (event->destroyed) {
      standin_misuse("launch of a graph with an event that was destroyed");
      return CUDA_RESULT_INVALID_HANDLE;
    }
    exec->others[i] = event->stream;
    exec->numbers[i] = event->number;
  }
  return CUDA_RESULT_OK;
}

static void find_other(cuda_graph_exec_t exec, int index, operation_t *after) {
  int node = exec->graph->nodes[index].after;
  bool is_event = node < 0;
  after->other = is_event ? exec->others[index] : exec->streams[exec->graph->nodes[node].branch];
  after->value = exec->numbers[is_event ? index : node];
  if (after->other == NULL) after->kind = OPERATION_NONE; /* it was never recorded */
}

static cuda_result_t queue_node(cuda_graph_exec_t exec, int index) {
  const graph_node_t *node = &exec->graph->nodes[index];
  cuda_stream_t stream = exec->streams[node->branch];
  operation_t copy = node->operation;
  if (copy.kind == OPERATION_AFTER) {
    find_other(exec, index, &copy);
  } else if (copy.kind == OPERATION_KERNEL) {
    copy.launch = copy_launch(&copy);
    if (copy.launch == NULL) return CUDA_RESULT_OUT_OF_MEMORY;
  }
  cuda_result_t result = standin_append(stream, &copy);
  exec->numbers[index] = stream->submitted;
  if (copy.kind == OPERATION_EVENT) standin_event_recorded(copy.event, stream);
  return result;
}

static cuda_result_t launch(cuda_graph_exec_t exec, cuda_stream_t stream) {
  const operation_t begin = {.kind = OPERATION_NONE};
  cuda_result_t result = find_events(exec);
  if (result == CUDA_RESULT_OK) result = standin_queue(stream, &begin);
  for (int i = 0; i < exec->graph->branch_count && result == CUDA_RESULT_OK; i++) {
    const operation_t after = {
        .kind = OPERATION_AFTER, .other = exec->last, .value = exec->last_number};
    if (exec->last != NULL) result = standin_append(exec->streams[i], &after);
    if (result == CUDA_RESULT_OK) result = standin_append_after(exec->streams[i], stream);
  }
  for (int i = 0; i < exec->graph->node_count && result == CUDA_RESULT_OK; i++) {
    result = queue_node(exec, i);
  }
  for (int i = 0; i < exec->graph->branch_count && result == CUDA_RESULT_OK; i++) {
    result = standin_append_after(stream, exec->streams[i]);
  }
  exec->last = stream;
  exec->last_number = stream->submitted;
  return result;
}

cuda_result_t cuGraphLaunch(cuda_graph_exec_t exec, cuda_stream_t handle) {
  cuda_context_t context;
  cuda_result_t result = standin_enter_context(&context);
  if (result != CUDA_RESULT_OK) return result;
  cuda_stream_t stream = standin_stream(context, handle);
  if (stream == NULL) return standin_leave(CUDA_RESULT_INVALID_HANDLE);
  if (find_exec(exec) == NULL) return standin_leave(CUDA_RESULT_INVALID_VALUE);
  if (stream->graph != NULL) return standin_leave(CUDA_RESULT_NOT_SUPPORTED);
  for (int i = 0; i < exec->graph->branch_count; i++) {
    if (!exec->streams[i]->destroyed) continue;
    standin_misuse("launch of a graph of a context that was destroyed");
    return standin_leave(CUDA_RESULT_INVALID_HANDLE);
  }
  return standin_leave(launch(exec, stream));
}
