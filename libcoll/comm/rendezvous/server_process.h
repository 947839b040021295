/*
 * Which process runs a rendezvous server, so that a rank that the server does not answer can tell
 * whether that process has ended or is done with the rendezvous. Only processes of the same system
 * and pid namespace can.
 */
#ifndef COMM_RENDEZVOUS_SERVER_PROCESS_H
#define COMM_RENDEZVOUS_SERVER_PROCESS_H

#include <stdint.h>

typedef struct rendezvous_process {
  uint32_t space; /* of the system and its pid namespace; 0: not known */
  uint32_t start; /* when it started */
} rendezvous_process_t;

typedef enum rendezvous_process_state {
  RENDEZVOUS_PROCESS_UNKNOWN, /* of another host or pid namespace */
  RENDEZVOUS_PROCESS_LIVES,
  RENDEZVOUS_PROCESS_ENDED
} rendezvous_process_state_t;

/* The calling process. */
rendezvous_process_t rendezvous_process_own(void);

/* The state of that process, whose id is pid. */
rendezvous_process_state_t rendezvous_process_look(const rendezvous_process_t *process, int pid);

/* The same once a connection to the process has ended: one that ends closes its connections a
 * moment before others see that it has. */
rendezvous_process_state_t rendezvous_process_settle(const rendezvous_process_t *process, int pid);

#endif
