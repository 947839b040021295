/* The names of verdicts. */
#include "verify/verdict.h"

const char *verify_verdict_name(verify_verdict_t verdict) {
  switch (verdict) {
    case VERIFY_PROVED: return "proved";
    case VERIFY_MALFORMED: return "malformed";
    case VERIFY_UNMATCHED: return "unmatched";
    case VERIFY_SIZE: return "size";
    case VERIFY_DEADLOCK: return "deadlock";
    case VERIFY_UNWRITTEN: return "unwritten";
    case VERIFY_RACE: return "race";
    case VERIFY_CONST_INPUT: return "const input";
    case VERIFY_CONTRIBUTION: return "contribution";
    case VERIFY_NOT_IDENTICAL: return "not identical";
    case VERIFY_ORDER: return "order";
  }
  return "?";
}
