/* The actions that carry a message. */
#ifndef ENGINE_MESSAGE_H
#define ENGINE_MESSAGE_H

#include "engine/bind.h"

/* Tries to carry out the action on `channel`; *done tells. COLL_ERROR_MISMATCH where what came is
 * not of this call. */
coll_status_t engine_message_send(const engine_world_t *world, const engine_bound_t *bound,
                                  const engine_call_t *call, const engine_action_t *action,
                                  int channel, bool *done);
coll_status_t engine_message_post(const engine_world_t *world, const engine_bound_t *bound,
                                  const engine_call_t *call, const engine_action_t *action,
                                  bool *done);
coll_status_t engine_message_recv(const engine_world_t *world, const engine_bound_t *bound,
                                  const engine_call_t *call, const engine_action_t *action,
                                  int channel, bool *done);

/* *arrived: how many of the messages have come, from look to look; 0 before the first and when
 * done. */
coll_status_t engine_message_recv_reduce(const engine_world_t *world, const engine_bound_t *bound,
                                         const engine_call_t *call, const engine_action_t *action,
                                         int channel, uint32_t *arrived, bool *done);

/* Whether the peer's next message is here, where that can be told without taking it. */
bool engine_message_is_here(const engine_action_t *action, int32_t peer, int channel);

#endif
