/* The library's declarations of PMIx against those of the header: it does not compile otherwise. */
#include <pmix.h>

#include "bootstrap/launch/pmix_abi.h"

#define SAME_SIZE(theirs, ours) _Static_assert(sizeof(theirs) == sizeof(ours), #ours)
#define SAME_PLACE(theirs, ours, member) \
  _Static_assert(offsetof(theirs, member) == offsetof(ours, member), #ours "." #member)

SAME_SIZE(pmix_proc_t, pmix_abi_proc_t);
SAME_PLACE(pmix_proc_t, pmix_abi_proc_t, nspace);
SAME_PLACE(pmix_proc_t, pmix_abi_proc_t, rank);
SAME_SIZE(pmix_value_t, pmix_abi_value_t);
SAME_PLACE(pmix_value_t, pmix_abi_value_t, type);
SAME_PLACE(pmix_value_t, pmix_abi_value_t, data);
SAME_SIZE(pmix_info_t, pmix_abi_info_t);
SAME_PLACE(pmix_info_t, pmix_abi_info_t, key);
SAME_PLACE(pmix_info_t, pmix_abi_info_t, flags);
SAME_PLACE(pmix_info_t, pmix_abi_info_t, value);
SAME_SIZE(pmix_status_t, int);
SAME_SIZE(pmix_scope_t, uint8_t);
SAME_SIZE(pmix_rank_t, uint32_t);
SAME_SIZE(pmix_data_type_t, uint16_t);

_Static_assert(PMIX_SUCCESS == PMIX_ABI_SUCCESS, "PMIX_SUCCESS");
_Static_assert(PMIX_BOOL == PMIX_ABI_BOOL, "PMIX_BOOL");
_Static_assert(PMIX_STRING == PMIX_ABI_STRING, "PMIX_STRING");
_Static_assert(PMIX_UINT32 == PMIX_ABI_UINT32, "PMIX_UINT32");
_Static_assert(PMIX_GLOBAL == PMIX_ABI_GLOBAL, "PMIX_GLOBAL");
_Static_assert(PMIX_RANK_WILDCARD == PMIX_ABI_RANK_WILDCARD, "PMIX_RANK_WILDCARD");
_Static_assert(sizeof PMIX_JOB_SIZE == sizeof PMIX_ABI_JOB_SIZE, "PMIX_JOB_SIZE");
_Static_assert(sizeof PMIX_COLLECT_DATA == sizeof PMIX_ABI_COLLECT_DATA, "PMIX_COLLECT_DATA");

/* The types of the functions, with the pointers that differ in name alone. */
#define PMIX_ABI_CHECK(name, arguments) (void)sizeof(&name);
int main(void) {
  PMIX_ABI_FUNCTIONS(PMIX_ABI_CHECK)
  return 0;
}
