/* Records go over the harness's board, descriptors over sockets. */
#include "gpu/ends.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/names.h"
#include "gpu/standin_kernel.h"
#include "verify/random.h"

#define TIMEOUT_MS 60000

/* ---- descriptors -----------------------------------------------------------------------------*/

typedef struct message {
  struct iovec data;
  struct msghdr header;
  char byte;
  _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
} message_t;

static void message_init(message_t *message) {
  memset(message, 0, sizeof *message);
  message->data = (struct iovec){&message->byte, 1};
  message->header = (struct msghdr){.msg_iov = &message->data,
                                    .msg_iovlen = 1,
                                    .msg_control = message->control,
                                    .msg_controllen = sizeof message->control};
}

static bool send_descriptor(int socket, int descriptor) {
  message_t message;
  message_init(&message);
  struct cmsghdr *header = CMSG_FIRSTHDR(&message.header);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  return sendmsg(socket, &message.header, 0) == 1;
}

static int receive_descriptor(int socket) {
  message_t message;
  int descriptor = -1;
  message_init(&message);
  if (recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC) != 1) return -1;
  struct cmsghdr *header = CMSG_FIRSTHDR(&message.header);
  if (header != NULL) memcpy(&descriptor, CMSG_DATA(header), sizeof(int));
  return descriptor;
}

/* ---- ends ------------------------------------------------------------------------------------*/

static int exchange(const ends_t *ends, ends_rank_t *made, int descriptors[]) {
  int own;
  for (int peer = 0; peer < made->size; peer++) descriptors[peer] = -1;
  if (ends->sockets == NULL) return 0;
  ENDS_TRY(cuda_end_export(made->end, &own));
  for (int peer = 0; peer < made->size; peer++) {
    if (peer != made->rank) ENDS_EXPECT(send_descriptor(ends->sockets[made->rank][peer], own));
  }
  for (int peer = 0; peer < made->size; peer++) {
    if (peer == made->rank) continue;
    descriptors[peer] = receive_descriptor(ends->sockets[made->rank][peer]);
    ENDS_EXPECT(descriptors[peer] >= 0);
  }
  close(own);
  return 0;
}

static int make_streams(ends_rank_t *made) {
  ENDS_TRY(cuda_context_enter(made->driver, made->device));
  for (int i = 0; i < 2; i++) {
    ENDS_TRY(
        made->driver->cuStreamCreateWithPriority(&made->streams[i], CUDA_STREAM_NON_BLOCKING, 0));
  }
  cuda_context_leave(made->driver, made->device);
  return 0;
}

int ends_open(const ends_t *ends, int rank, int size, ends_rank_t *made) {
  cuda_record_t *records = harness_board();
  int descriptors[HARNESS_RANKS_MAX];
  *made = (ends_rank_t){.rank = rank, .size = size, .device = rank % ends->gpus};
  ENDS_EXPECT(standin_kernel_launches() >= 0); /* the library is linked for whoever opens ends */
  ENDS_TRY(cuda_driver_load(&made->driver));
  const cuda_end_config_t config = {.rank = rank,
                                    .size = size,
                                    .device = made->device,
                                    .process = (uint64_t)getpid(),
                                    .protocols = ends->protocols};
  ENDS_TRY(cuda_end_create(made->driver, &config, &made->end));
  cuda_end_describe(made->end, &records[rank]);
  if (exchange(ends, made, descriptors) != 0) return 1;
  harness_barrier();
  ENDS_TRY(cuda_end_connect(made->end, records, descriptors));
  for (int peer = 0; peer < size; peer++) {
    if (descriptors[peer] >= 0) close(descriptors[peer]);
  }
  if (make_streams(made) != 0) return 1;
  harness_barrier();
  return 0;
}

int ends_close(ends_rank_t *rank) {
  ENDS_TRY(cuda_context_enter(rank->driver, rank->device));
  coll_status_t status = cuda_end_destroy(rank->end);
  for (int i = 0; i < 2; i++) ENDS_TRY(rank->driver->cuStreamDestroy(rank->streams[i]));
  cuda_context_leave(rank->driver, rank->device);
  ENDS_TRY(status);
  return 0;
}

/* ---- series ----------------------------------------------------------------------------------*/

typedef struct state {
  const ends_series_t *series;
  ends_rank_t rank;
  uint64_t random;
  plan_t **plans;           /* [call_count]; NULL: not built */
  ranks_buffers_t *buffers; /* [window]: of the launches since the last wait */
} state_t;

cuda_request_t ends_request(const question_t *q, const ranks_buffers_t *b) {
  cuda_request_t request = {.input = b->input,
                            .output = b->output,
                            .count = b->count,
                            .dtype = q->dtype,
                            .op = base_collective_reduces(q->collective) ? q->op : COLL_SUM};
  if (q->collective != COLL_ALLTOALLV) return request;
  request.input_blocks = (cuda_blocks_t){b->blocks[0], b->blocks[1]};
  request.output_blocks = (cuda_blocks_t){b->blocks[2], b->blocks[3]};
  return request;
}

/* The blocks' arrays are overwritten, as the launch has read them. */
static int launch(state_t *state, int number) {
  int index = number % state->series->call_count;
  const ranks_call_t *call = &state->series->calls[index];
  const question_t *q = &call->question;
  ranks_buffers_t *b = &state->buffers[number % state->series->window];
  const plan_shape_t shape = {
      .collective = q->collective, .size = q->size, .root = q->root, .layout = call->layout};
  const cuda_program_t *program;
  ranks_buffers_make(call, state->rank.rank, &state->random, b);
  if (state->plans[index] == NULL) {
    ENDS_TRY(algo_build(call->algo, &shape, state->rank.rank, b->in_place, &state->plans[index]));
  }
  ENDS_TRY(cuda_end_program(state->rank.end, state->plans[index], &program));
  cuda_request_t request = ends_request(q, b);
  cuda_stream_t stream = state->rank.streams[number % state->series->streams];
  ENDS_TRY(cuda_end_launch(state->rank.end, program, &request, stream));
  memset(b->blocks, 0xff, sizeof b->blocks);
  return 0;
}

static int check(state_t *state, int number) {
  const ranks_call_t *call = &state->series->calls[number % state->series->call_count];
  ranks_buffers_t *b = &state->buffers[number % state->series->window];
  char question[QUESTION_TEXT_BYTES], wrong[QUESTION_TEXT_BYTES];
  bool good = ranks_buffers_check(&call->question, state->rank.rank, b, wrong);
  ranks_buffers_free(b);
  if (good) return 0;
  question_describe(&call->question, question);
  return harness_fail("launch %d, %s by %s: %s", number, question, call->algo->name, wrong);
}

static int run(state_t *state) {
  const ends_series_t *series = state->series;
  for (int first = 0; first < series->launches; first += series->window) {
    int end = first + series->window < series->launches ? first + series->window : series->launches;
    for (int number = first; number < end; number++) {
      if (launch(state, number) != 0) return 1;
    }
    ENDS_TRY(cuda_end_synchronize(state->rank.end));
    ENDS_EXPECT(!cuda_end_has_failed(state->rank.end));
    for (int number = first; number < end; number++) {
      if (check(state, number) != 0) return 1;
    }
  }
  return 0;
}

int ends_run_series(int rank, int size, void *context) {
  const ends_series_t *series = context;
  state_t state = {.series = series, .random = random_mix(series->seed + (uint64_t)rank)};
  state.plans = calloc((size_t)series->call_count, sizeof *state.plans);
  state.buffers = calloc((size_t)series->window, sizeof *state.buffers);
  ENDS_EXPECT(state.plans != NULL && state.buffers != NULL);
  if (ends_open(&series->ends, rank, size, &state.rank) != 0 || run(&state) != 0 ||
      ends_close(&state.rank) != 0) {
    return 1;
  }
  for (int i = 0; i < series->call_count; i++) plan_free(state.plans[i]);
  free(state.plans);
  free(state.buffers);
  return 0;
}

/* ---- runs ------------------------------------------------------------------------------------*/

void ends_run_threads(int size, harness_body_t body, void *context) {
  harness_result_t result;
  cr_assert(harness_run_threads(size, TIMEOUT_MS, body, context, &result), "%s", result.text);
  gpu_expect_clean();
}

void ends_run_processes(int size, harness_body_t body, ends_t *ends, void *context) {
  static int sockets[HARNESS_RANKS_MAX][HARNESS_RANKS_MAX];
  harness_result_t result;
  for (int a = 0; a < size; a++) {
    for (int b = a + 1; b < size; b++) {
      int pair[2];
      cr_assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
      sockets[a][b] = pair[0];
      sockets[b][a] = pair[1];
    }
  }
  ends->sockets = (const int(*)[HARNESS_RANKS_MAX])sockets;
  bool good = harness_run(size, TIMEOUT_MS, body, context, &result);
  for (int a = 0; a < size; a++) {
    for (int b = 0; b < size; b++) {
      if (a != b) close(sockets[a][b]);
    }
  }
  cr_assert(good, "%s", result.text);
}
