/*
 * A wire (transport/net/wire/ops.h) for tests of the TCP transport's routes, over UNIX sockets of
 * whole packets. Every frame and every step of connecting takes a random time, so that frames
 * overtake those of the socket of the pair, and fall behind them.
 */
#ifndef TESTS_TRANSPORT_NET_WIRE_PACKET_WIRE_H
#define TESTS_TRANSPORT_NET_WIRE_PACKET_WIRE_H

#include <stdint.h>

#include "transport/net/wire/ops.h"

/* In place of a delay: the wire gives up a peer from which it hears something. */
#define PACKET_WIRE_FAILS UINT32_MAX

/* Likewise: nothing takes time, and a socket accepts little. */
#define PACKET_WIRE_NARROW (UINT32_MAX - 1)

/* delay_us: the longest time that something takes. The caller's until it is attached. */
coll_status_t packet_wire_open(unsigned delay_us, wire_t **wire);

/* The number of frames that all wires of this process have passed on. */
uint64_t packet_wire_frames(void);

#endif
