/*
 * Chooses the device table for this processor among those of this build, from plain C to the widest
 * instructions. Each has a function that checks whether the processor and the operating system
 * support it. The build says which tables there are: HOST_HAS_AVX2, _AVX512, _NEON.
 */
#include "device/host/host.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "base/knob.h"

static const char *const isa_words[] = {"auto",       "portable", "avx2", "avx512",
                                        "avx512bf16", "neon",     NULL};
enum { ISA_AUTO };

static const base_knob_t knobs[] = {
    {.name = "COLL_ISA",
     .kind = BASE_KNOB_WORD,
     .fallback = "auto",
     .words = isa_words,
     .help = "instructions to copy and reduce with: auto (the widest that this processor has), "
             "portable, avx2, avx512, avx512bf16 or neon"},
    {.name = "COLL_STREAM_BYTES",
     .kind = BASE_KNOB_BYTES,
     .fallback = "0",
     .max = INT64_MAX,
     .help = "bytes that a copy or reduction loads and stores, from which it uses non-temporal "
             "stores; 0: a fraction of the last-level cache"},
};

enum { KNOB_ISA, KNOB_STREAM, KNOB_COUNT };

_Static_assert(sizeof knobs / sizeof knobs[0] == KNOB_COUNT, "one name per knob");

const base_knob_t *device_knob(int index) {
  return index >= 0 && index < KNOB_COUNT ? &knobs[index] : NULL;
}

typedef struct isa {
  const char *name;
  const device_ops_t *ops;
  bool (*available)(void);
} isa_t;

static bool always(void) {
  return true;
}

#if defined(HOST_HAS_AVX2)
extern const device_ops_t device_host_avx2;

static bool has_avx2(void) {
  unsigned eax, ebx, ecx = 0, edx;
  return __builtin_cpu_supports("avx2") && __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 &&
         (ecx & bit_F16C) != 0;
}
#endif
#if defined(HOST_HAS_AVX512)
extern const device_ops_t device_host_avx512, device_host_avx512bf16;

static bool has_avx512(void) {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("bmi2");
}

static bool has_avx512bf16(void) {
  return has_avx512() && __builtin_cpu_supports("avx512bf16");
}
#endif
#if defined(HOST_HAS_NEON)
extern const device_ops_t device_host_neon;

static bool has_neon(void) {
  return (getauxval(AT_HWCAP) & HWCAP_ASIMD) != 0;
}
#endif

static const isa_t isas[] = {
    {"portable", &device_host_portable, always},
#if defined(HOST_HAS_AVX2)
    {"avx2", &device_host_avx2, has_avx2},
#endif
#if defined(HOST_HAS_AVX512)
    {"avx512", &device_host_avx512, has_avx512},
    {"avx512bf16", &device_host_avx512bf16, has_avx512bf16},
#endif
#if defined(HOST_HAS_NEON)
    {"neon", &device_host_neon, has_neon},
#endif
};

enum { ISA_COUNT = sizeof isas / sizeof isas[0] };

static const isa_t *widest(void) {
  int i = ISA_COUNT - 1;
  while (!isas[i].available()) i--;
  return &isas[i];
}

const device_ops_t *host_isa_find(const char *name) {
  for (int i = 0; i < ISA_COUNT; i++) {
    if (strcmp(isas[i].name, name) == 0 && isas[i].available()) return isas[i].ops;
  }
  return NULL;
}

coll_status_t device_host_open(const device_ops_t **ops) {
  int word;
  int64_t stream_bytes;
  COLL_TRY(base_knob_word(&knobs[KNOB_ISA], &word));
  COLL_TRY(base_knob_integer(&knobs[KNOB_STREAM], &stream_bytes));
  const device_ops_t *found = word == ISA_AUTO ? widest()->ops : host_isa_find(isa_words[word]);
  if (found == NULL) {
    return base_fail(COLL_ERROR_INVALID,
                     "COLL_ISA=%s: this processor has no such instructions; its widest are '%s'",
                     isa_words[word], widest()->name);
  }
  host_stream_set((size_t)stream_bytes);
  *ops = found;
  return COLL_OK;
}
