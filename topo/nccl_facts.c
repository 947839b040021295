/* Tables, each figure with its source. Later entries of the table of GPUs are later models. */
#include "topo/nccl_facts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- GPUs -----------------------------------------------------------------------------------*/

#define NVIDIA 0x10de
#define AMD 0x1002

static const topo_nccl_gpu_t gpus[] = {
    {"P100", "P100 SXM", NVIDIA, 0x15f9, 60, NULL, 20.0},      /* white paper: 4 links, 160 GB/s */
    {"V100", "V100 SXM", NVIDIA, 0x1db1, 70, NULL, 25.0},      /* white paper: 6 links, 300 GB/s */
    {"A100", "A100 SXM", NVIDIA, 0x20b0, 80, NULL, 25.0},      /* white paper: 12 links, 600 GB/s */
    {"A6000", "RTX A6000", NVIDIA, 0x2230, 86, NULL, 14.0625}, /* GA102: 4 links, 112.5 GB/s */
    {"H100", "H100 SXM", NVIDIA, 0x2330, 90, NULL, 25.0},      /* white paper: 18 links, 900 GB/s */
    {"H200", "H200 SXM", NVIDIA, 0x2335, 90, NULL, 25.0},      /* data sheet: the same */
    {"B200", "B200", NVIDIA, 0x2901, 100, NULL, 50.0},         /* data sheet: 18 links, 1.8 TB/s */
    {"MI50", "MI50", AMD, 0x66a1, 60, "gfx906", 46.0},         /* data sheet: 2 links, 184 GB/s */
    {"MI100", "MI100", AMD, 0x738c, 120, "gfx908", 46.0},      /* data sheet: 3 links, 276 GB/s */
    {"MI250", "MI250X", AMD, 0x7408, 110, "gfx90a", 50.0},     /* data sheet: 100 GB/s a link */
    {"MI300X", "MI300X", AMD, 0x74a1, 304, "gfx942", 64.0},    /* data sheet: 128 GB/s a link */
    {"MI350X", "MI350X", AMD, 0x75a0, 256, "gfx950", 76.8},    /* data sheet: 153.6 GB/s a link */
};

enum { GPUS = sizeof gpus / sizeof gpus[0] };

const topo_nccl_gpu_t *topo_nccl_gpu_of_model(const char *model) {
  if (strncmp(model, "gfx", 3) == 0) return topo_nccl_gpu_of_gcn(model);
  if (strncmp(model, "sm ", 3) == 0) return topo_nccl_gpu_of_sm(strtol(model + 3, NULL, 10));
  for (int i = GPUS - 1; i >= 0; i--) {
    if (strstr(model, gpus[i].key) != NULL) return &gpus[i];
  }
  return NULL;
}

const topo_nccl_gpu_t *topo_nccl_gpu_of_device(uint32_t vendor, uint32_t device) {
  for (int i = 0; i < GPUS; i++) {
    if (gpus[i].vendor == vendor && gpus[i].device == device) return &gpus[i];
  }
  return NULL;
}

const topo_nccl_gpu_t *topo_nccl_gpu_of_sm(int64_t sm) {
  const topo_nccl_gpu_t *best = &gpus[0];
  for (int i = 0; i < GPUS; i++) {
    if (gpus[i].gcn == NULL && gpus[i].sm <= sm && gpus[i].sm > best->sm) best = &gpus[i];
  }
  return best;
}

const topo_nccl_gpu_t *topo_nccl_gpu_of_gcn(const char *gcn) {
  const topo_nccl_gpu_t *best = NULL;
  size_t most = 0;
  if (strncmp(gcn, "gfx", 3) == 0) gcn += 3;
  for (int i = 0; i < GPUS; i++) {
    if (gpus[i].gcn == NULL) continue;
    const char *name = gpus[i].gcn + 3;
    size_t same = 0;
    while (name[same] != '\0' && name[same] == gcn[same]) same++;
    if (best == NULL || same > most) {
      best = &gpus[i];
      most = same;
    }
  }
  return best;
}

const topo_nccl_gpu_t *topo_nccl_gpu_of_links(bool amd, double link_gbs) {
  const topo_nccl_gpu_t *best = NULL;
  for (int i = 0; i < GPUS; i++) {
    if ((gpus[i].gcn != NULL) != amd) continue;
    if (best == NULL || fabs(gpus[i].link_gbs - link_gbs) <= fabs(best->link_gbs - link_gbs)) {
      best = &gpus[i];
    }
  }
  return best;
}

/* ---- processors -----------------------------------------------------------------------------*/

static const struct {
  const char *key; /* part of the names of its models */
  topo_nccl_cpu_t cpu;
} cpus[] = {
    {"EPYC 7", {"x86_64", "AuthenticAMD", 143, 49}}, /* families as NCCL counts them */
    {"EPYC", {"x86_64", "AuthenticAMD", 175, 17}},
    {"AMD", {"x86_64", "AuthenticAMD", 175, 17}},
    {"Xeon", {"x86_64", "GenuineIntel", 6, 143}},
    {"Intel", {"x86_64", "GenuineIntel", 6, 85}},
    {"Grace", {"arm64", "", 0, 0}},
    {"Neoverse", {"arm64", "", 0, 0}},
    {"arm64", {"arm64", "", 0, 0}},
    {"ppc64", {"ppc64", "", 0, 0}},
    {"x86_64", {"x86_64", "GenuineIntel", 6, 85}},
};

enum { CPUS = sizeof cpus / sizeof cpus[0] };

/* Parses the text that topo_nccl_cpu_name writes for x86_64. */
static bool parse_cpu_name(const char *name, topo_nccl_cpu_t *cpu) {
  static const char family_word[] = " family ", model_word[] = " model ";
  const char *family = strstr(name, family_word);
  size_t vendor = family != NULL ? (size_t)(family - name) : 0;
  char *end;
  if (vendor == 0 || vendor >= sizeof cpu->vendor) return false;
  long number = strtol(family + strlen(family_word), &end, 10);
  if (strncmp(end, model_word, strlen(model_word)) != 0) return false;
  *cpu = (topo_nccl_cpu_t){.arch = "x86_64", .family = (int32_t)number};
  memcpy(cpu->vendor, name, vendor);
  cpu->model = (int32_t)strtol(end + strlen(model_word), &end, 10);
  return *end == '\0';
}

bool topo_nccl_cpu_of_model(const char *model, topo_nccl_cpu_t *cpu) {
  if (parse_cpu_name(model, cpu)) return true;
  for (int i = 0; i < CPUS; i++) {
    *cpu = cpus[i].cpu;
    if (strstr(model, cpus[i].key) != NULL) return true;
  }
  return false;
}

void topo_nccl_cpu_name(const topo_nccl_cpu_t *cpu, char name[TOPO_NAME_BYTES]) {
  if (cpu->vendor[0] == '\0') {
    snprintf(name, TOPO_NAME_BYTES, "%s", cpu->arch);
  } else {
    snprintf(name, TOPO_NAME_BYTES, "%s family %d model %d", cpu->vendor, (int)cpu->family,
             (int)cpu->model);
  }
}

double topo_nccl_cpu_gbs(const topo_nccl_cpu_t *cpu) {
  if (strcmp(cpu->arch, "ppc64") == 0) return 32.0;
  if (strcmp(cpu->arch, "arm64") == 0) return 6.0;
  if (strcmp(cpu->vendor, "AuthenticAMD") == 0) return 16.0;
  if (strcmp(cpu->vendor, "GenuineIntel") != 0 || cpu->family != 6) return 6.0;
  return cpu->model >= 0xcf ? 40.0 : cpu->model >= 0x8f ? 22.0 : cpu->model >= 0x55 ? 10.0 : 6.0;
}

/* ---- PCIe -----------------------------------------------------------------------------------*/

/* PCI Express Base Specification: 8b/10b in the first two generations, 128b/130b in three, then
 * FLIT mode with 242 of 256 bytes for packets. */
static const struct {
  const char *speed;
  double gigatransfers, coded;
} pcie[] = {
    {"2.5 GT/s PCIe", 2.5, 8.0 / 10},    {"5.0 GT/s PCIe", 5, 8.0 / 10},
    {"8.0 GT/s PCIe", 8, 128.0 / 130},   {"16.0 GT/s PCIe", 16, 128.0 / 130},
    {"32.0 GT/s PCIe", 32, 128.0 / 130}, {"64.0 GT/s PCIe", 64, 242.0 / 256},
};

enum { GENERATIONS = sizeof pcie / sizeof pcie[0] };

const char *topo_nccl_pcie_speed(int generation) {
  return generation >= 0 && generation < GENERATIONS ? pcie[generation].speed : NULL;
}

int topo_nccl_pcie_generation(const char *speed) {
  char *end;
  double number = strtod(speed, &end);
  if (end == speed || strncmp(end, " GT/s", 5) != 0) return -1;
  for (int i = 0; i < GENERATIONS; i++) {
    if (pcie[i].gigatransfers == number) return i;
  }
  return -1;
}

double topo_nccl_pcie_gbs(int generation, int32_t width) {
  double gbs = pcie[generation].gigatransfers * pcie[generation].coded * width / 8;
  double scale = pow(10, 2 - floor(log10(gbs)));
  return round(gbs * scale) / scale;
}

void topo_nccl_pcie_nearest(double gbs, int *generation, int32_t *width) {
  double least = INFINITY;
  for (int32_t lanes = 16; lanes >= 1; lanes /= 2) {
    for (int i = 0; i < GENERATIONS; i++) {
      double distance = fabs(log(topo_nccl_pcie_gbs(i, lanes) / gbs));
      if (distance >= least - 1e-9) continue;
      least = distance;
      *generation = i;
      *width = lanes;
    }
  }
}
