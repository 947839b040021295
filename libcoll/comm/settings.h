/*
 * Settings of a communicator: values of the knobs (COLL_* variables) and of its config. A variable
 * that is set counts before the config, but for `reproducible` and `blocking`, which are the
 * program's (docs/knobs.md).
 */
#ifndef COMM_SETTINGS_H
#define COMM_SETTINGS_H

#include "comm/agreed.h"
#include "comm/comm.h"
#include "device/cuda/end.h"
#include "topo/map.h"

/* Finds costs (calibrate/). */
typedef struct comm_calibration {
  coll_status_t (*machine)(tune_machine_t *costs); /* of a plan's parts, on this machine */
  comm_measure_network_t *network;                 /* of the network between hosts */
} comm_calibration_t;

typedef struct comm_settings {
  uint64_t timeout_ns;   /* COLL_TIMEOUT_MS */
  comm_limits_t limits;  /* COLL_HANG_MS, COLL_CALL_TIMEOUT_MS */
  comm_agreed_t agreed;  /* layout: filled in when the file is read */
  const char *topo_file; /* COLL_TOPO_FILE; "": none */
  topo_map_t topo_map;   /* COLL_TOPO_MAP */
  bool topo_paced;       /* COLL_TOPO_PACED */
  bool blocking;         /* creation blocks */
  const comm_calibration_t *calibration;
  bool measures; /* COLL_TUNE: that of rank 0 counts; false: use the costs that are built in */
  int device;    /* this rank's GPU; CUDA_NO_DEVICE: none */
  comm_access_t access;
  comm_inherited_t inherited;
} comm_settings_t;

/* Settings of a communicator that is split from another one. */
typedef struct comm_split_settings {
  uint64_t timeout_ns;
  comm_limits_t limits;
  bool blocking;
  int device; /* as above */
  comm_inherited_t inherited;
} comm_split_settings_t;

/* config may be NULL. The rank's GPU is that of the calling thread's current context.
 * COLL_ERROR_INVALID names the knob or field with a wrong value. */
coll_status_t comm_settings_read(const coll_comm_config_t *config,
                                 const comm_calibration_t *calibration, comm_settings_t *settings);

/* The same for a split of the parent, whose GPU is `device` (CUDA_NO_DEVICE: none). What the config
 * leaves open is as the parent has it. */
coll_status_t comm_settings_read_split(const coll_comm_config_t *config,
                                       const struct coll_comm *parent, int device,
                                       comm_split_settings_t *settings);

/* COLL_CUDA_ENGINE. */
coll_status_t comm_engine_setting(cuda_engine_t *engine);

/* COLL_CUDA_BLOCKS: blocks of a rank's kernel at most; 0: as many as there should be. */
coll_status_t comm_cuda_blocks_setting(uint32_t *blocks);

/* COLL_CUDA_PROTOCOLS: bits of CUDA_PROTOCOL_... */
coll_status_t comm_cuda_protocols_setting(uint32_t *protocols);

/* The index-th knob of this room; NULL past the end. */
const struct base_knob *comm_knob(int index);

#endif
