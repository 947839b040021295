/*
 * One poll loop that waits for no single caller: some are still saying hello, others (guests) wait
 * for who is missing, or take in the answer. The first rank says how many there are and how long to
 * wait. When all are here the listening socket is closed before anyone is answered, so that whoever
 * opens the next meeting on the same port cannot meet callers of this one.
 */
#include "comm/meeting.h"

#include <errno.h>
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
  bool knows; /* how the meeting has ended */
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
  bool over; /* guests are being told */
  uint64_t deadline_ns;
  struct pollfd *polls;
  size_t poll_capacity;
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
  meeting->deadline_ns = base_clock_now_ns() + (uint64_t)hello->timeout_ms * 1000000u;
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
  bool counts = caller->words.hello.rank < meeting->size;
  bool told = say(caller->fd, &meeting->answer, sizeof meeting->answer);
  close(caller->fd);
  if (counts) meeting->guests[caller->words.hello.rank].knows |= told;
}

static void receive(meeting_t *meeting, const caller_t *caller) {
  static const uint64_t greeting = WIRE_MAGIC;
  int rank = caller->words.hello.rank;
  /* Who knows that the meeting has failed calls for the next one on this port. */
  bool expected = rank >= meeting->size || !meeting->guests[rank].knows;
  if (!expected || !say(caller->fd, &greeting, sizeof greeting)) {
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
  } else if (meeting->caller_count > 0) {
    drop_callers(meeting, 1);
  } else {
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
  size_t bytes = sizeof meeting->answer;
  if (meeting->answer.status == COLL_OK) bytes += (size_t)meeting->size * meeting->record_bytes;
  bool listens = wire_send_some(guest->fd, meeting->speech, bytes, &guest->told);
  if (listens && guest->told < bytes) return;
  guest->knows = listens;
  see_out(meeting, guest);
}

/* A guest has nothing to say, so anything readable is its hanging up. */
static void lose(meeting_t *meeting, int rank) {
  guest_t *guest = &meeting->guests[rank];
  decide(meeting, COLL_ERROR_RANK_LOST,
         "rank %d (process %d) went away while the ranks were meeting", rank, (int)guest->pid);
  see_out(meeting, guest);
}

/* The server lives in rank 0's process, which may leave when it knows: it is the last to. */
static short awaited_of(const meeting_t *meeting, int rank) {
  if (!meeting->over) return POLLIN;
  return rank > 0 || meeting->here == 1 ? POLLOUT : 0;
}

static void mind_guests(meeting_t *meeting, int count, const struct pollfd polls[]) {
  for (int rank = 0; rank < count; rank++) {
    if (polls[rank].revents == 0) continue;
    if (meeting->over) {
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

/* Waits for anyone, and attends to all who stir. False when the deadline has passed. */
static bool attend(meeting_t *meeting, uint64_t deadline_ns) {
  int guests = meeting->size, callers = meeting->caller_count;
  if (base_grow((void **)&meeting->polls, &meeting->poll_capacity, (size_t)(guests + callers + 1),
                sizeof *meeting->polls, "polls") != COLL_OK) {
    decide(meeting, COLL_ERROR_MEMORY, "the meeting point ran out of memory");
    return false;
  }
  struct pollfd *of_guests = meeting->polls, *of_callers = of_guests + guests;
  struct pollfd *of_listener = of_callers + callers;
  for (int rank = 0; rank < guests; rank++) {
    of_guests[rank] =
        (struct pollfd){.fd = meeting->guests[rank].fd, .events = awaited_of(meeting, rank)};
  }
  for (int i = 0; i < callers; i++) {
    of_callers[i] = (struct pollfd){.fd = meeting->callers[i].fd, .events = POLLIN};
  }
  *of_listener = (struct pollfd){.fd = meeting->listener, .events = POLLIN};
  int found = poll(of_guests, (nfds_t)(guests + callers + 1), base_deadline_left_ms(deadline_ns));
  if (found < 0 && errno != EINTR) {
    decide(meeting, COLL_ERROR_SYSTEM, "the meeting point cannot poll: %s", strerror(errno));
    return false;
  }
  if (found > 0) {
    mind_guests(meeting, guests, of_guests);
    listen_to_callers(meeting, of_callers);
    if (of_listener->revents != 0) answer_call(meeting);
  }
  return base_clock_now_ns() < deadline_ns;
}

/* Where some take in nothing any more, rank 0 still has its turn. */
static void tell_guests(meeting_t *meeting) {
  while (meeting->here > 0) {
    if (attend(meeting, base_clock_now_ns() + ANSWER_NS)) continue;
    bool first_left = meeting->here > 1 && meeting->guests[0].fd >= 0;
    for (int rank = 1; rank < meeting->size; rank++) {
      if (meeting->guests[rank].fd >= 0) see_out(meeting, &meeting->guests[rank]);
    }
    if (!first_left) return;
  }
}

static void shut(meeting_t *meeting) {
  if (meeting->listener >= 0) close(meeting->listener);
  meeting->listener = -1;
  drop_callers(meeting, meeting->caller_count);
}

void meeting_hold(meeting_t *meeting) {
  while (meeting->answer.status == COLL_OK &&
         (meeting->size == 0 || meeting->here < meeting->size)) {
    if (attend(meeting, meeting->deadline_ns) || meeting->here == meeting->size) continue;
    if (meeting->size == 0) return;
    name_missing(meeting);
  }
  meeting->over = true;
  if (meeting->speech != NULL) memcpy(meeting->speech, &meeting->answer, sizeof meeting->answer);
  if (meeting->answer.status == COLL_OK) {
    shut(meeting);
    tell_guests(meeting);
  } else {
    uint64_t deadline_ns = base_clock_now_ns() + MEETING_LATE_NS;
    while (attend(meeting, deadline_ns)) continue;
  }
}

coll_status_t meeting_create(int listener, uint64_t key, meeting_t **meeting) {
  meeting_t *made = NULL;
  COLL_TRY(base_alloc(1, sizeof *made, "a meeting", (void **)&made));
  made->listener = listener;
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
  free(meeting);
}
