/* Reads no clock and makes no system call. */
#include "transport/net/connect/liveness.h"

#include <linux/tcp.h>

#define SUSPECT_NS (NET_LIVENESS_SUSPECT_MS * UINT64_C(1000000))

/* ---- connections ----------------------------------------------------------------------------*/

bool net_liveness_is_due(const net_acks_t *acks, uint64_t now_ns) {
  return now_ns >= acks->checked_ns + NET_LIVENESS_CHECK_NS;
}

static bool is_unacknowledged(const struct tcp_info *info) {
  return info->tcpi_unacked > 0 || info->tcpi_notsent_bytes > 0;
}

net_suspicion_t net_liveness_check(net_acks_t *acks, const struct tcp_info *info, uint64_t now_ns) {
  bool is_apart = now_ns > acks->checked_ns + NET_LIVENESS_APART_NS;
  bool is_moving = info->tcpi_bytes_acked != acks->acked_bytes || !is_unacknowledged(info);
  acks->checked_ns = now_ns;
  if (is_moving || is_apart) acks->acked_ns = now_ns;
  acks->acked_bytes = info->tcpi_bytes_acked;
  if (now_ns < acks->acked_ns + SUSPECT_NS) return (net_suspicion_t){0};
  bool is_resent = info->tcpi_retransmits > 0;
  return (net_suspicion_t){
      .is_silent = info->tcpi_last_ack_recv > NET_LIVENESS_SUSPECT_MS &&
                   info->tcpi_last_data_recv > NET_LIVENESS_SUSPECT_MS,
      .is_resent = is_resent,
      .is_blocked = is_resent && now_ns > acks->acked_ns + NET_LIVENESS_BLOCKED_NS};
}

/* ---- hosts ----------------------------------------------------------------------------------*/

bool net_liveness_asks(net_question_t *question, uint64_t now_ns) {
  if (now_ns > question->looked_ns + NET_LIVENESS_APART_NS) question->asked_ns = 0;
  question->looked_ns = now_ns;
  return now_ns >= question->answered_ns + NET_LIVENESS_ANSWERED_NS;
}

bool net_liveness_is_gone(net_question_t *question, net_answer_t answer, uint64_t now_ns) {
  if (answer == NET_ANSWER_GIVEN) question->answered_ns = now_ns;
  if (answer != NET_ANSWER_NONE) {
    question->asked_ns = 0;
    return false;
  }
  if (question->asked_ns == 0) question->asked_ns = now_ns;
  return now_ns > question->asked_ns + NET_LIVENESS_UNANSWERED_NS;
}
