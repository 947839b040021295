/*
 * Capture of streams: what is queued on a stream that is captured becomes a node of a graph. The
 * stream where the capture began is branch 0 of the graph; a stream that waits for an event of the
 * capture joins it as a further branch. Nodes of a branch are ordered; a wait for an event orders
 * nodes of two branches.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu/standin/graph.h"

static cuda_graph_t captures; /* those under way */
static uint64_t last_id;
static _Thread_local cuda_capture_mode_t thread_mode = CUDA_CAPTURE_GLOBAL;

/* ---- what is refused while a stream is captured ----------------------------------------------*/

static bool forbids(const struct CUgraph_st *graph) {
  if (thread_mode == CUDA_CAPTURE_RELAXED || graph->mode == CUDA_CAPTURE_RELAXED) return false;
  if (pthread_equal(graph->thread, pthread_self())) return true;
  return thread_mode == CUDA_CAPTURE_GLOBAL && graph->mode == CUDA_CAPTURE_GLOBAL;
}

cuda_result_t standin_enter_uncaptured(cuda_context_t *context) {
  cuda_result_t result = standin_enter_context(context);
  if (result != CUDA_RESULT_OK) return result;
  for (cuda_graph_t g = captures; g != NULL; g = g->next) {
    if (!forbids(g)) continue;
    g->is_invalid = true;
    result = CUDA_RESULT_CAPTURE_UNSUPPORTED;
  }
  return result == CUDA_RESULT_OK ? result : standin_leave(result);
}

cuda_result_t standin_capture_check_legacy(cuda_context_t context) {
  cuda_result_t result = CUDA_RESULT_OK;
  for (cuda_stream_t s = standin.streams; s != NULL; s = s->next) {
    bool blocks = s->context == context && (s->flags & CUDA_STREAM_NON_BLOCKING) == 0;
    if (!blocks || s->graph == NULL) continue;
    s->graph->is_invalid = true;
    result = CUDA_RESULT_CAPTURE_IMPLICIT;
  }
  return result;
}

cuda_result_t cuThreadExchangeStreamCaptureMode(cuda_capture_mode_t *mode) {
  cuda_capture_mode_t previous = thread_mode;
  if (mode == NULL || *mode > CUDA_CAPTURE_RELAXED) return CUDA_RESULT_INVALID_VALUE;
  thread_mode = *mode;
  *mode = previous;
  return CUDA_RESULT_OK;
}

/* ---- nodes -----------------------------------------------------------------------------------*/

/* The capture fails; returns the result. */
static cuda_result_t invalidate(cuda_graph_t graph, cuda_result_t result) {
  graph->is_invalid = true;
  return result;
}

static cuda_result_t add_node(cuda_graph_t graph, int branch, const operation_t *operation,
                              int after) {
  if (graph->node_count == graph->node_capacity) {
    int capacity = graph->node_capacity > 0 ? 2 * graph->node_capacity : 16;
    graph_node_t *nodes = realloc(graph->nodes, (size_t)capacity * sizeof *nodes);
    if (nodes == NULL) return CUDA_RESULT_OUT_OF_MEMORY;
    graph->nodes = nodes;
    graph->node_capacity = capacity;
  }
  graph->nodes[graph->node_count] = (graph_node_t){*operation, branch, after};
  graph->branches[branch].last = graph->node_count++;
  return CUDA_RESULT_OK;
}

cuda_result_t standin_capture_add(cuda_stream_t stream, const operation_t *operation) {
  cuda_graph_t graph = stream->graph;
  graph_branch_t *branch = &graph->branches[stream->branch];
  if (graph->is_invalid) return CUDA_RESULT_CAPTURE_INVALIDATED;
  if (operation->kind == OPERATION_FREE) {
    return invalidate(graph, CUDA_RESULT_CAPTURE_UNSUPPORTED);
  }
  cuda_result_t result = add_node(graph, stream->branch, operation, -1);
  if (result == CUDA_RESULT_OK) branch->clock[stream->branch]++;
  return result;
}

/* ---- branches --------------------------------------------------------------------------------*/

static cuda_graph_t find(uint64_t id) {
  cuda_graph_t graph = captures;
  while (graph != NULL && graph->id != id) graph = graph->next;
  return graph;
}

static cuda_result_t add_branch(cuda_graph_t graph, cuda_stream_t stream) {
  if (graph->branch_count == STANDIN_BRANCHES_MAX) return CUDA_RESULT_OUT_OF_MEMORY;
  graph->branches[graph->branch_count] = (graph_branch_t){.context = stream->context, .last = -1};
  stream->graph = graph;
  stream->branch = graph->branch_count++;
  return CUDA_RESULT_OK;
}

cuda_result_t standin_capture_record(cuda_stream_t stream, cuda_event_t event) {
  cuda_graph_t graph = stream->graph;
  const graph_branch_t *branch = &graph->branches[stream->branch];
  if (graph->is_invalid) return CUDA_RESULT_CAPTURE_INVALIDATED;
  event->capture = graph->id;
  event->branch = stream->branch;
  event->node = branch->last;
  memcpy(event->clock, branch->clock, sizeof event->clock);
  return CUDA_RESULT_OK;
}

/* The stream waits in the graph for what the event stands for. */
static cuda_result_t join(cuda_graph_t graph, cuda_stream_t stream,
                          const struct CUevent_st *event) {
  operation_t after = {.kind = OPERATION_AFTER};
  cuda_result_t result = CUDA_RESULT_OK;
  if (stream->graph == NULL) result = add_branch(graph, stream);
  if (result != CUDA_RESULT_OK) return result;
  if (event->node >= 0) result = add_node(graph, stream->branch, &after, event->node);
  if (result != CUDA_RESULT_OK) return result;
  int *clock = graph->branches[stream->branch].clock;
  for (int i = 0; i < STANDIN_BRANCHES_MAX; i++) {
    if (clock[i] < event->clock[i]) clock[i] = event->clock[i];
  }
  return CUDA_RESULT_OK;
}

cuda_result_t standin_capture_wait(cuda_stream_t stream, cuda_event_t event) {
  cuda_graph_t graph = find(event->capture);
  if (event->capture == 0 && event->stream == NULL) return CUDA_RESULT_OK; /* never recorded */
  if (event->capture == 0) return invalidate(stream->graph, CUDA_RESULT_CAPTURE_ISOLATION);
  if (graph == NULL) return CUDA_RESULT_CAPTURED_EVENT; /* of a capture that has ended */
  if (graph->is_invalid) return CUDA_RESULT_CAPTURE_INVALIDATED;
  if (stream == stream->context->legacy) return invalidate(graph, CUDA_RESULT_CAPTURE_IMPLICIT);
  if (stream->graph != NULL && stream->graph != graph) {
    stream->graph->is_invalid = true;
    return invalidate(graph, CUDA_RESULT_CAPTURE_MERGE);
  }
  return join(graph, stream, event);
}

/* ---- functions -------------------------------------------------------------------------------*/

static cuda_result_t enter_stream(cuda_stream_t handle, cuda_stream_t *stream) {
  cuda_context_t context;
  cuda_result_t result = standin_enter_context(&context);
  if (result != CUDA_RESULT_OK) return result;
  *stream = standin_stream(context, handle);
  return *stream != NULL ? CUDA_RESULT_OK : standin_leave(CUDA_RESULT_INVALID_HANDLE);
}

cuda_result_t cuStreamBeginCapture_v2(cuda_stream_t handle, cuda_capture_mode_t mode) {
  cuda_stream_t stream;
  cuda_result_t result = enter_stream(handle, &stream);
  if (result != CUDA_RESULT_OK) return result;
  if (stream == stream->context->legacy) return standin_leave(CUDA_RESULT_CAPTURE_UNSUPPORTED);
  if (stream->graph != NULL || mode > CUDA_CAPTURE_RELAXED) {
    return standin_leave(CUDA_RESULT_INVALID_VALUE);
  }
  cuda_graph_t graph = calloc(1, sizeof *graph);
  if (graph == NULL) return standin_leave(CUDA_RESULT_OUT_OF_MEMORY);
  graph->id = ++last_id;
  graph->mode = mode;
  graph->thread = pthread_self();
  graph->uses = 1;
  (void)add_branch(graph, stream);
  graph->next = captures;
  captures = graph;
  return standin_leave(CUDA_RESULT_OK);
}

/* No stream is captured for the graph any more. */
static void end(cuda_graph_t graph) {
  cuda_graph_t *link = &captures;
  while (*link != graph) link = &(*link)->next;
  *link = graph->next;
  for (cuda_stream_t s = standin.streams; s != NULL; s = s->next) {
    if (s->graph == graph) s->graph = NULL;
  }
}

/* Whether branch 0 has waited for all nodes of the others. */
static bool is_joined(const struct CUgraph_st *graph) {
  for (int i = 1; i < graph->branch_count; i++) {
    if (graph->branches[0].clock[i] < graph->branches[i].clock[i]) return false;
  }
  return true;
}

cuda_result_t cuStreamEndCapture(cuda_stream_t handle, cuda_graph_t *out) {
  cuda_stream_t stream;
  cuda_result_t result = enter_stream(handle, &stream);
  if (result != CUDA_RESULT_OK) return result;
  cuda_graph_t graph = stream->graph;
  if (graph == NULL) return standin_leave(CUDA_RESULT_INVALID_VALUE);
  if (stream->branch != 0) {
    return standin_leave(invalidate(graph, CUDA_RESULT_CAPTURE_UNMATCHED));
  }
  if (graph->mode != CUDA_CAPTURE_RELAXED && !pthread_equal(graph->thread, pthread_self())) {
    return standin_leave(invalidate(graph, CUDA_RESULT_CAPTURE_WRONG_THREAD));
  }
  end(graph);
  *out = NULL;
  if (graph->is_invalid) result = CUDA_RESULT_CAPTURE_INVALIDATED;
  if (result == CUDA_RESULT_OK && !is_joined(graph)) result = CUDA_RESULT_CAPTURE_UNJOINED;
  if (result != CUDA_RESULT_OK) {
    standin_graph_release(graph);
    return standin_leave(result);
  }
  standin_graph_add(graph);
  *out = graph;
  return standin_leave(CUDA_RESULT_OK);
}

static cuda_capture_status_t status_of(const struct CUstream_st *stream) {
  if (stream->graph == NULL) return CUDA_CAPTURE_NONE;
  return stream->graph->is_invalid ? CUDA_CAPTURE_INVALIDATED : CUDA_CAPTURE_ACTIVE;
}

cuda_result_t cuStreamIsCapturing(cuda_stream_t handle, cuda_capture_status_t *status) {
  return cuStreamGetCaptureInfo_v2(handle, status, NULL, NULL, NULL, NULL);
}

cuda_result_t cuStreamGetCaptureInfo_v2(cuda_stream_t handle, cuda_capture_status_t *status,
                                        uint64_t *id, cuda_graph_t *graph,
                                        const cuda_node_t **dependencies,
                                        size_t *dependency_count) {
  cuda_stream_t stream;
  cuda_result_t result = enter_stream(handle, &stream);
  if (result != CUDA_RESULT_OK) return result;
  if (stream == stream->context->legacy) {
    result = standin_capture_check_legacy(stream->context);
    if (result != CUDA_RESULT_OK) return standin_leave(result);
  }
  *status = status_of(stream);
  if (*status == CUDA_CAPTURE_NONE) return standin_leave(CUDA_RESULT_OK);
  if (id != NULL) *id = stream->graph->id;
  if (graph != NULL) *graph = stream->graph;
  if (dependencies != NULL) *dependencies = NULL;
  if (dependency_count != NULL) *dependency_count = 0;
  return standin_leave(CUDA_RESULT_OK);
}
