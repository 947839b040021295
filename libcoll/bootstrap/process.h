/*
 * This process, and which one is at the other end of a connection, so that a rank that finds the
 * connection ended can tell whether the process has ended, too: one that calls exec, or closes all
 * its descriptors, lives on, as does one that is done with a rendezvous. Only processes of the same
 * system and pid namespace can.
 */
#ifndef BOOTSTRAP_PROCESS_H
#define BOOTSTRAP_PROCESS_H

#include <stdint.h>

typedef struct bootstrap_process {
  uint32_t space; /* of the system and its pid namespace; 0: not known */
  uint32_t start; /* when it started */
} bootstrap_process_t;

typedef enum bootstrap_process_state {
  BOOTSTRAP_PROCESS_UNKNOWN, /* of another host or pid namespace */
  BOOTSTRAP_PROCESS_LIVES,
  BOOTSTRAP_PROCESS_ENDED
} bootstrap_process_state_t;

/* A number of this process that no other process has, on any host, as far as chance allows. */
uint64_t bootstrap_process_id(void);

/* The random part of it, which a process shares with those that fork from it. */
uint64_t bootstrap_process_number(void);

/* The calling process. */
bootstrap_process_t bootstrap_process_own(void);

/* The state of that process, whose id is pid. */
bootstrap_process_state_t bootstrap_process_look(const bootstrap_process_t *process, int pid);

/* The same once a connection to the process has ended: one that ends closes its connections a
 * moment before others see that it has. */
bootstrap_process_state_t bootstrap_process_settle(const bootstrap_process_t *process, int pid);

#endif
