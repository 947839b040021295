/*
 * One poll loop that waits for no single caller: some are still saying hello, others (guests) wait
 * for who is missing, or take in the answer. The first rank says how many there are and how long to
 * wait. When all are here the listening socket is closed before anyone is answered, so that whoever
 * opens the next meeting on the same port cannot meet callers of this one.
 */
#include "comm/meeting.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/descriptors.h"
#include "base/memory.h"
#include "comm/rendezvous.h"
#include "comm/wire.h"
#include "plan/plan.h"

#define CALLERS_MOST 64              /* of more, the first makes room: ranks call again */
#define NO_ROOM_NS 10000000u         /* pause when the process has no descriptor left */
#define UNATTENDED_NS 3600000000000u /* a meeting point that nobody ever came to */
#define ANSWER_NS 5000000000u        /* in which no guest takes in anything */

/* Has not yet said all of its hello. */
typedef struct caller {
  int fd;
  size_t heard;
  struct {
    wire_hello_t hello;
    char record[RENDEZVOUS_RECORD_MOST];
  } words;
} caller_t;

typedef struct guest {
  int fd; /* -1: not here yet, or not any more */
  int32_t pid;
  size_t told;
  int32_t knows; /* the process of this rank that knows how the meeting has ended; 0: none */
} guest_t;

struct meeting {
  int listener; /* -1 when closed */
  uint64_t key;
  caller_t callers[CALLERS_MOST]; /* in the order in which they came */
  int caller_count;
  bool starved;    /* the last caller could not be taken for want of descriptors */
  guest_t *guests; /* [size] */
  int size;        /* 0 until the first rank is here */
  int here;
  wire_answer_t answer;
  char *speech; /* what guests are told: the answer, then the records by rank */
  size_t record_bytes;
  size_t speech_bytes;  /* to be told, once the meeting is over; 0 before */
  uint64_t deadline_ns; /* the earliest of the guests' */
  struct pollfd *polls; /* of open descriptors alone: there may be no more than may be open */
  int *polled;          /* the ranks of the guests among them */
  size_t poll_capacity, polled_capacity;
};

static void decide(meeting_t *meeting, coll_status_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The meeting fails; the first reason stands. */
static void decide(meeting_t *meeting, coll_status_t status, const char *format, ...) {
  if (meeting->answer.status != COLL_OK) return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(meeting->answer.text, sizeof meeting->answer.text, format, arguments);
  va_end(arguments);
  meeting->answer.status = (int32_t)status;
}

/* ---- callers */

static bool makes_sense(const meeting_t *meeting, const wire_hello_t *hello) {
  return hello->magic == WIRE_MAGIC && hello->key == meeting->key && hello->size >= 1 &&
         hello->size <= PLAN_RANKS_MAX && hello->rank >= 0 && hello->rank < hello->size &&
         hello->timeout_ms > 0 && hello->record_bytes <= RENDEZVOUS_RECORD_MOST;
}

static bool first_rank_came(meeting_t *meeting, const wire_hello_t *hello) {
  size_t size = (size_t)hello->size;
  size_t bytes = sizeof meeting->answer + size * hello->record_bytes;
  if (base_alloc(size, sizeof *meeting->guests, "guests", (void **)&meeting->guests) != COLL_OK ||
      base_alloc(bytes, 1, "records", (void **)&meeting->speech) != COLL_OK) {
    decide(meeting, COLL_ERROR_MEMORY, "the meeting point ran out of memory");
    return false;
  }
  for (size_t rank = 0; rank < size; rank++) meeting->guests[rank].fd = -1;
  meeting->size = hello->size;
  meeting->record_bytes = hello->record_bytes;
  meeting->deadline_ns = UINT64_MAX;
  base_descriptors_make_room(size + CALLERS_MOST);
  return true;
}

/* One who has said its hello gets a seat, or is the reason why the meeting fails. */
static bool seat(meeting_t *meeting, const caller_t *caller) {
  const wire_hello_t *hello = &caller->words.hello;
  if (meeting->size == 0 && !first_rank_came(meeting, hello)) return false;
  if (hello->record_bytes != meeting->record_bytes) {
    decide(meeting, COLL_ERROR_INVALID,
           "process %d and others were built with different versions of the library",
           (int)hello->pid);
    return false;
  }
  if (hello->size != meeting->size) {
    decide(meeting, COLL_ERROR_INVALID,
           "the ranks disagree: process %d says there are %d, others say %d", (int)hello->pid,
           (int)hello->size, meeting->size);
    return false;
  }
  guest_t *guest = &meeting->guests[hello->rank];
  if (guest->fd >= 0) {
    decide(meeting, COLL_ERROR_INVALID,
           "two processes, %d and %d, both call themselves rank %d: give each its own",
           (int)guest->pid, (int)hello->pid, (int)hello->rank);
    return false;
  }
  uint64_t deadline_ns = base_clock_now_ns() + (uint64_t)hello->timeout_ms * 1000000u;
  if (deadline_ns < meeting->deadline_ns) meeting->deadline_ns = deadline_ns;
  *guest = (guest_t){.fd = caller->fd, .pid = hello->pid};
  memcpy(meeting->speech + sizeof meeting->answer + (size_t)hello->rank * meeting->record_bytes,
         caller->words.record, meeting->record_bytes);
  meeting->here++;
  return true;
}

/* What a new connection's buffer has room for at once. */
static bool say(int fd, const void *data, size_t bytes) {
  size_t said = 0;
  return wire_send_some(fd, data, bytes, &said) && said == bytes;
}

static void turn_away(meeting_t *meeting, const caller_t *caller) {
  const wire_hello_t *hello = &caller->words.hello;
  bool told = say(caller->fd, &meeting->answer, sizeof meeting->answer);
  close(caller->fd);
  if (told && hello->rank < meeting->size) meeting->guests[hello->rank].knows = hello->pid;
}

static void receive(meeting_t *meeting, const caller_t *caller) {
  static const uint64_t greeting = WIRE_MAGIC;
  const wire_hello_t *hello = &caller->words.hello;
  /* Who knows that the meeting has failed calls for the next one on this port. */
  bool knows = hello->rank < meeting->size && meeting->guests[hello->rank].knows == hello->pid;
  if (knows || !say(caller->fd, &greeting, sizeof greeting)) {
    close(caller->fd);
  } else if (meeting->answer.status != COLL_OK || !seat(meeting, caller)) {
    turn_away(meeting, caller);
  }
}

/* Whether there is more to come before the hello is whole. */
static bool listen_to(meeting_t *meeting, caller_t *caller) {
  const wire_hello_t *hello = &caller->words.hello;
  for (;;) {
    size_t wanted = sizeof *hello;
    if (caller->heard >= wanted) wanted += hello->record_bytes;
    if (!wire_recv_some(caller->fd, &caller->words, wanted, &caller->heard)) break;
    if (caller->heard < wanted) return true;
    if (!makes_sense(meeting, hello)) break;
    if (caller->heard < sizeof *hello + hello->record_bytes) continue;
    receive(meeting, caller);
    return false;
  }
  close(caller->fd); /* a stranger, or gone */
  return false;
}

/* polls: one for each. */
static void listen_to_callers(meeting_t *meeting, const struct pollfd polls[]) {
  int count = meeting->caller_count;
  meeting->caller_count = 0;
  for (int i = 0; i < count; i++) {
    caller_t *caller = &meeting->callers[i];
    if (polls[i].revents != 0 && !listen_to(meeting, caller)) continue;
    int place = meeting->caller_count++;
    if (place != i) meeting->callers[place] = *caller;
  }
}

static void drop_callers(meeting_t *meeting, int count) {
  for (int i = 0; i < count; i++) close(meeting->callers[i].fd);
  meeting->caller_count -= count;
  memmove(meeting->callers, meeting->callers + count,
          (size_t)meeting->caller_count * sizeof *meeting->callers);
}

static void answer_call(meeting_t *meeting) {
  int on = 1;
  if (meeting->caller_count == CALLERS_MOST) drop_callers(meeting, 1);
  int fd = accept4(meeting->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  meeting->starved = fd < 0 && (errno == EMFILE || errno == ENFILE);
  if (fd >= 0) {
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    meeting->callers[meeting->caller_count++] = (caller_t){.fd = fd};
  } else if (meeting->starved && meeting->caller_count > 0) {
    drop_callers(meeting, 1);
  } else if (errno != EAGAIN) {
    base_clock_sleep_ns(NO_ROOM_NS);
  }
}

/* ---- guests */

static void see_out(meeting_t *meeting, guest_t *guest) {
  close(guest->fd);
  guest->fd = -1;
  meeting->here--;
}

static void tell(meeting_t *meeting, guest_t *guest) {
  bool listens = wire_send_some(guest->fd, meeting->speech, meeting->speech_bytes, &guest->told);
  if (listens && guest->told < meeting->speech_bytes) return;
  guest->knows = guest->pid;
  see_out(meeting, guest);
}

/* A guest has nothing to say, so anything readable is its hanging up: it gives up by itself. */
static void lose(meeting_t *meeting, int rank) {
  guest_t *guest = &meeting->guests[rank];
  decide(meeting, COLL_ERROR_RANK_LOST,
         "rank %d (process %d) went away while the ranks were meeting", rank, (int)guest->pid);
  guest->knows = guest->pid;
  see_out(meeting, guest);
}

/* The server lives in rank 0's process, which may leave when it knows: it is the last to. */
static short awaited_of(const meeting_t *meeting, int rank) {
  if (meeting->speech_bytes == 0) return POLLIN;
  return rank > 0 || meeting->here == 1 ? POLLOUT : 0;
}

static void mind_guests(meeting_t *meeting, int count, const struct pollfd polls[]) {
  for (int i = 0; i < count; i++) {
    int rank = meeting->polled[i];
    if (polls[i].revents == 0) continue;
    if (meeting->speech_bytes > 0) {
      tell(meeting, &meeting->guests[rank]);
    } else {
      lose(meeting, rank);
    }
  }
}

static void name_missing(meeting_t *meeting) {
  char list[200] = "";
  size_t used = 0;
  for (int rank = 0; rank < meeting->size && used < sizeof list - 16; rank++) {
    if (meeting->guests[rank].fd >= 0) continue;
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%d", used > 0 ? ", " : "", rank);
  }
  decide(meeting, COLL_ERROR_TIMEOUT, "%d of %d ranks did not come in time (missing: %s): %s",
         meeting->size - meeting->here, meeting->size, list,
         meeting->starved ? "may rank 0's process open more files (ulimit -n)?"
                          : "were they all started?");
}

/* ---- the meeting */

typedef struct looks {
  int guests, callers, all;
} looks_t;

/* Guests, then callers, then the listener. */
static coll_status_t look_at_all(meeting_t *meeting, looks_t *looks) {
  size_t most = (size_t)(meeting->here + meeting->caller_count + 1);
  COLL_TRY(base_grow((void **)&meeting->polls, &meeting->poll_capacity, most,
                     sizeof *meeting->polls, "polls"));
  COLL_TRY(base_grow((void **)&meeting->polled, &meeting->polled_capacity, most,
                     sizeof *meeting->polled, "ranks that are polled"));
  *looks = (looks_t){.callers = meeting->caller_count};
  struct pollfd *next = meeting->polls;
  for (int rank = 0; rank < meeting->size; rank++) {
    int fd = meeting->guests[rank].fd;
    if (fd < 0) continue;
    meeting->polled[looks->guests++] = rank;
    *next++ = (struct pollfd){.fd = fd, .events = awaited_of(meeting, rank)};
  }
  for (int i = 0; i < looks->callers; i++) {
    *next++ = (struct pollfd){.fd = meeting->callers[i].fd, .events = POLLIN};
  }
  if (meeting->listener >= 0) {
    *next++ = (struct pollfd){.fd = meeting->listener, .events = POLLIN};
  }
  looks->all = (int)(next - meeting->polls);
  return COLL_OK;
}

/* Waits for anyone, and attends to all who stir. False when nobody does before the deadline, or
 * when it cannot be told. */
static bool attend(meeting_t *meeting, uint64_t deadline_ns) {
  looks_t looks;
  if (look_at_all(meeting, &looks) != COLL_OK) {
    decide(meeting, COLL_ERROR_MEMORY, "the meeting point ran out of memory");
    return false;
  }
  const struct pollfd *polls = meeting->polls;
  int found = poll(meeting->polls, (nfds_t)looks.all, base_deadline_left_ms(deadline_ns));
  if (found < 0 && errno == EINTR) return true;
  if (found < 0) {
    decide(meeting, COLL_ERROR_SYSTEM, "the meeting point cannot poll: %s", strerror(errno));
  }
  if (found <= 0) return false;
  mind_guests(meeting, looks.guests, polls);
  listen_to_callers(meeting, polls + looks.guests);
  bool called = looks.all > looks.guests + looks.callers && polls[looks.all - 1].revents != 0;
  if (called) answer_call(meeting);
  return true;
}

static void gather(meeting_t *meeting) {
  while (meeting->answer.status == COLL_OK &&
         (meeting->size == 0 || meeting->here < meeting->size)) {
    bool stirred = attend(meeting, meeting->deadline_ns);
    if (!stirred && meeting->size == 0) return;
    bool late = !stirred || base_clock_now_ns() >= meeting->deadline_ns;
    if (late && meeting->here < meeting->size) name_missing(meeting);
  }
}

static void shut(meeting_t *meeting) {
  if (meeting->listener >= 0) close(meeting->listener);
  meeting->listener = -1;
  drop_callers(meeting, meeting->caller_count);
}

static void tell_of_success(meeting_t *meeting) {
  shut(meeting);
  meeting->speech_bytes += (size_t)meeting->size * meeting->record_bytes;
  while (meeting->here > 0 && attend(meeting, base_clock_now_ns() + ANSWER_NS)) continue;
}

static void tell_of_failure(meeting_t *meeting) {
  uint64_t deadline_ns = base_clock_now_ns() + MEETING_LATE_NS;
  while (base_clock_now_ns() < deadline_ns && attend(meeting, deadline_ns)) continue;
}

/* Where some take in nothing any more, or nobody could be waited for, all others have their turn:
 * rank 0 as well, and as the last. */
static void tell_the_rest(meeting_t *meeting) {
  for (int rank = meeting->size - 1; rank >= 0; rank--) {
    guest_t *guest = &meeting->guests[rank];
    uint64_t deadline_ns = base_clock_now_ns() + (rank == 0 ? ANSWER_NS : 0);
    while (guest->fd >= 0 && base_deadline_poll(guest->fd, POLLOUT, deadline_ns)) {
      tell(meeting, guest);
    }
    if (guest->fd >= 0) see_out(meeting, guest);
  }
}

void meeting_hold(meeting_t *meeting) {
  gather(meeting);
  if (meeting->size == 0) return;
  memcpy(meeting->speech, &meeting->answer, sizeof meeting->answer);
  meeting->speech_bytes = sizeof meeting->answer;
  if (meeting->answer.status == COLL_OK) {
    tell_of_success(meeting);
  } else {
    tell_of_failure(meeting);
  }
  tell_the_rest(meeting);
}

coll_status_t meeting_create(int listener, uint64_t key, meeting_t **meeting) {
  meeting_t *made = NULL;
  COLL_TRY(base_alloc(1, sizeof *made, "a meeting", (void **)&made));
  made->listener = listener;
  (void)fcntl(listener, F_SETFL, O_NONBLOCK); /* who has called may be gone when it is answered */
  made->key = key;
  made->deadline_ns = base_clock_now_ns() + UNATTENDED_NS;
  if (getrandom(&made->answer.session, sizeof(uint64_t), 0) != (ssize_t)sizeof(uint64_t)) {
    coll_status_t status = base_fail_errno(COLL_ERROR_SYSTEM, "no random number for a meeting");
    free(made);
    return status;
  }
  *meeting = made;
  return COLL_OK;
}

void meeting_destroy(meeting_t *meeting) {
  shut(meeting);
  for (int rank = 0; rank < meeting->size; rank++) {
    if (meeting->guests[rank].fd >= 0) close(meeting->guests[rank].fd);
  }
  free(meeting->guests);
  free(meeting->speech);
  free(meeting->polls);
  free(meeting->polled);
  free(meeting);
}
