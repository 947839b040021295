/*
 * A meeting as its server sees it: who has called, who is here, and what they are told in the end.
 * For the server of rendezvous.h, which owns the thread and the address.
 */
#ifndef COMM_MEETING_H
#define COMM_MEETING_H

#include <stdint.h>

#include "base/status.h"

typedef struct meeting meeting_t;

/* Failed meetings keep their listening socket for so long, to tell late ranks why. */
#define MEETING_LATE_NS 300000000u

/* Takes the listening socket over when it succeeds. Freed with meeting_destroy. COLL_ERROR_MEMORY,
 * COLL_ERROR_SYSTEM. */
coll_status_t meeting_create(int listener, uint64_t key, meeting_t **meeting);

/* Returns when all ranks that still listen have been told that all are here, or why the meeting has
 * failed; or when nobody came within an hour. */
void meeting_hold(meeting_t *meeting);

void meeting_destroy(meeting_t *meeting);

#endif
