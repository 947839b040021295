/*
 * Calls on GPUs return before they are complete, so no thread waits in them. The thread of watch.c
 * publishes instead what the kernel of a rank waits for, in the rank's flight recorder, and reports
 * it when it has lasted for COLL_HANG_MS. Only time during which that thread is awake counts.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "flight/process.h"
#include "flight/text.h"
#include "offload/state.h"

#define SLICE_NS_MAX UINT64_C(1000000000)
#define LOOK_NS \
  UINT64_C(50000000) /* shorter calls are left alone: to look may take calls of CUDA */
#define REPORT_BYTES 2048
#define DETAILED_MAX 4 /* peers that are described */
#define SET_WORDS (FLIGHT_RANKS_MAX / 64)
#define NS_PER_S 1e9

/* ---- calls that were launched ---------------------------------------------------------------*/

void offload_note_launch(offload_t *gpu, uint64_t number, cuda_stream_t stream) {
  if (cuda_end_has_captured(gpu->end)) {
    atomic_store_explicit(&gpu->has_graphs, true, memory_order_relaxed);
  }
  uint64_t count = gpu->launched++;
  offload_launch_t *launch = &gpu->launches[count % OFFLOAD_LAUNCHES];
  atomic_store_explicit(&launch->sequence, 0, memory_order_relaxed);
  /* release: a reader that sees one of these sees that the entry is being written */
  atomic_store_explicit(&launch->number, number, memory_order_release);
  atomic_store_explicit(&launch->stream, (uintptr_t)stream, memory_order_release);
  atomic_store_explicit(&launch->sequence, count + 1, memory_order_release);
}

/* A call as its kernel makes it. */
typedef struct running {
  flight_call_t call;
  uint64_t number;  /* on the communicator if is_launched, else what the kernel counts */
  bool is_launched; /* by a call that is known */
  uintptr_t stream;
} running_t;

/* The launch of the collective that the kernel counts as `index`. False: not known, as if graphs
 * have been captured, whose launches only the kernel counts. */
static bool find_launch(const offload_t *gpu, uint64_t index, running_t *found) {
  const offload_launch_t *launch = &gpu->launches[index % OFFLOAD_LAUNCHES];
  flight_past_t past;
  if (atomic_load_explicit(&gpu->has_graphs, memory_order_relaxed)) return false;
  if (atomic_load_explicit(&launch->sequence, memory_order_acquire) != index + 1) return false;
  uint64_t number = atomic_load_explicit(&launch->number, memory_order_acquire);
  uintptr_t stream = atomic_load_explicit(&launch->stream, memory_order_acquire);
  if (atomic_load_explicit(&launch->sequence, memory_order_relaxed) != index + 1) return false;
  if (!flight_find(gpu->comm->local->flight, number, &past)) return false;
  if (!flight_call_is(past.call, found->call)) return false;
  found->number = number;
  found->stream = stream;
  return true;
}

static running_t running_call(const offload_t *gpu, const cuda_progress_t *progress) {
  const flight_words_t group = {.verb = FLIGHT_GPU_GROUP, .op = FLIGHT_OP_NONE, .on_gpu = true};
  running_t running = {.call = flight_call_make(&group), .number = progress->begun};
  if (!progress->is_collective) return running;
  running.call = (flight_call_t){progress->words.what, progress->words.count};
  running.number = progress->number;
  running.is_launched = find_launch(gpu, progress->number, &running);
  return running;
}

/* ---- texts ----------------------------------------------------------------------------------*/

static void add_call(flight_text_t *to, uint64_t number, flight_call_t call) {
  char text[FLIGHT_TEXT_BYTES];
  flight_call_describe(call, comm_forced_name(call), text, sizeof text);
  flight_text_add(to, "%llu, %s", (unsigned long long)number, text);
}

static bool is_of_copies(const offload_t *gpu) {
  const char *unused;
  return cuda_end_engine(gpu->end, &unused) == CUDA_ENGINE_COPY;
}

static void add_running(flight_text_t *to, const offload_t *gpu, const running_t *running) {
  char text[FLIGHT_TEXT_BYTES];
  if (running->is_launched) {
    flight_text_add(to, "call ");
    add_call(to, running->number, running->call);
    if (running->stream == (uintptr_t)gpu->stream) {
      flight_text_add(to, " on the communicator's own stream");
    } else {
      flight_text_add(to, " on stream %#llx", (unsigned long long)running->stream);
    }
    return;
  }
  flight_call_describe(running->call, comm_forced_name(running->call), text, sizeof text);
  flight_text_add(to, "%s", text);
}

static void add_wait(flight_text_t *to, const flight_wait_t *from, const char *where, int ranks) {
  flight_standstill_t wait;
  uint64_t peers[SET_WORDS];
  for (size_t word = 0; word < base_ranks_words(ranks); word++) {
    peers[word] = atomic_load_explicit(&from->peers[word], memory_order_acquire);
  }
  if (!flight_standstill_read(from, &wait)) return;
  flight_text_add(to, "%s waits in call ", where);
  add_call(to, wait.number, wait.call);
  flight_text_add(to, ", for ");
  flight_text_add_ranks(to, peers, ranks);
}

static void add_latest(flight_text_t *to, const flight_recorder_t *recorder,
                       const running_t *running) {
  flight_past_t latest;
  if (!flight_latest(recorder, &latest)) {
    flight_text_add(to, "it has made no call");
  } else if (running->is_launched && flight_collectives_begun(recorder) > running->number) {
    flight_text_add(to, "it has made the call, but its kernel has not begun, or does not wait");
  } else {
    flight_text_add(to, "its last call was ");
    add_call(to, latest.number, latest.call);
  }
}

static void add_process(flight_text_t *to, const flight_recorder_t *recorder) {
  flight_process_t process =
      flight_process_of(atomic_load_explicit(&recorder->pid, memory_order_acquire),
                        atomic_load_explicit(&recorder->pid_space, memory_order_relaxed));
  if (process == FLIGHT_PROCESS_RUNNING || process == FLIGHT_PROCESS_SLEEPING) return;
  flight_text_add(to, "; its process is %s", flight_process_word(process));
}

static void add_peer(flight_text_t *to, const struct coll_comm *comm, int peer,
                     const running_t *running) {
  const flight_recorder_t *recorder = comm->local->ops->recorder(comm->local, peer);
  flight_standstill_t wait;
  flight_text_add(to, "; rank %d (pid %d): ", peer, (int)comm->peers[peer].pid);
  if (recorder == NULL) {
    flight_text_add(to, "nothing is known of it");
    return;
  }
  if (flight_wait_read(recorder, &wait)) {
    add_wait(to, &recorder->wait, "it", comm->size);
  } else if (flight_standstill_read(&recorder->gpu_wait, &wait)) {
    add_wait(to, &recorder->gpu_wait, "its GPU", comm->size);
  } else {
    add_latest(to, recorder, running);
  }
  add_process(to, recorder);
}

/* Where a stream's launch may be held up by one of another rank that waits for it. */
static void add_queues(flight_text_t *to, const offload_t *gpu) {
  const char *queues = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  if (cuda_end_sharing(gpu->end) == 1 || queues != NULL) return;
  flight_text_add(to,
                  "; %d ranks of this process share the GPU, whose driver puts all streams into 8 "
                  "queues: start it with CUDA_DEVICE_MAX_CONNECTIONS=32",
                  cuda_end_sharing(gpu->end));
}

void offload_describe_wait(const offload_t *gpu, uint64_t waited_ns, char *text, size_t bytes) {
  const struct coll_comm *comm = gpu->comm;
  uint64_t words[SET_WORDS];
  base_ranks_t peers = {comm->size, words};
  cuda_progress_t progress;
  flight_text_t to = flight_text_in(text, bytes);
  base_ranks_clear(&peers);
  cuda_end_progress(gpu->end, &progress);
  cuda_end_waits(gpu->end, &peers);
  const running_t running = running_call(gpu, &progress);
  bool copies = is_of_copies(gpu);
  flight_text_add(&to, "rank %d: its %s GPU %d %s been in ", comm->rank,
                  copies ? "copy engines on" : "kernel on", gpu->device, copies ? "have" : "has");
  add_running(&to, gpu, &running);
  flight_text_add(&to, ", for at least %.1f s; %s wait for ", (double)waited_ns / NS_PER_S,
                  copies ? "they" : "its blocks");
  flight_text_add_ranks(&to, words, comm->size);
  int detailed = 0;
  for (int peer = 0; peer < comm->size && detailed < DETAILED_MAX; peer++) {
    if (!base_ranks_has(&peers, peer)) continue;
    add_peer(&to, comm, peer, &running);
    detailed++;
  }
  add_queues(&to, gpu);
}

/* ---- reports --------------------------------------------------------------------------------*/

/* Whether a lower rank of the host waits in the same collective, or another one has reported it. */
static bool is_reported(const offload_t *gpu, const running_t *running) {
  struct coll_comm *comm = gpu->comm;
  if (!flight_is_collective(running->call)) return false;
  for (int rank = 0; rank < comm->size; rank++) {
    const flight_recorder_t *recorder = comm->local->ops->recorder(comm->local, rank);
    flight_standstill_t wait;
    if (recorder == NULL || rank == comm->rank) continue;
    /* acquire: with the call */
    if (atomic_load_explicit(&recorder->reports, memory_order_acquire) > 0 &&
        atomic_load_explicit(&recorder->reported_number, memory_order_acquire) == running->number &&
        atomic_load_explicit(&recorder->reported_what, memory_order_acquire) ==
            running->call.what) {
      return true;
    }
    if (rank < comm->rank && gpu->waited_ns / 2 < gpu->hang_ns &&
        flight_standstill_read(&recorder->gpu_wait, &wait) && wait.number == running->number &&
        flight_call_is(wait.call, running->call)) {
      return true;
    }
  }
  return false;
}

/* In one write, as other ranks may write to standard error at the same time. */
static void report(offload_t *gpu, const running_t *running) {
  flight_recorder_t *own = gpu->comm->local->flight;
  char line[REPORT_BYTES + 16], sentence[REPORT_BYTES];
  if (is_reported(gpu, running)) return;
  gpu->reported = gpu->seen_begun;
  atomic_store_explicit(&own->reported_number, running->number, memory_order_release);
  atomic_store_explicit(&own->reported_what, running->call.what, memory_order_release);
  /* release: a reader that sees the count sees the call */
  atomic_fetch_add_explicit(&own->reports, 1, memory_order_release);
  offload_describe_wait(gpu, gpu->waited_ns, sentence, sizeof sentence);
  int length = snprintf(line, sizeof line, "libcoll: %s\n", sentence);
  for (const char *from = line; length > 0;) {
    ssize_t written = write(STDERR_FILENO, from, (size_t)length);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    from += written;
    length -= (int)written;
  }
}

/* Since when this kernel has been seen running. */
static void measure(offload_t *gpu, uint64_t begun) {
  uint64_t now_ns = base_clock_now_ns(), slice_ns = now_ns - gpu->seen_ns;
  if (gpu->seen_begun != begun) {
    gpu->seen_begun = begun;
    gpu->begin_ns = now_ns;
    gpu->waited_ns = slice_ns = 0;
  }
  gpu->waited_ns += slice_ns < SLICE_NS_MAX ? slice_ns : SLICE_NS_MAX;
  gpu->seen_ns = now_ns;
}

void offload_show_wait(offload_t *gpu) {
  struct coll_comm *comm = gpu->comm;
  flight_recorder_t *own = comm->local->flight;
  uint64_t words[SET_WORDS];
  base_ranks_t peers = {comm->size, words};
  cuda_progress_t progress;
  bool waits = false;
  base_ranks_clear(&peers);
  cuda_end_progress(gpu->end, &progress);
  measure(gpu, progress.begun);
  bool is_long = gpu->waited_ns >= LOOK_NS;
  if (is_long && progress.begun != progress.ended) cuda_end_waits(gpu->end, &peers);
  for (size_t i = 0; i < base_ranks_words(comm->size); i++) waits = waits || words[i] != 0;
  if (!waits || !comm_is_usable(comm)) {
    flight_standstill_end(&own->gpu_wait);
    return;
  }
  const running_t running = running_call(gpu, &progress);
  const flight_standstill_t wait = {.begin_ns = gpu->begin_ns,
                                    .collectives = progress.begun,
                                    .number = running.number,
                                    .call = running.call,
                                    .peers = words,
                                    .words = base_ranks_words(comm->size)};
  flight_standstill_publish(&own->gpu_wait, &wait);
  if (gpu->hang_ns == 0 || gpu->waited_ns < gpu->hang_ns) return;
  if (gpu->reported != gpu->seen_begun) report(gpu, &running);
}
