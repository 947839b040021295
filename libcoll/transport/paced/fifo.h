/*
 * The times of what is in flight between two ranks: a queue of times of arrival for each direction
 * and channel, in shared memory of the sender. Beside each message or signal that the inner
 * transport carries, the sender puts its time of arrival.
 */
#ifndef TRANSPORT_PACED_FIFO_H
#define TRANSPORT_PACED_FIFO_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Channels of a pair of ranks: for plans of 16 lanes, and the p2p channel. */
#define PACED_CHANNELS 17

/* The sender writes `sent` and the times, the receiver `taken`. */
typedef struct paced_fifo {
  _Atomic uint32_t sent, taken;
  uint64_t arrival_ns[]; /* [capacity]: of number n: [n % capacity] */
} paced_fifo_t;

/* One end of it. */
typedef struct paced_end {
  paced_fifo_t *fifo;
  uint32_t capacity;
} paced_end_t;

/* The bytes of the FIFOs of one sender to `size` ranks. */
size_t paced_fifos_bytes(int size);

/* fifos: of the sender, in its memory or as mapped by the receiver. is_signal: of signals, not of
 * messages. */
paced_end_t paced_end_of(unsigned char *fifos, int to, int channel, bool is_signal);

/* For the sender. Without room, *oldest_ns is when the oldest entry arrives, before which the
 * receiver gives no room. */
bool paced_end_has_room(const paced_end_t *end, uint64_t *oldest_ns);
void paced_end_send(const paced_end_t *end, uint64_t arrival_ns);

/* For the receiver. False: there is none. */
bool paced_end_first(const paced_end_t *end, uint64_t *arrival_ns);
void paced_end_take(const paced_end_t *end);

/* Whether something has been sent that has not arrived. For the receiver. */
bool paced_end_is_under_way(const paced_end_t *end, uint64_t now_ns);

#endif
