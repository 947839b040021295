/*
 * Binding of sends and receives.
 */
#ifndef ENGINE_BIND_MESSAGE_H
#define ENGINE_BIND_MESSAGE_H

#include "engine/binder.h"

/* Placeholder for the base of an action's first message until the number of bases is known. */
#define ENGINE_BASE_MESSAGES UINT32_C(0x80000000)

/* The action of the first send of a multicast row stands for the whole row. */
coll_status_t engine_bind_send(engine_binder_t *b);

/* The current RECV, or those whose messages the reduction of the current action reads. */
coll_status_t engine_bind_recv(engine_binder_t *b);

/* Begins the lane with the offers to those who may store their messages (put.h). */
coll_status_t engine_bind_offers(engine_binder_t *b);

/* Ends the lane with a wait for the readers of its large messages. first: the lane's first
 * action. */
coll_status_t engine_bind_awaits(engine_binder_t *b, size_t first);

#endif
