/*
 * What the kernel says of a process: whether it runs, sleeps, is stopped or gone. Read from /proc,
 * so it needs no help from the process, and of the pid namespace that this process belongs to.
 */
#ifndef FLIGHT_PROCESS_H
#define FLIGHT_PROCESS_H

#include <stdint.h>

typedef enum flight_process {
  FLIGHT_PROCESS_UNKNOWN, /* of another pid namespace, or /proc cannot be read */
  FLIGHT_PROCESS_RUNNING, /* at least one of its threads */
  FLIGHT_PROCESS_SLEEPING,
  FLIGHT_PROCESS_STOPPED, /* by a signal or a debugger */
  FLIGHT_PROCESS_GONE     /* it ended; or it is a zombie, which nobody has waited for yet */
} flight_process_t;

/* A number that names this process's pid namespace; 0: not known. */
uint64_t flight_pid_space(void);

/* Of the process `pid` of the namespace. A process that has taken the pid of one that ended cannot
 * be told from it. */
flight_process_t flight_process_of(int32_t pid, uint64_t pid_space);

/* "running"; of an unknown one "unknown". */
const char *flight_process_word(flight_process_t process);

/* The process's group; 0 where there is no such process. */
int32_t flight_process_group(int32_t pid);

#endif
