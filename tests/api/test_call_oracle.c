/*
 * Expected results of pairs of calls that each follow from one sentence of coll.h.
 */
#include <criterion/criterion.h>

#include "call_oracle.h"

typedef struct known {
  const char *first, *second;
  bool legal, reports[2], untaken;
  const char *accepted, *rejected; /* reports; NULL: not tested */
} known_t;

static const known_t known[] = {
    {"nothing at all", "nothing at all", true, {false, false}, false, NULL, NULL},
    {"allreduce of 5",
     "allreduce of 6",
     false,
     {true, true},
     false,
     "call 0: rank 0 is in allreduce(float32, sum, count 5), but rank 1 is in "
     "allreduce(float32, sum, count 6)",
     "rank 0 is in allreduce(float32, sum, count 5), but rank 1 in another call"},
    {"allreduce of 0",
     "allreduce of 5",
     false,
     {true, true},
     false,
     NULL,
     "allreduce(float32, sum, count 00), allreduce(float32, sum, count 50)"},
    {"allreduce, large", "allreduce, large, mapped", true, {false, false}, false, NULL, NULL},
    {"allreduce of 5, butterfly",
     "allreduce of 5, tree",
     false,
     {true, true},
     false,
     "allreduce(float32, sum, count 5, butterfly) and allreduce(float32, sum, count 5, tree)",
     "allreduce(float32, sum, count 5) and allreduce(float32, sum, count 5)"},
    {"allreduce of 5", "allreduce of 5, butterfly", false, {true, true}, false, NULL, NULL},
    /* Rank 1 has destroyed its communicator when rank 0 reaches its second barrier. */
    {"barrier", "nothing at all", false, {true, false}, false, "barrier()", "rank 1 is lost"},
    {"send of 3", "recv of 3", true, {false, false}, false, NULL, NULL},
    {"send of 3", "recv of 3, float32", false, {true, true}, false, NULL, NULL},
    {"send of 3",
     "nothing at all",
     false,
     {false, false},
     true,
     "send(int32, count 3, to rank 1)",
     "barrier()"},
    {"send of 3", "allreduce of 5", false, {true, true}, true, NULL, NULL},
    {"send, large", "recv, large", true, {false, false}, false, NULL, NULL},
    {"send, large", "nothing at all", false, {true, true}, true, NULL, NULL},
    {"recv of 3",
     "nothing at all",
     false,
     {true, true},
     false,
     "recv(int32, count 3, from rank 1) waits for rank 1, which is in barrier()",
     "recv(int32, count 3, from rank 0) waits for rank 1, which is in barrier()"},
    {"recv of 3", "recv of 3", false, {true, true}, false, NULL, NULL},
    {"group of send and recv of 3",
     "group of send and recv of 3",
     true,
     {false, false},
     false,
     NULL,
     NULL},
    {"group of send and recv of 3", "send of 3", false, {false, false}, true, NULL, NULL},
    {"group of send and recv to itself", "nothing at all", true, {false, false}, false, NULL, NULL},
    {"group of allreduce of 5 alone", "allreduce of 5", true, {false, false}, false, NULL, NULL},
    {"group of allreduce and broadcast",
     "allreduce, then broadcast",
     false,
     {true, true},
     false,
     "allreduce(float32, sum, count 5) in a group of 2, allreduce(float32, sum, count 5)",
     "allreduce(float32, sum, count 5), allreduce(float32, sum, count 5)"},
    {"group of allreduce and send of 3", "allreduce of 5", false, {false, false}, true, NULL, NULL},
    {"alltoallv of 5", "alltoallv of 5", true, {false, false}, false, NULL, NULL},
    {"alltoallv of 5, expecting 6",
     "alltoallv of 6, expecting 5",
     true,
     {false, false},
     false,
     NULL,
     NULL},
    {"alltoallv of 5, expecting 6",
     "alltoallv of 5, expecting 6",
     false,
     {true, true},
     false,
     NULL,
     NULL},
    {"allgatherv of 5 and up", "allgatherv of 5 and up", true, {false, false}, false, NULL, NULL},
    {"allgatherv of 5 and up",
     "allgatherv of 6 and down",
     false,
     {true, true},
     false,
     "allgatherv(uint8, 11 elements, counts #1), allgatherv(uint8, 11 elements, counts #2)",
     "allgatherv(uint8, 11 elements, counts #1)"},
    {"gatherv of 5 and up to 0",
     "gatherv of 4 and up to 0",
     false,
     {true, true},
     false,
     NULL,
     NULL},
    {"broadcast of 5 from 0", "reduce of 5 to 1", false, {true, true}, false, NULL, NULL},
    {"split",
     "barrier",
     false,
     {true, true},
     false,
     "split(), barrier()",
     "split(), barrier(uint8)"},
    /* Rank 0 waits for rank 1, which has exited without receiving its message. */
    {"barrier", "send of 3", false, {true, false}, true, "barrier()", "rank 1 is lost"},
};

Test(call_oracle, expects_results_of_pairs) {
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    const known_t *k = &known[i];
    const call_kind_t *kinds[2] = {call_kind_find(k->first), call_kind_find(k->second)};
    call_verdict_t verdict;
    call_oracle_judge(kinds, 2, &verdict);
    cr_expect(verdict.legal == k->legal, "%s, %s", k->first, k->second);
    cr_expect(verdict.untaken == k->untaken, "%s, %s", k->first, k->second);
    for (int rank = 0; rank < 2; rank++) {
      cr_expect(verdict.must_report[rank] == k->reports[rank], "%s, %s: rank %d", k->first,
                k->second, rank);
    }
    if (k->accepted != NULL) {
      cr_expect(call_oracle_accepts(kinds, 2, &verdict, false, k->accepted), "%s", k->accepted);
    }
    if (k->rejected != NULL) {
      cr_expect(!call_oracle_accepts(kinds, 2, &verdict, false, k->rejected), "%s", k->rejected);
    }
  }
}

/* Ranks 2 and 3 are a separate pair, whose receives wait for each other. */
Test(call_oracle, expects_results_of_four_ranks) {
  const call_kind_t *send = call_kind_find("send of 3"), *recv = call_kind_find("recv of 3");
  const call_kind_t *kinds[4] = {send, recv, recv, recv};
  call_verdict_t verdict;
  call_oracle_judge(kinds, 4, &verdict);
  cr_expect(!verdict.legal);
  for (int rank = 0; rank < 4; rank++) cr_expect(verdict.must_report[rank], "rank %d", rank);
  kinds[3] = send;
  call_oracle_judge(kinds, 4, &verdict);
  cr_expect(verdict.legal);
}

Test(call_oracle, has_enough_kinds) {
  cr_expect(call_kind_count() >= 40, "%d", call_kind_count());
  for (int i = 0; i < call_kind_count(); i++) {
    cr_expect(call_kind_find(call_kind_at(i)->name) == call_kind_at(i), "two kinds are named '%s'",
              call_kind_at(i)->name);
  }
}
