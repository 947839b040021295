/*
 * The composed algorithms: which grid, and which one-dimensional algorithm along each dimension.
 */
#include "algo/compose/compose.h"
#include "algo/list.h"

/* ---- hierarchical ---------------------------------------------------------------------------
 * The levels of the layout. Between hosts, where a message costs most, allreduce takes few rounds;
 * inside, rings move the least. */

#define FEW_ROUNDS_BETWEEN_HOSTS                                                                \
  {                                                                                             \
    [COLL_ALLREDUCE] = &algo_allreduce_circulant, [COLL_REDUCE] = &algo_reduce_binomial,        \
    [COLL_REDUCE_SCATTER] = &algo_reduce_scatter_ring, [COLL_ALLGATHER] = &algo_allgather_ring, \
    [COLL_BROADCAST] = &algo_broadcast_binomial, [COLL_GATHER] = &algo_gather_binomial,         \
    [COLL_SCATTER] = &algo_scatter_binomial, [COLL_ALLTOALL] = &algo_alltoall_pairwise,         \
    [COLL_BARRIER] = &algo_barrier_dissemination,                                               \
  }

static const algo_composition_t hierarchical = {.grid = ALGO_GRID_NESTED,
                                                .along = FEW_ROUNDS_BETWEEN_HOSTS};

static const char karonis_2000[] =
    "Karonis, de Supinski, Foster, Gropp, Lusk & Bresnahan, Exploiting hierarchy in parallel "
    "computer networks to optimize collective operation performance, 2000";

/* ---- hierarchical_pipelined -----------------------------------------------------------------
 * The same in segments that follow each other, so that links between hosts and inside them work at
 * once: for long vectors, the slowest phase takes the time, instead of all of them. */

static const algo_composition_t hierarchical_pipelined = {
    .grid = ALGO_GRID_NESTED, .segmentation = ALGO_PIPELINED, .along = FEW_ROUNDS_BETWEEN_HOSTS};

static const char luo_2020[] =
    "Luo, Wu, Bosilca, Pei, Cao, Patinyasakdikul, Zhong & Dongarra, HAN: a hierarchical autotuned "
    "collective communication framework, 2020";

/* ---- torus2d, torus3d -----------------------------------------------------------------------
 * Rings along each dimension of a torus: messages between neighbours only. */

#define RINGS                                                                                   \
  {                                                                                             \
    [COLL_ALLREDUCE] = &algo_allreduce_ring, [COLL_REDUCE] = &algo_reduce_chain,                \
    [COLL_REDUCE_SCATTER] = &algo_reduce_scatter_ring, [COLL_ALLGATHER] = &algo_allgather_ring, \
    [COLL_BROADCAST] = &algo_broadcast_chain,                                                   \
  }

static const algo_composition_t torus2d = {.grid = ALGO_GRID_2D, .along = RINGS};
static const algo_composition_t torus3d = {.grid = ALGO_GRID_3D, .along = RINGS};

static const char mikami_2018[] =
    "Mikami, Suganuma, U-chupala, Tanaka & Kageyama, Massively distributed SGD: ImageNet/ResNet-50 "
    "training in a flash, 2018";

static const char jain_2010[] =
    "Jain & Sabharwal, Optimal bucket algorithms for large MPI collectives on torus interconnects, "
    "2010";

/* ---- torus2d_multiport, torus3d_multiport ----------------------------------------------------
 * The same in segments that use all links of a rank, in both directions, at once. */

static const algo_composition_t torus2d_multiport = {
    .grid = ALGO_GRID_2D, .segmentation = ALGO_MULTIPORT, .along = RINGS};
static const algo_composition_t torus3d_multiport = {
    .grid = ALGO_GRID_3D, .segmentation = ALGO_MULTIPORT, .along = RINGS};

static const char sack_2015[] =
    "Sack & Gropp, Collective algorithms for multiported torus networks, 2015";

/* ---- mesh2d ---------------------------------------------------------------------------------
 * Lines along both dimensions of a mesh, whose first and last ranks have no link. */

static const algo_composition_t mesh2d = {
    .grid = ALGO_GRID_2D,
    .along =
        {
            [COLL_ALLREDUCE] = &algo_allreduce_line,
            [COLL_REDUCE] = &algo_reduce_line,
            [COLL_REDUCE_SCATTER] = &algo_reduce_scatter_line,
            [COLL_ALLGATHER] = &algo_allgather_line,
            [COLL_BROADCAST] = &algo_broadcast_line,
        },
};

static const char barnett_1993[] =
    "Barnett, Littlefield, Payne & van de Geijn, Global combine on mesh architectures with "
    "wormhole routing, 1993";

/* ---- blueconnect ----------------------------------------------------------------------------
 * Rings along each level of the layout, between hosts too. */

static const algo_composition_t blueconnect = {.grid = ALGO_GRID_NESTED, .along = RINGS};

static const char cho_2019[] =
    "Cho, Finkler, Serrano, Kung & Hunter, BlueConnect: Decomposing all-reduce for deep learning "
    "on heterogeneous network hierarchy, 2019";

/* ---- rows -----------------------------------------------------------------------------------*/

#define ROW(group, of, source) \
  { .name = #group, .collective = of, .paper = source, .composition = &group, }
#define LANES_ROW(group, of, source) \
  { .name = #group, .collective = of, .paper = source, .composition = &group, .two_way = true, }

const algo_t algo_allreduce_hierarchical = ROW(hierarchical, COLL_ALLREDUCE, karonis_2000);
const algo_t algo_allreduce_hierarchical_pipelined =
    LANES_ROW(hierarchical_pipelined, COLL_ALLREDUCE, luo_2020);
const algo_t algo_reduce_hierarchical = ROW(hierarchical, COLL_REDUCE, karonis_2000);
const algo_t algo_reduce_scatter_hierarchical =
    ROW(hierarchical, COLL_REDUCE_SCATTER, karonis_2000);
const algo_t algo_allgather_hierarchical = ROW(hierarchical, COLL_ALLGATHER, karonis_2000);
const algo_t algo_broadcast_hierarchical = ROW(hierarchical, COLL_BROADCAST, karonis_2000);
const algo_t algo_gather_hierarchical = ROW(hierarchical, COLL_GATHER, karonis_2000);
const algo_t algo_scatter_hierarchical = ROW(hierarchical, COLL_SCATTER, karonis_2000);
const algo_t algo_alltoall_hierarchical = ROW(hierarchical, COLL_ALLTOALL, karonis_2000);
const algo_t algo_barrier_hierarchical = ROW(hierarchical, COLL_BARRIER, karonis_2000);
const algo_t algo_allreduce_torus2d = ROW(torus2d, COLL_ALLREDUCE, mikami_2018);
const algo_t algo_reduce_torus2d = ROW(torus2d, COLL_REDUCE, mikami_2018);
const algo_t algo_reduce_scatter_torus2d = ROW(torus2d, COLL_REDUCE_SCATTER, mikami_2018);
const algo_t algo_allgather_torus2d = ROW(torus2d, COLL_ALLGATHER, mikami_2018);
const algo_t algo_broadcast_torus2d = ROW(torus2d, COLL_BROADCAST, mikami_2018);
const algo_t algo_allreduce_torus3d = ROW(torus3d, COLL_ALLREDUCE, jain_2010);
const algo_t algo_reduce_torus3d = ROW(torus3d, COLL_REDUCE, jain_2010);
const algo_t algo_reduce_scatter_torus3d = ROW(torus3d, COLL_REDUCE_SCATTER, jain_2010);
const algo_t algo_allgather_torus3d = ROW(torus3d, COLL_ALLGATHER, jain_2010);
const algo_t algo_broadcast_torus3d = ROW(torus3d, COLL_BROADCAST, jain_2010);
const algo_t algo_allreduce_torus2d_multiport =
    LANES_ROW(torus2d_multiport, COLL_ALLREDUCE, sack_2015);
const algo_t algo_reduce_torus2d_multiport = LANES_ROW(torus2d_multiport, COLL_REDUCE, sack_2015);
const algo_t algo_reduce_scatter_torus2d_multiport =
    LANES_ROW(torus2d_multiport, COLL_REDUCE_SCATTER, sack_2015);
const algo_t algo_allgather_torus2d_multiport =
    LANES_ROW(torus2d_multiport, COLL_ALLGATHER, sack_2015);
const algo_t algo_broadcast_torus2d_multiport =
    LANES_ROW(torus2d_multiport, COLL_BROADCAST, sack_2015);
const algo_t algo_allreduce_torus3d_multiport =
    LANES_ROW(torus3d_multiport, COLL_ALLREDUCE, sack_2015);
const algo_t algo_reduce_torus3d_multiport = LANES_ROW(torus3d_multiport, COLL_REDUCE, sack_2015);
const algo_t algo_reduce_scatter_torus3d_multiport =
    LANES_ROW(torus3d_multiport, COLL_REDUCE_SCATTER, sack_2015);
const algo_t algo_allgather_torus3d_multiport =
    LANES_ROW(torus3d_multiport, COLL_ALLGATHER, sack_2015);
const algo_t algo_broadcast_torus3d_multiport =
    LANES_ROW(torus3d_multiport, COLL_BROADCAST, sack_2015);
const algo_t algo_allreduce_blueconnect = ROW(blueconnect, COLL_ALLREDUCE, cho_2019);
const algo_t algo_allreduce_mesh2d = ROW(mesh2d, COLL_ALLREDUCE, barnett_1993);
const algo_t algo_reduce_mesh2d = ROW(mesh2d, COLL_REDUCE, barnett_1993);
const algo_t algo_reduce_scatter_mesh2d = ROW(mesh2d, COLL_REDUCE_SCATTER, barnett_1993);
const algo_t algo_allgather_mesh2d = ROW(mesh2d, COLL_ALLGATHER, barnett_1993);
const algo_t algo_broadcast_mesh2d = ROW(mesh2d, COLL_BROADCAST, barnett_1993);
