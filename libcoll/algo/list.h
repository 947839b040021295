/*
 * Declares every algorithm, grouped by the file that defines it. registry.c puts them in order.
 */
#ifndef ALGO_LIST_H
#define ALGO_LIST_H

#include "algo/algo.h"

/* barrier.c */
extern const algo_t algo_barrier_dissemination, algo_barrier_tournament, algo_barrier_allpairs;

/* bine.c */
extern const algo_t algo_broadcast_bine, algo_reduce_bine, algo_gather_bine, algo_scatter_bine;

/* bine_butterfly.c */
extern const algo_t algo_reduce_scatter_bine, algo_allgather_bine;

/* biring.c */
extern const algo_t algo_allreduce_biring, algo_reduce_scatter_biring, algo_allgather_biring,
    algo_broadcast_biring;

/* bruck.c */
extern const algo_t algo_alltoall_bruck;

/* chain.c */
extern const algo_t algo_broadcast_chain, algo_reduce_chain;

/* circulant.c */
extern const algo_t algo_allreduce_circulant, algo_reduce_scatter_circulant,
    algo_allgather_circulant;

/* halving.c */
extern const algo_t algo_allreduce_butterfly, algo_allreduce_halving_doubling,
    algo_reduce_scatter_halving, algo_allgather_doubling, algo_allgatherv_doubling,
    algo_reduce_scatterv_halving;

/* composed.c */
extern const algo_t algo_allreduce_hierarchical_pipelined, algo_allreduce_torus2d_multiport,
    algo_reduce_torus2d_multiport, algo_reduce_scatter_torus2d_multiport,
    algo_allgather_torus2d_multiport, algo_broadcast_torus2d_multiport,
    algo_allreduce_torus3d_multiport, algo_reduce_torus3d_multiport,
    algo_reduce_scatter_torus3d_multiport, algo_allgather_torus3d_multiport,
    algo_broadcast_torus3d_multiport;

extern const algo_t algo_allreduce_hierarchical, algo_reduce_hierarchical,
    algo_reduce_scatter_hierarchical, algo_allgather_hierarchical, algo_broadcast_hierarchical,
    algo_gather_hierarchical, algo_scatter_hierarchical, algo_alltoall_hierarchical,
    algo_barrier_hierarchical, algo_allreduce_torus2d, algo_reduce_torus2d,
    algo_reduce_scatter_torus2d, algo_allgather_torus2d, algo_broadcast_torus2d,
    algo_allreduce_torus3d, algo_reduce_torus3d, algo_reduce_scatter_torus3d,
    algo_allgather_torus3d, algo_broadcast_torus3d, algo_allreduce_blueconnect,
    algo_allreduce_mesh2d, algo_reduce_mesh2d, algo_reduce_scatter_mesh2d, algo_allgather_mesh2d,
    algo_broadcast_mesh2d;

/* direct.c */
extern const algo_t algo_allreduce_direct, algo_reduce_direct;

/* double_tree.c */
extern const algo_t algo_allreduce_double_tree, algo_broadcast_double_tree, algo_reduce_double_tree;

/* executors.c */
extern const algo_t algo_allreduce_mapped_by_two, algo_allreduce_staged_by_two,
    algo_allreduce_staged_by_two_push;

/* inorder.c */
extern const algo_t algo_reduce_inorder;

/* leaders.c */
extern const algo_t algo_allreduce_leaders;

/* line.c */
extern const algo_t algo_allreduce_line, algo_reduce_scatter_line, algo_allgather_line,
    algo_broadcast_line, algo_reduce_line;

/* linear.c */
extern const algo_t algo_allreduce_allpairs, algo_reduce_scatter_allpairs, algo_allgather_allpairs,
    algo_alltoall_allpairs, algo_broadcast_linear, algo_gather_linear, algo_scatter_linear,
    algo_reduce_linear, algo_sendrecv_direct, algo_allgatherv_allpairs,
    algo_reduce_scatterv_allpairs, algo_gatherv_linear, algo_scatterv_linear;

/* mapped.c */
extern const algo_t algo_allreduce_oneshot, algo_allreduce_twophase_push,
    algo_allreduce_twophase_pull, algo_reduce_mapped, algo_reduce_scatter_mapped,
    algo_allgather_mapped, algo_allgather_mapped_push, algo_broadcast_mapped,
    algo_broadcast_mapped_shares, algo_broadcast_mapped_push, algo_broadcast_mapped_push_shares,
    algo_gather_mapped, algo_gather_mapped_pull, algo_reduce_mapped_pull, algo_scatter_mapped,
    algo_alltoall_mapped, algo_allgatherv_mapped, algo_reduce_scatterv_mapped;

/* multiring.c */
extern const algo_t algo_allreduce_multiring, algo_reduce_scatter_multiring,
    algo_allgather_multiring, algo_broadcast_multiring;

/* pairwise.c */
extern const algo_t algo_alltoall_pairwise, algo_alltoallv_pairwise;

/* pat.c */
extern const algo_t algo_reduce_scatter_pat, algo_allgather_pat;

/* rabenseifner.c */
extern const algo_t algo_allreduce_rabenseifner;

/* ring.c */
extern const algo_t algo_allreduce_ring, algo_reduce_scatter_ring, algo_allgather_ring,
    algo_allgatherv_ring, algo_reduce_scatterv_ring;

/* split.c */
extern const algo_t algo_broadcast_scatter_allgather, algo_reduce_reduce_scatter_gather;

/* staged.c */
extern const algo_t algo_allreduce_staged, algo_reduce_staged, algo_reduce_scatter_staged,
    algo_allgather_staged, algo_alltoall_staged, algo_broadcast_staged, algo_gather_staged,
    algo_scatter_staged;

/* swing.c */
extern const algo_t algo_allreduce_swing;

/* tree.c */
extern const algo_t algo_allreduce_tree, algo_broadcast_binomial, algo_reduce_binomial,
    algo_gather_binomial, algo_scatter_binomial;

#endif
