/*
 * Which ranks of a communicator still have a process, by the kernel's word: each rank holds a
 * record lock (fcntl(2)) on the byte with its number of a file that they share. The file is not the
 * segment, which tools and reports of hangs (flight/find.h) open and close. The kernel releases it
 * when the process exits or executes another program, however it ends, and not when the process is
 * stopped; children do not inherit it. So a rank needs no descriptor per peer, and no process has
 * to watch for the others.
 */
#ifndef TRANSPORT_SHM_PRESENCE_H
#define TRANSPORT_SHM_PRESENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* Makes the file, which has no name. The caller owns *fd. COLL_ERROR_SYSTEM. */
coll_status_t shm_presence_create(int *fd);

/* Takes the lock of `rank` for this process. fd: of the file, the caller's. */
coll_status_t shm_presence_hold(int fd, int rank);

/* Gives up the lock, and takes over fd: it is closed when no rank of this process holds a lock of
 * that file, as any close would release them all. */
void shm_presence_drop(int fd, int rank);

/* Whether no other process holds the lock of `rank`. A lock of this process is not seen. */
bool shm_presence_has_ended(int fd, int rank);

/* The pid of the other process that holds the lock of `rank`, in this process's pid namespace; 0:
 * there is none, or it is not visible here. */
int shm_presence_pid(int fd, int rank);

/* A number of this process that no other process of the host has, with its pid in the upper 32
 * bits; never 0. */
uint64_t shm_presence_process(void);

#endif
