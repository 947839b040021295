/*
 * Captures of streams, and graphs that are launched again and again.
 */
#include <pthread.h>

#include "gpu/runtime/checks.h"
#include "gpu/standin/functions.h"

#define COUNT 64
#define BYTES (COUNT * sizeof(int))
#define LAUNCHES 1000

TestSuite(runtime_graphs, .timeout = 60);

/* The kernel of this test: adds `step` to each of `count` numbers. */
static void add(const standin_launch_t *launch) {
  int *numbers = *(int **)launch->arguments[0];
  int count = *(int *)launch->arguments[1], step = *(int *)launch->arguments[2];
  for (int i = 0; i < count; i++) numbers[i] += step;
}

static cuda_function_t find_add(void) {
  static const size_t bytes[] = {sizeof(int *), sizeof(int), sizeof(int)};
  cuda_module_t module;
  cuda_function_t function;
  CUDA_OK(cudaFree(NULL));
  cr_assert(standin_kernel_register("add", add, 3, bytes));
  cr_assert(cuModuleLoadData(&module, "an image") == CUDA_RESULT_OK);
  cr_assert(cuModuleGetFunction(&function, module, "add") == CUDA_RESULT_OK);
  return function;
}

static void launch_add(cuda_function_t function, int *numbers, int step, cudaStream_t stream) {
  int count = COUNT;
  void *arguments[] = {&numbers, &count, &step};
  cr_assert(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL) ==
            CUDA_RESULT_OK);
}

static int *zeros(void) {
  int *numbers;
  CUDA_OK(cudaMalloc((void **)&numbers, BYTES));
  CUDA_OK(cudaMemset(numbers, 0, BYTES));
  CUDA_OK(cudaDeviceSynchronize());
  return numbers;
}

static void expect(const int *numbers, int value) {
  int host[COUNT];
  CUDA_OK(cudaMemcpy(host, numbers, BYTES, cudaMemcpyDeviceToHost));
  for (int i = 0; i < COUNT; i++) cr_assert(host[i] == value, "%d instead of %d", host[i], value);
}

Test(runtime_graphs, are_launched_again_and_again) {
  cuda_function_t function = find_add();
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  enum cudaStreamCaptureStatus status;
  size_t nodes;
  int *numbers = zeros();
  CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CUDA_OK(cudaStreamIsCapturing(stream, &status));
  cr_assert(status == cudaStreamCaptureStatusActive);
  launch_add(function, numbers, 1, stream);
  launch_add(function, numbers, 2, stream);
  CUDA_OK(cudaStreamEndCapture(stream, &graph));
  CUDA_OK(cudaStreamIsCapturing(stream, &status));
  cr_assert(status == cudaStreamCaptureStatusNone);
  CUDA_OK(cudaGraphGetNodes(graph, NULL, &nodes));
  cr_assert(nodes == 2);
  CUDA_OK(cudaStreamSynchronize(stream));
  expect(numbers, 0); /* the capture runs nothing */
  CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
  CUDA_OK(cudaGraphDestroy(graph));
  for (int i = 0; i < LAUNCHES; i++) CUDA_OK(cudaGraphLaunch(exec, stream));
  launch_add(function, numbers, 5, stream);
  CUDA_OK(cudaStreamSynchronize(stream));
  expect(numbers, 3 * LAUNCHES + 5);
  CUDA_OK(cudaGraphExecDestroy(exec));
  CUDA_RETURNS(cudaErrorInvalidValue, cudaGraphLaunch(exec, stream));
  CUDA_OK(cudaStreamDestroy(stream));
  CUDA_OK(cudaFree(numbers));
  cr_assert(standin_misuses() == 1);
}

/* What a stream waits for while it is captured is waited for in every launch. */
static void capture_fork(cudaStream_t streams[], cudaEvent_t events[], int *numbers[],
                         cudaGraph_t *graph) {
  CUDA_OK(cudaSetDevice(0));
  CUDA_OK(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal));
  CUDA_OK(cudaMemsetAsync(numbers[0], 1, BYTES, streams[0]));
  CUDA_OK(cudaEventRecord(events[0], streams[0]));
  CUDA_OK(cudaSetDevice(1));
  CUDA_OK(cudaStreamWaitEvent(streams[1], events[0], 0));
  CUDA_OK(cudaMemcpyPeerAsync(numbers[1], 1, numbers[0], 0, BYTES, streams[1]));
  CUDA_OK(cudaEventRecord(events[1], streams[1]));
  CUDA_OK(cudaSetDevice(0));
  CUDA_OK(cudaStreamWaitEvent(streams[0], events[1], 0));
  CUDA_OK(cudaMemsetAsync(numbers[0], 0, BYTES, streams[0]));
  CUDA_OK(cudaStreamEndCapture(streams[0], graph));
}

Test(runtime_graphs, have_streams_of_two_devices) {
  cudaStream_t streams[2];
  cudaEvent_t events[2];
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  int *numbers[2];
  cuda_setting("COLL_STANDIN_DELAY_US", "300");
  for (int i = 0; i < 2; i++) {
    CUDA_OK(cudaSetDevice(i));
    CUDA_OK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    CUDA_OK(cudaEventCreateWithFlags(&events[i], cudaEventDisableTiming));
    numbers[i] = zeros();
  }
  capture_fork(streams, events, numbers, &graph);
  CUDA_RETURNS(cudaErrorCapturedEvent, cudaEventSynchronize(events[1]));
  CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 20; i++) {
    CUDA_OK(cudaMemcpyPeerAsync(numbers[1], 1, numbers[0], 0, BYTES, streams[0]));
    CUDA_OK(cudaGraphLaunch(exec, streams[0]));
    CUDA_OK(cudaGraphLaunch(exec, streams[1])); /* behind the other launch */
    CUDA_OK(cudaStreamSynchronize(streams[1]));
    CUDA_OK(cudaMemcpyPeerAsync(numbers[0], 0, numbers[1], 1, BYTES, streams[0]));
    CUDA_OK(cudaStreamSynchronize(streams[0]));
    expect(numbers[0], 0x01010101);
  }
  CUDA_OK(cudaDeviceSynchronize());
  CUDA_OK(cudaGraphExecDestroy(exec));
  CUDA_OK(cudaGraphDestroy(graph));
  for (int i = 0; i < 2; i++) {
    CUDA_OK(cudaSetDevice(i));
    CUDA_OK(cudaDeviceSynchronize());
    CUDA_OK(cudaStreamDestroy(streams[i]));
    CUDA_OK(cudaEventDestroy(events[i]));
    CUDA_OK(cudaFree(numbers[i]));
  }
  cuda_expect_clean(2);
}

/* ---- events of others ------------------------------------------------------------------------*/

/* In each launch the graph waits for what the event stands for then, and what waits for the event
 * afterwards waits for the graph. */
Test(runtime_graphs, wait_for_events_and_record_them_in_each_launch) {
  cudaStream_t stream, other;
  cudaEvent_t event;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  size_t nodes;
  unsigned *word;
  int *first = zeros(), *second = zeros(), *third = zeros();
  CUDA_OK(cudaMalloc((void **)&word, sizeof *word));
  CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CUDA_OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  CUDA_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CUDA_OK(cudaStreamWaitEvent(stream, event, cudaEventWaitExternal));
  CUDA_OK(cudaMemcpyAsync(second, first, BYTES, cudaMemcpyDeviceToDevice, stream));
  CUDA_OK(cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal));
  CUDA_OK(cudaStreamEndCapture(stream, &graph));
  CUDA_OK(cudaEventQuery(event)); /* it was not captured */
  CUDA_OK(cudaGraphGetNodes(graph, NULL, &nodes));
  cr_assert(nodes == 3);
  CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 1; i <= 3; i++) {
    __atomic_store_n(word, 0, __ATOMIC_RELEASE);
    cr_assert(cuStreamWaitValue32_v2(other, (cuda_ptr_t)(uintptr_t)word, 1, CUDA_WAIT_EQ) ==
              CUDA_RESULT_OK);
    CUDA_OK(cudaMemsetAsync(first, i, BYTES, other));
    CUDA_OK(cudaEventRecord(event, other));
    CUDA_OK(cudaGraphLaunch(exec, stream));
    CUDA_RETURNS(cudaErrorNotReady, cudaEventQuery(event));
    CUDA_OK(cudaStreamWaitEvent(other, event, 0));
    CUDA_OK(cudaMemcpyAsync(third, second, BYTES, cudaMemcpyDeviceToDevice, other));
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    CUDA_OK(cudaStreamSynchronize(other));
    CUDA_OK(cudaEventQuery(event));
    expect(third, 0x01010101 * i);
  }
  CUDA_OK(cudaStreamSynchronize(stream));
  CUDA_OK(cudaGraphExecDestroy(exec));
  CUDA_OK(cudaGraphDestroy(graph));
  CUDA_OK(cudaEventDestroy(event));
  CUDA_OK(cudaStreamDestroy(stream));
  CUDA_OK(cudaStreamDestroy(other));
  CUDA_OK(cudaFree(first));
  CUDA_OK(cudaFree(second));
  CUDA_OK(cudaFree(third));
  CUDA_OK(cudaFree(word));
  cuda_expect_clean(1);
}

Test(runtime_graphs, have_events_of_others_while_they_are_captured_alone) {
  cudaStream_t stream;
  cudaEvent_t event;
  CUDA_OK(cudaStreamCreate(&stream));
  CUDA_OK(cudaEventCreate(&event));
  CUDA_RETURNS(cudaErrorInvalidValue, cudaStreamWaitEvent(stream, event, cudaEventWaitExternal));
  CUDA_RETURNS(cudaErrorInvalidValue,
               cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal));
  CUDA_RETURNS(cudaErrorInvalidValue, cudaEventRecordWithFlags(event, stream, 2));
  CUDA_OK(cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault));
  CUDA_OK(cudaEventDestroy(event));
  CUDA_OK(cudaStreamDestroy(stream));
  cuda_expect_clean(1);
}

/* ---- what a capture refuses ------------------------------------------------------------------*/

typedef struct scene {
  cudaStream_t stream, other;
  cudaEvent_t event;
} scene_t;

static scene_t begin(enum cudaStreamCaptureMode mode) {
  scene_t scene;
  CUDA_OK(cudaStreamCreate(&scene.stream));
  CUDA_OK(cudaStreamCreateWithFlags(&scene.other, cudaStreamNonBlocking));
  CUDA_OK(cudaEventCreate(&scene.event));
  CUDA_OK(cudaEventRecord(scene.event, scene.other));
  CUDA_OK(cudaStreamBeginCapture(scene.stream, mode));
  return scene;
}

static void end(scene_t *scene, cudaError_t expected) {
  cudaGraph_t graph = NULL;
  CUDA_RETURNS(expected, cudaStreamEndCapture(scene->stream, &graph));
  if (expected == cudaSuccess) CUDA_OK(cudaGraphDestroy(graph));
  cr_assert(expected == cudaSuccess || graph == NULL);
  CUDA_OK(cudaEventDestroy(scene->event));
  CUDA_OK(cudaStreamDestroy(scene->stream));
  CUDA_OK(cudaStreamDestroy(scene->other));
  cuda_expect_clean(1);
}

Test(runtime_graphs, refuse_to_wait_for_what_is_captured) {
  scene_t scene = begin(cudaStreamCaptureModeGlobal);
  CUDA_RETURNS(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(scene.stream));
  end(&scene, cudaErrorStreamCaptureInvalidated);
}

Test(runtime_graphs, refuse_allocations) {
  void *memory;
  scene_t scene = begin(cudaStreamCaptureModeThreadLocal);
  CUDA_RETURNS(cudaErrorStreamCaptureUnsupported, cudaMalloc(&memory, 64));
  end(&scene, cudaErrorStreamCaptureInvalidated);
}

Test(runtime_graphs, permit_allocations_to_threads_that_say_so) {
  enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  void *memory;
  scene_t scene = begin(cudaStreamCaptureModeGlobal);
  CUDA_OK(cudaThreadExchangeStreamCaptureMode(&mode));
  cr_assert(mode == cudaStreamCaptureModeGlobal);
  CUDA_OK(cudaMalloc(&memory, 64));
  CUDA_OK(cudaFree(memory));
  CUDA_OK(cudaThreadExchangeStreamCaptureMode(&mode));
  end(&scene, cudaSuccess);
}

Test(runtime_graphs, refuse_the_legacy_stream) {
  char host[4];
  scene_t scene = begin(cudaStreamCaptureModeRelaxed);
  CUDA_RETURNS(cudaErrorStreamCaptureUnsupported,
               cudaStreamBeginCapture(NULL, cudaStreamCaptureModeRelaxed));
  CUDA_RETURNS(cudaErrorStreamCaptureImplicit, cudaMemcpy(host, host + 2, 2, cudaMemcpyHostToHost));
  end(&scene, cudaErrorStreamCaptureInvalidated);
}

Test(runtime_graphs, refuse_events_from_before) {
  scene_t scene = begin(cudaStreamCaptureModeRelaxed);
  CUDA_RETURNS(cudaErrorStreamCaptureIsolation, cudaStreamWaitEvent(scene.stream, scene.event, 0));
  end(&scene, cudaErrorStreamCaptureInvalidated);
}

static void nothing(void *context) {
  (void)context;
}

Test(runtime_graphs, need_their_streams_joined) {
  scene_t scene = begin(cudaStreamCaptureModeRelaxed);
  CUDA_OK(cudaEventRecord(scene.event, scene.stream));
  CUDA_OK(cudaStreamWaitEvent(scene.other, scene.event, 0));
  CUDA_OK(cudaLaunchHostFunc(scene.other, nothing, NULL));
  end(&scene, cudaErrorStreamCaptureUnjoined);
}

static void *capture(void *stream) {
  CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  return NULL;
}

Test(runtime_graphs, refuse_calls_of_other_threads_in_global_mode) {
  pthread_t thread;
  cudaStream_t stream;
  cudaGraph_t graph;
  void *memory;
  CUDA_OK(cudaStreamCreate(&stream));
  cr_assert(pthread_create(&thread, NULL, capture, stream) == 0);
  pthread_join(thread, NULL);
  CUDA_RETURNS(cudaErrorStreamCaptureUnsupported, cudaMalloc(&memory, 64));
  CUDA_RETURNS(cudaErrorStreamCaptureWrongThread, cudaStreamEndCapture(stream, &graph));
}

static void count_up(void *context) {
  ++*(int *)context;
}

Test(runtime_graphs, of_which_programs_ask_while_they_are_captured) {
  enum cudaStreamCaptureStatus status;
  cudaUserObject_t object;
  cudaStream_t stream;
  cudaGraph_t graph, found = NULL;
  int priority = -1, destroyed = 0;
  unsigned long long id = 0;
  CUDA_OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -1));
  CUDA_OK(cudaStreamGetPriority(stream, &priority));
  cr_assert(priority == 0);
  CUDA_OK(cudaStreamGetCaptureInfo(stream, &status, &id, &found, NULL, NULL, NULL));
  cr_assert(status == cudaStreamCaptureStatusNone && found == NULL);
  CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  CUDA_OK(cudaStreamGetCaptureInfo(stream, &status, &id, &found, NULL, NULL, NULL));
  cr_assert(status == cudaStreamCaptureStatusActive && found != NULL && id > 0);
  CUDA_OK(cudaUserObjectCreate(&object, &destroyed, count_up, 2, cudaUserObjectNoDestructorSync));
  CUDA_OK(cudaGraphRetainUserObject(found, object, 1, cudaGraphUserObjectMove));
  CUDA_OK(cudaStreamEndCapture(stream, &graph));
  cr_assert(graph == found);
  CUDA_OK(cudaGraphDestroy(graph));
  cr_assert(destroyed == 0);
  CUDA_OK(cudaUserObjectRelease(object, 2)); /* of the graph, too, which keeps it for good */
  cr_assert(destroyed == 1);
  CUDA_OK(cudaStreamDestroy(stream));
  cuda_expect_clean(1);
}
