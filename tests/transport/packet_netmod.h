/*
 * A netmod (transport/tcp/netmod.h) for tests of the TCP transport's routes, over UNIX sockets of
 * whole packets. Every frame and every step of connecting takes a random time, so that frames
 * overtake those of the socket of the pair, and fall behind them.
 */
#ifndef TESTS_TRANSPORT_PACKET_NETMOD_H
#define TESTS_TRANSPORT_PACKET_NETMOD_H

#include <stdint.h>

#include "transport/tcp/netmod.h"

/* In place of a delay: the netmod gives up a peer from which it hears something. */
#define PACKET_NETMOD_FAILS UINT32_MAX

/* delay_us: the longest time that something takes. The caller's until it is attached. */
coll_status_t packet_netmod_open(unsigned delay_us, tcp_netmod_t **netmod);

/* The number of frames that all netmods of this process have passed on. */
uint64_t packet_netmod_frames(void);

#endif
