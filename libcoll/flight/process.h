/*
 * The state of a process according to the kernel: running, sleeping, stopped or exited. It is read
 * from /proc, so the process need not cooperate, but must be in this process's pid namespace.
 */
#ifndef FLIGHT_PROCESS_H
#define FLIGHT_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum flight_process {
  FLIGHT_PROCESS_UNKNOWN, /* in another pid namespace, or /proc cannot be read */
  FLIGHT_PROCESS_RUNNING, /* at least one of its threads runs */
  FLIGHT_PROCESS_SLEEPING,
  FLIGHT_PROCESS_STOPPED, /* stopped by a signal or a debugger */
  FLIGHT_PROCESS_EXITED   /* it exited, or is a zombie that its parent has not waited for yet */
} flight_process_t;

/* The identity of this process's pid namespace; 0: unknown. */
uint64_t flight_pid_space(void);

/* The state of process `pid` of the namespace. If the process exited and another one has its pid,
 * returns the state of the latter. */
flight_process_t flight_process_of(int32_t pid, uint64_t pid_space);

/* Whether all threads of the process exit or have exited; those that exit may still have to close
 * their descriptors. */
bool flight_process_ends(int32_t pid, uint64_t pid_space);

/* The name of the state, as in "running" or "unknown". */
const char *flight_process_word(flight_process_t process);

/* When the process started, in ticks since the system did; with the pid it identifies the process.
 * 0: there is no such process. */
uint64_t flight_process_start(int32_t pid);

/* The process group of the process; 0 if there is no such process. */
int32_t flight_process_group(int32_t pid);

#endif
