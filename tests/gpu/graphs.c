/* The scenes: arrays of numbers that calls add up, and a word that streams wait for. */
#include "gpu/graphs.h"

#include "base/clock.h"
#include "gpu/standin/functions.h"

#define DONE(call) PARTY_REQUIRE((call) == CUDA_RESULT_OK, "%s", #call)

enum { COUNT = 3000, NUMBERS = 3, HELD_MS = 50 };

/* Three arrays of numbers and a word that streams wait for, which are memory of the GPU. */
typedef struct scene {
  const graphs_side_t *side;
  uint64_t *numbers[NUMBERS];
  uint32_t *gate;
} scene_t;

static int begin(const graphs_side_t *side, scene_t *scene) {
  *scene = (scene_t){.side = side};
  for (int i = 0; i < NUMBERS; i++) {
    PARTY_OK(coll_mem_alloc(side->device, COUNT * sizeof(uint64_t), (void **)&scene->numbers[i]));
    for (int k = 0; k < COUNT; k++) scene->numbers[i][k] = i == 0;
  }
  PARTY_OK(coll_mem_alloc(side->device, sizeof *scene->gate, (void **)&scene->gate));
  *scene->gate = 0;
  return 0;
}

static int end(scene_t *scene) {
  for (int i = 0; i < NUMBERS; i++) PARTY_OK(coll_mem_free(scene->numbers[i]));
  PARTY_OK(coll_mem_free(scene->gate));
  return 0;
}

static int expect(const scene_t *scene, int array, uint64_t value) {
  for (int i = 0; i < COUNT; i++) {
    PARTY_REQUIRE(scene->numbers[array][i] == value, "element %d is %llu instead of %llu", i,
                  (unsigned long long)scene->numbers[array][i], (unsigned long long)value);
  }
  return 0;
}

/* Adds up the array of all ranks. */
static int call(const scene_t *scene, int from, int to, int stream) {
  PARTY_OK(coll_allreduce(scene->numbers[from], scene->numbers[to], COUNT, COLL_UINT64, COLL_SUM,
                          scene->side->comm, scene->side->streams[stream]));
  return 0;
}

static int make_exec(cuda_graph_t graph, cuda_graph_exec_t *exec) {
  DONE(cuGraphInstantiateWithFlags(exec, graph, 0));
  DONE(cuGraphDestroy(graph));
  return 0;
}

static int capture(const scene_t *scene, int from, int to, int stream, cuda_graph_exec_t *exec) {
  cuda_stream_t cuda = scene->side->cuda[stream];
  cuda_graph_t graph;
  DONE(cuStreamBeginCapture_v2(cuda, CUDA_CAPTURE_THREAD_LOCAL));
  PARTY_TRY(call(scene, from, to, stream));
  DONE(cuStreamEndCapture(cuda, &graph));
  return make_exec(graph, exec);
}

static int hold(const scene_t *scene, int stream) {
  DONE(scene->side->driver->cuStreamWaitValue32(
      scene->side->cuda[stream], (cuda_ptr_t)(uintptr_t)scene->gate, 1, CUDA_WAIT_EQ));
  return 0;
}

static void open_gate(const scene_t *scene) {
  __atomic_store_n(scene->gate, 1, __ATOMIC_RELEASE);
}

/* Whatever does not wait has time to end; what waits does not end, however long this takes. */
static void give_time(const scene_t *scene, int stream) {
  uint64_t until_ns = base_clock_now_ns() + HELD_MS * UINT64_C(1000000);
  while (scene->side->driver->cuStreamQuery(scene->side->cuda[stream]) == CUDA_RESULT_NOT_READY &&
         base_clock_now_ns() < until_ns) {
    base_clock_sleep_ns(1000000);
  }
}

static int synchronize(const scene_t *scene) {
  for (int i = 0; i < 2; i++) PARTY_OK(coll_stream_sync(scene->side->streams[i]));
  PARTY_OK(coll_comm_error(scene->side->comm));
  return 0;
}

/* The first call is on stream 0, the second on stream 1. */
static int run_pair(const scene_t *scene, const bool in_graph[2]) {
  cuda_graph_exec_t exec[2];
  for (int i = 0; i < 2; i++) {
    if (in_graph[i]) PARTY_TRY(capture(scene, i, i + 1, i, &exec[i]));
  }
  PARTY_TRY(hold(scene, 0));
  for (int i = 0; i < 2; i++) {
    if (in_graph[i]) DONE(cuGraphLaunch(exec[i], scene->side->cuda[i]));
    if (!in_graph[i]) PARTY_TRY(call(scene, i, i + 1, i));
  }
  give_time(scene, 1);
  open_gate(scene);
  PARTY_TRY(synchronize(scene));
  uint64_t size = (uint64_t)scene->side->size;
  PARTY_TRY(expect(scene, 2, size * size));
  for (int i = 0; i < 2; i++) {
    if (in_graph[i]) DONE(cuGraphExecDestroy(exec[i]));
  }
  return 0;
}

int graphs_in_order(const graphs_side_t *side) {
  static const bool pairs[][2] = {{false, true}, {true, false}, {true, true}};
  scene_t scene;
  for (int i = 0; i < 3; i++) {
    PARTY_TRY(begin(side, &scene));
    PARTY_TRY(run_pair(&scene, pairs[i]));
    PARTY_TRY(end(&scene));
  }
  return 0;
}

int graphs_in_turn(const graphs_side_t *side) {
  enum { TURNS = 40 };
  cuda_graph_exec_t exec;
  scene_t scene;
  uint64_t expected = 1;
  PARTY_TRY(begin(side, &scene));
  PARTY_TRY(capture(&scene, 0, 1, 0, &exec));
  for (int i = 0; i < TURNS; i++) {
    DONE(cuGraphLaunch(exec, side->cuda[0]));
    PARTY_TRY(call(&scene, 1, 0, 1));
    expected *= (uint64_t)side->size * (uint64_t)side->size;
  }
  PARTY_TRY(synchronize(&scene));
  PARTY_TRY(expect(&scene, 0, expected));
  DONE(cuGraphExecDestroy(exec));
  return end(&scene);
}

/* The second stream joins the capture of the first by an event, and the first waits for it at the
 * end. */
static int begin_both(const graphs_side_t *side, cuda_event_t *event) {
  DONE(side->driver->cuEventCreate(event, CUDA_EVENT_NO_TIMING));
  DONE(cuStreamBeginCapture_v2(side->cuda[0], CUDA_CAPTURE_THREAD_LOCAL));
  DONE(side->driver->cuEventRecord(*event, side->cuda[0]));
  DONE(side->driver->cuStreamWaitEvent(side->cuda[1], *event, 0));
  return 0;
}

static int end_both(const graphs_side_t *side, cuda_event_t event, cuda_graph_exec_t *exec) {
  cuda_graph_t graph;
  DONE(side->driver->cuEventRecord(event, side->cuda[1]));
  DONE(side->driver->cuStreamWaitEvent(side->cuda[0], event, 0));
  DONE(cuStreamEndCapture(side->cuda[0], &graph));
  DONE(side->driver->cuEventDestroy(event));
  return make_exec(graph, exec);
}

static int capture_both(const scene_t *scene, cuda_graph_exec_t *exec) {
  cuda_event_t event;
  PARTY_TRY(begin_both(scene->side, &event));
  PARTY_TRY(call(scene, 0, 1, 1));
  PARTY_TRY(call(scene, 1, 2, 0));
  PARTY_TRY(call(scene, 2, 0, 1));
  return end_both(scene->side, event, exec);
}

int graphs_of_two_streams(const graphs_side_t *side) {
  enum { LAUNCHES = 10 };
  cuda_graph_exec_t exec;
  scene_t scene;
  uint64_t expected = 1;
  PARTY_TRY(begin(side, &scene));
  PARTY_TRY(capture_both(&scene, &exec));
  for (int i = 0; i < LAUNCHES; i++) {
    DONE(cuGraphLaunch(exec, side->cuda[i % 2]));
    for (int k = 0; k < 3; k++) expected *= (uint64_t)side->size;
  }
  PARTY_TRY(synchronize(&scene));
  PARTY_TRY(expect(&scene, 0, expected));
  DONE(cuGraphExecDestroy(exec));
  return end(&scene);
}

/* The call of the other capture comes between the two of the first. */
static int capture_at_once(const scene_t *scene, cuda_stream_t cuda, coll_stream_t stream,
                           cuda_graph_exec_t exec[2]) {
  cuda_event_t event;
  cuda_graph_t graph;
  PARTY_TRY(begin_both(scene->side, &event));
  DONE(cuStreamBeginCapture_v2(cuda, CUDA_CAPTURE_THREAD_LOCAL));
  PARTY_TRY(call(scene, 0, 1, 1));
  PARTY_OK(coll_barrier(scene->side->comm, stream));
  PARTY_TRY(call(scene, 1, 0, 0));
  DONE(cuStreamEndCapture(cuda, &graph));
  PARTY_TRY(make_exec(graph, &exec[1]));
  return end_both(scene->side, event, &exec[0]);
}

int graphs_captured_at_once(const graphs_side_t *side) {
  enum { LAUNCHES = 10 };
  cuda_graph_exec_t exec[2];
  cuda_stream_t cuda;
  coll_stream_t stream;
  scene_t scene;
  uint64_t expected = 1;
  PARTY_TRY(begin(side, &scene));
  DONE(side->driver->cuStreamCreateWithPriority(&cuda, CUDA_STREAM_NON_BLOCKING, 0));
  PARTY_OK(coll_stream_from_cuda(cuda, &stream));
  PARTY_TRY(capture_at_once(&scene, cuda, stream, exec));
  for (int i = 0; i < LAUNCHES; i++) {
    for (int k = 0; k < 2; k++) DONE(cuGraphLaunch(exec[k], side->cuda[k]));
    expected *= (uint64_t)side->size * (uint64_t)side->size;
  }
  PARTY_TRY(synchronize(&scene));
  PARTY_TRY(expect(&scene, 0, expected));
  for (int k = 0; k < 2; k++) DONE(cuGraphExecDestroy(exec[k]));
  PARTY_OK(coll_stream_destroy(stream));
  DONE(side->driver->cuStreamDestroy(cuda));
  return end(&scene);
}
