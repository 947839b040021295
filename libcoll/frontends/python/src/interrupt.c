/*
 * Waiting without the GIL, and signals meanwhile. Python's handlers run in the main thread only,
 * between its instructions: not while it waits in the library. So a thread looks every 20 ms
 * whether the main thread is still in the same call. If so, it sets a progress callback on the
 * call's communicators (coll_comm_set_progress), which runs in the waiting thread and lets Python
 * handle its signals. Calls that end before pay for two atomic operations.
 */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "module.h"

enum { LOOK_NS = 20 * 1000 * 1000, LOOK_IDLE_NS = 200 * 1000 * 1000, CHECK_NS = 5 * 1000 * 1000 };
enum { LOCKED = 1, WATCHED = 2, SERIAL_STEP = 4 };

static pthread_t main_thread;
static atomic_int generation;
static bool is_looking; /* the thread has been started in this process */

/* The call that the main thread is in: 0 for none, else its number times SERIAL_STEP, plus
 * LOCKED while the callback is being set, or WATCHED when it is. */
static _Atomic uint64_t current;
static wait_t *current_wait;
static uint64_t serial;
static int depth; /* calls of the main thread: a signal handler may make another one */

int fork_generation(void) {
  return atomic_load_explicit(&generation, memory_order_relaxed);
}

static void after_fork(void) {
  atomic_fetch_add(&generation, 1);
  is_looking = false;
  depth = 0;
  atomic_store(&current, 0);
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void sleep_ns(int64_t ns) {
  struct timespec time = {ns / 1000000000, ns % 1000000000};
  nanosleep(&time, NULL);
}

/* The callback. Threads of streams call it, too; those cannot handle signals. */
static void handle_signals(void *context) {
  wait_t *wait = context;
  if (!pthread_equal(pthread_self(), main_thread) || wait->raised) return;
  int64_t now = now_ns();
  if (now < wait->next_check_ns) return;
  wait->next_check_ns = now + CHECK_NS;
  PyEval_RestoreThread(wait->state);
  wait->raised = PyErr_CheckSignals() != 0;
  wait->state = PyEval_SaveThread();
  for (int i = 0; wait->raised && i < wait->comm_count; i++) coll_comm_abort(wait->comms[i]);
}

static void set_callbacks(wait_t *wait, void (*callback)(void *)) {
  for (int i = 0; i < wait->comm_count; i++) {
    coll_comm_set_progress(wait->comms[i], callback, callback != NULL ? wait : NULL);
  }
}

static void *look(void *unused) {
  (void)unused;
  uint64_t seen = 0;
  int64_t period = LOOK_NS;
  for (;;) {
    sleep_ns(period);
    uint64_t value = atomic_load_explicit(&current, memory_order_acquire);
    bool is_same = value == seen;
    if (value != 0 && is_same && (value & (LOCKED | WATCHED)) == 0) {
      uint64_t expected = value;
      if (atomic_compare_exchange_strong(&current, &expected, value | LOCKED)) {
        current_wait->watched = true;
        set_callbacks(current_wait, handle_signals);
        atomic_store_explicit(&current, value | WATCHED, memory_order_release);
      }
    }
    period = is_same && value == 0 ? LOOK_IDLE_NS : LOOK_NS;
    seen = value;
  }
  return NULL;
}

/* Starts the thread, with all signals blocked. Without it calls work, but cannot be interrupted. */
static void start_looking(void) {
  sigset_t all, before;
  pthread_t thread;
  is_looking = true;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  if (pthread_create(&thread, NULL, look, NULL) == 0) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* threading.main_thread().ident is the pthread_t of the thread that runs signal handlers. */
bool interrupt_init(void) {
  PyObject *threading = PyImport_ImportModule("threading");
  PyObject *thread = threading != NULL ? PyObject_CallMethod(threading, "main_thread", NULL) : NULL;
  PyObject *ident = thread != NULL ? PyObject_GetAttrString(thread, "ident") : NULL;
  if (ident != NULL) main_thread = (pthread_t)PyLong_AsUnsignedLong(ident);
  Py_XDECREF(ident);
  Py_XDECREF(thread);
  Py_XDECREF(threading);
  return !PyErr_Occurred() && pthread_atfork(NULL, NULL, after_fork) == 0;
}

void wait_begin(wait_t *wait, const coll_comm_t comms[], int count) {
  wait->watched = wait->raised = false;
  wait->next_check_ns = 0;
  wait->comm_count = count <= WAIT_COMMS_MAX ? count : WAIT_COMMS_MAX;
  for (int i = 0; i < wait->comm_count; i++) wait->comms[i] = comms[i];
  if (pthread_equal(pthread_self(), main_thread) && depth++ == 0) {
    if (!is_looking) start_looking();
    current_wait = wait;
    serial += SERIAL_STEP;
    atomic_store_explicit(&current, serial, memory_order_release);
  }
  wait->state = PyEval_SaveThread();
}

/* Takes the call from the other thread, and its callback off. */
static void stop_watching(wait_t *wait) {
  uint64_t expected = serial;
  if (atomic_compare_exchange_strong(&current, &expected, 0)) return;
  while (atomic_load_explicit(&current, memory_order_acquire) & LOCKED) sched_yield();
  set_callbacks(wait, NULL);
  atomic_store_explicit(&current, 0, memory_order_release);
}

bool wait_end(wait_t *wait) {
  if (pthread_equal(pthread_self(), main_thread) && --depth == 0) stop_watching(wait);
  PyEval_RestoreThread(wait->state);
  return !wait->raised;
}

bool wait_poll(coll_status_t (*poll)(void *context), void *context, coll_status_t *status) {
  enum { SPINS = 2000, NS_MIN = 20 * 1000, NS_MAX = 500 * 1000 };
  int64_t pause = NS_MIN, next_check = now_ns() + CHECK_NS;
  bool good = true;
  PyThreadState *state = PyEval_SaveThread();
  for (int i = 0; (*status = poll(context)) == COLL_IN_PROGRESS && good; i++) {
    if (i < SPINS) {
      sched_yield();
      continue;
    }
    sleep_ns(pause);
    if (pause < NS_MAX) pause += pause / 4;
    if (now_ns() < next_check) continue;
    next_check = now_ns() + CHECK_NS;
    PyEval_RestoreThread(state);
    good = PyErr_CheckSignals() == 0;
    state = PyEval_SaveThread();
  }
  PyEval_RestoreThread(state);
  return good;
}
