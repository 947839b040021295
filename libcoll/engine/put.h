/*
 * Large messages of coll_gatherv that their senders store. One root receives from many, so that it
 * would copy alone what its peers can copy at the same time. Where the sender's and the receiver's
 * memory are of one host, the receiver offers the address of its buffer as soon as it enters the
 * call. The sender asks for it by an empty message, by which the receiver compares the calls,
 * stores its data there if it can map the buffer, and says so in the message. (In MPI and UCX:
 * rendezvous protocol with a write by the sender.) Else the message is as any large one (large.h),
 * and in some of the next calls there is no offer.
 */
#ifndef ENGINE_PUT_H
#define ENGINE_PUT_H

#include "engine/large.h"

/* Whether the message of a call, which may be large (large.h), is of this kind: at its sender and
 * its receiver alike. */
bool engine_put_applies(const engine_world_t *world, const plan_t *plan,
                        const engine_action_t *action);

/* Each of these tries to complete the action of its name. */
coll_status_t engine_put_offer(engine_run_t *run, const engine_action_t *action, bool *done);
coll_status_t engine_put_store(engine_run_t *run, const engine_action_t *action, bool *done);

/* At the receiver: whether the sender stores the message, or has stored it. */
bool engine_put_is_expected(const engine_run_t *run, const engine_action_t *action);

/* At the receiver: takes the question of the sender, if one is due. *done: none is due any more. */
coll_status_t engine_put_asked(engine_run_t *run, const engine_action_t *action, bool *done);

#endif
