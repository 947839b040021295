"""What the backend refuses before anything is sent, and with which words. Calls that
torch.distributed's functions check themselves go to the backend directly. Run on two ranks
(ranks.py)."""
import os

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

import coll_torch
from failures import expect
from job import cpu_backend

ones, empty, f64 = torch.ones, torch.empty, torch.float64


def of_tensors(direct, peer):
    """Kinds of tensors."""
    options = dist.BroadcastOptions()
    expect(["Sparse"], lambda: dist.all_reduce(torch.eye(3).to_sparse()))
    expect(["Sparse"], lambda: direct.broadcast([torch.eye(3).to_sparse()], options))
    expect(["Sparse"], lambda: direct.send([torch.eye(3).to_sparse()], peer, 0))
    expect(["meta"], lambda: direct.allreduce([ones(3, device="meta")]))
    expect(["quantized"], lambda: direct.broadcast(
        [torch.quantize_per_tensor(ones(3), 0.1, 0, torch.quint8)], options))
    expect(["one tensor per rank", "got 2"], lambda: direct.broadcast([ones(3), ones(3)], options))
    expect(["one tensor per rank", "got 2"], lambda: direct.send([ones(3), ones(3)], peer, 0))


def of_ops(direct, peer):
    expect(["complex"], lambda: dist.all_reduce(ones(3, dtype=torch.complex64), dist.ReduceOp.MAX))
    expect(["bitwise"], lambda: dist.all_reduce(ones(3), dist.ReduceOp.BAND))
    expect(["average bool"], lambda: dist.all_reduce(ones(3) == 1, dist.ReduceOp.AVG))
    expect(["PREMUL_SUM is for floating-point", "Int"], lambda: dist.all_reduce(
        ones(3, dtype=torch.int32), dist._make_nccl_premul_sum(2.)))
    if hasattr(torch, "float8_e4m3fnuz"):
        expect(["cannot compute with Float8_e4m3fnuz"],
               lambda: dist.all_reduce(ones(3).to(torch.float8_e4m3fnuz)))


def of_roots(direct, peer):
    for root in (7, -1):
        words = [f"no rank {root} in a group of 2"]
        for verb, kind, arguments in (
                (direct.broadcast, c10d.BroadcastOptions, ([ones(3)],)),
                (direct.reduce, c10d.ReduceOptions, ([ones(3)],)),
                (direct.gather, c10d.GatherOptions, ([], [ones(3)])),
                (direct.scatter, c10d.ScatterOptions, ([ones(3)], []))):
            options = kind()
            options.rootRank = root
            expect(words, lambda: verb(*arguments, options))
    expect(["no rank 7"], lambda: direct.send([ones(3)], 7, 0))
    expect(["no rank 7"], lambda: direct.recv([ones(3)], 7, 0))
    # At the root there is no list, and elsewhere there is one: rank 0 is the root.
    words, lists = (["only"], [[ones(3), ones(3)]]) if peer == 0 else (["one list"], [])
    expect(["gather", *words], lambda: direct.gather(lists, [ones(3)], c10d.GatherOptions()))
    expect(["scatter", *words], lambda: direct.scatter([ones(3)], lists, c10d.ScatterOptions()))


def of_lists(direct, peer):
    """A tensor of each rank."""
    def gathers(words, *lists):
        expect(["allgather", *words],
               lambda: direct.allgather(list(lists), [ones(3)], c10d.AllgatherOptions()))
    gathers(["each of the 2 ranks", "got 1"], [empty(3)])
    gathers(["tensor 1", "Double"], [empty(3), empty(3, dtype=f64)])
    gathers(["tensor 1", "2 elements"], [empty(3), empty(2)])
    gathers(["one list"], [empty(3), empty(3)], [empty(3), empty(3)])
    expect(["reduce_scatter", "one list"], lambda: direct.reduce_scatter(
        [empty(3)], [[ones(3), ones(3)]] * 2, c10d.ReduceScatterOptions()))
    expect(["reduce_scatter", "tensor 0", "4 elements"], lambda: direct.reduce_scatter(
        [empty(3)], [[ones(4), ones(3)]], c10d.ReduceScatterOptions()))


def of_wholes(direct, peer):
    """One tensor with a block of each rank."""
    expect(["input", "output", "2 and 3"],
           lambda: dist.all_gather_into_tensor(empty(2), ones(3)))
    expect(["differ in dtype"], lambda: direct._allgather_base(empty(6, dtype=f64), ones(3)))
    expect(["differ in dtype"], lambda: direct._reduce_scatter_base(
        empty(3, dtype=f64), ones(6), c10d.ReduceScatterOptions()))
    expect(["input", "output", "7 and 3"], lambda: direct._reduce_scatter_base(
        empty(3), ones(7), c10d.ReduceScatterOptions()))


def of_coalesced(direct, peer):
    expect(["at least one tensor"], lambda: direct.allreduce_coalesced(
        [], c10d.AllreduceCoalescedOptions()))
    if not hasattr(direct, "allgather_into_tensor_coalesced"):
        return
    expect(["as many outputs as inputs"], lambda: direct.allgather_into_tensor_coalesced(
        [empty(6)] * 2, [ones(3)]))
    expect(["input", "output", "5 and 3"], lambda: direct.allgather_into_tensor_coalesced(
        [empty(5)], [ones(3)]))
    expect(["as many outputs as inputs"], lambda: direct.reduce_scatter_tensor_coalesced(
        [], [], c10d.ReduceScatterOptions()))


def of_exchanges(direct, peer):
    expect(["add up to 3"], lambda: dist.all_to_all_single(ones(4), ones(4), [1, 2], [1, 2]))

    def base(words, output, source, *splits):
        expect(words, lambda: direct.alltoall_base(output, source, *(splits or ([], [])),
                                                   c10d.AllToAllOptions()))
    base(["3 splits of the input", "2 ranks"], empty(4), ones(4), [2, 2], [1, 2, 1])
    base(["split of the output is negative: -1"], empty(4), ones(4), [5, -1], [2, 2])
    base(["first dimension of the input (3)", "multiple"], empty(4), ones(3))
    base(["differ in size"], empty(4), ones(2, 3))
    base(["differ in dtype"], empty(4, dtype=f64), ones(4))

    def lists(words, outputs, inputs):
        expect(["alltoall", *words], lambda: direct.alltoall(outputs, inputs,
                                                             c10d.AllToAllOptions()))
    lists(["each of the 2 ranks", "got 1"], [empty(3)], [ones(3), ones(3)])
    lists(["Double"], [empty(3), empty(3, dtype=f64)], [ones(3), ones(3)])
    lists(["for each rank"], [], [])


def of_the_package(direct, peer):
    group = dist.new_group(backend="gloo")
    expect(["not one of backend coll"], lambda: coll_torch.dump(group))
    expect(["torch.dtype"], lambda: coll_torch.empty(3, dtype="float32"))


def main():
    dist.init_process_group("coll")
    peer = 1 - dist.get_rank()
    for part in (of_tensors, of_ops, of_roots, of_lists, of_wholes, of_coalesced, of_exchanges,
                 of_the_package):
        part(cpu_backend(), peer)
        tensor = ones(3)
        dist.all_reduce(tensor)
        assert (tensor == 2).all()
    os._exit(0)  # Gloo's group would wait for the other rank


if __name__ == "__main__":
    main()
