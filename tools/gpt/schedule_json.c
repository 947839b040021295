/* A schedule as JSON: its shape, the checker's report, and every action with its messages. */
#include <jansson.h>

#include "tools/gpt/schedule_view.h"

#define DIGITS 15 /* digits of numbers */

static const char *const kind_names[TRAIN_ACTION_KIND_COUNT] = {
    "forward", "backward", "backward-input", "backward-weight", "update"};

/* Null where the action has no message, or its other end is on the same stage. */
static json_t *peer_object(bool has_message, const train_message_t *message, int peer) {
  if (!has_message || message->from == message->to) return json_null();
  return json_pack("{s:s, s:i}", "payload",
                   message->payload == TRAIN_ACTIVATIONS ? "activations" : "gradients", "stage",
                   peer);
}

static json_t *action_object(const gpt_schedule_view_t *view, int stage, size_t at) {
  const train_schedule_shape_t *shape = &view->schedule->shape;
  const train_action_t *action = &view->schedule->actions[at];
  const train_span_t *span = &view->timing.spans[at];
  train_message_t received = {0}, sent = {0};
  bool receives = train_action_receives(shape, stage, action, &received);
  bool sends = train_action_sends(shape, stage, action, &sent);
  return json_pack("{s:s, s:i, s:i, s:i, s:i, s:f, s:f, s:o, s:o}", "kind",
                   kind_names[action->kind], "micro_batch", (int)action->micro_batch, "chunk",
                   (int)action->chunk, "slice", (int)action->slice, "version", (int)action->version,
                   "start", span->start, "end", span->end, "receives",
                   peer_object(receives, &received, received.from), "sends",
                   peer_object(sends, &sent, sent.to));
}

static json_t *stage_object(const gpt_schedule_view_t *view, int stage) {
  const train_schedule_t *schedule = view->schedule;
  const train_stage_report_t *report = &view->report.stages[stage];
  json_t *actions = json_array();
  for (size_t at = schedule->first[stage]; at < schedule->first[stage + 1]; at++) {
    json_array_append_new(actions, action_object(view, stage, at));
  }
  return json_pack("{s:i, s:i, s:i, s:i, s:f, s:o}", "live", report->live, "live_limit",
                   train_schedule_live_limit(&schedule->shape, stage), "slots", report->slots,
                   "versions", report->versions, "busy", view->timing.busy[stage], "actions",
                   actions);
}

coll_status_t gpt_schedule_write_json(const gpt_schedule_view_t *view, const char *path) {
  const train_schedule_shape_t *shape = &view->schedule->shape;
  json_t *stages = json_array();
  for (int stage = 0; stage < shape->stages; stage++) {
    json_array_append_new(stages, stage_object(view, stage));
  }
  json_t *root =
      json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:o}", "kind",
                train_schedule_names[shape->kind], "micro_batches", shape->micro_batches, "updates",
                shape->steps, "virtual_stages", shape->chunks, "slices", shape->slices, "window",
                view->report.window, "staleness", view->report.staleness, "time", view->timing.end,
                "bubble", view->timing.bubble, "bubble_of_equal_stages",
                train_schedule_bubble(shape, &view->costs), "stages", stages);
  int failed = json_dump_file(root, path, JSON_INDENT(1) | JSON_REAL_PRECISION(DIGITS));
  json_decref(root);
  if (failed == 0) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write --json %s", path);
}
