/* The actions that carry a message. */
#ifndef ENGINE_MESSAGE_H
#define ENGINE_MESSAGE_H

#include "engine/run.h"

/* Tries to carry out the action, a post or on `channel`; *done tells. COLL_ERROR_MISMATCH where
 * what came is not of this call. */
coll_status_t engine_message_send(const engine_run_t *run, const engine_action_t *action,
                                  int channel, bool *done);
coll_status_t engine_message_recv(const engine_run_t *run, const engine_action_t *action,
                                  int channel, bool *done);
coll_status_t engine_message_recv_reduce(engine_run_t *run, const engine_action_t *action,
                                         int channel, bool *done);

/* Whether the peer's next message is here, where that can be told without taking it. */
bool engine_message_is_here(const engine_action_t *action, int32_t peer, int channel);

#endif
