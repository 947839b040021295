"""Process groups: of some ranks, split from others, made again after their end, and under PyTorch's
own checks; objects. Run on several ranks (ranks.py)."""
import datetime
import time

import torch
import torch.distributed as dist

import coll_torch
from job import store

TORCH = tuple(map(int, coll_torch.built_for.TORCH_VERSION.split(".")[:2]))


def sum_of_ones(group=None):
    tensor = torch.ones(5)
    dist.all_reduce(tensor, group=group)
    return tensor[0].item()


def some_ranks(rank, size):
    members = list(range(size - 1, -1, -2))
    group = dist.new_group(members)
    if rank in members:
        assert sum_of_ones(group) == len(members)
        dist.destroy_process_group(group)
    for _ in range(3):  # one after the other, of the same ranks
        group = dist.new_group(members)
        if rank in members:
            assert sum_of_ones(group) == len(members)


def split(rank, size):
    if TORCH < (2, 10):
        return
    halves = [list(range(size // 2)), list(range(size // 2, size))]
    group = dist.split_group(split_ranks=halves)
    assert dist.get_backend(group) == "coll"
    assert sum_of_ones(group) == len(halves[rank >= size // 2])


def objects(rank, size):
    things = [None] * size
    dist.all_gather_object(things, {"rank": rank})
    assert things == [{"rank": r} for r in range(size)]
    things = [None] * size if rank == 0 else None
    dist.gather_object(str(rank), things, 0)
    assert rank != 0 or things == [str(r) for r in range(size)]
    got = [None]
    dist.scatter_object_list(got, [(r, r) for r in range(size)] if rank == 1 else None, 1)
    assert got == [(rank, rank)]
    things = [{"of": "rank 0"} if rank == 0 else None, rank if rank == 0 else None]
    dist.broadcast_object_list(things, 0)
    assert things == [{"of": "rank 0"}, 0]


def again(rank, size):
    for backend in ("coll", "cpu:coll"):
        dist.destroy_process_group()
        dist.init_process_group(backend, timeout=datetime.timedelta(seconds=60))
        assert sum_of_ones() == size
    # Each call is compared over the ranks first, by a group of Gloo's.
    dist.destroy_process_group()
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    dist.init_process_group("coll")
    assert sum_of_ones() == size
    try:
        dist.all_reduce(torch.ones(3 + rank))
        raise AssertionError("shapes differ")
    except RuntimeError as error:
        assert "mismatch" in str(error), error
    assert sum_of_ones() == size


def barriers_of_later_groups(rank, size):
    """A group of the same name in the same Store does not take what an earlier one left there."""
    for round_number in range(2):
        dist.destroy_process_group()
        dist.init_process_group("coll")
        if rank == 0:
            time.sleep(0.5)  # the others wait
            store().add(f"came {round_number}", 1)
        dist.monitored_barrier()
        assert store().add(f"came {round_number}", 0) == 1, "a rank did not wait for rank 0"


def messages_of_later_groups(rank, size):
    """The same for a message that was never received, whose sender never got its connection."""
    for round_number in range(2):
        dist.destroy_process_group()
        dist.init_process_group("coll", timeout=datetime.timedelta(seconds=20))
        dist.barrier()
        if round_number == 0 and rank == 0:
            dist.isend(torch.ones(3), 1)
            time.sleep(0.5)  # the sender's thread has written its address
            dist.group.WORLD._get_backend(torch.device("cpu")).abort()
        if round_number == 1 and rank == 1:
            got = torch.zeros(3)
            work = dist.irecv(got, 0)
        if round_number == 1:
            dist.barrier()
            time.sleep(0.3)
        if round_number == 1 and rank == 0:
            dist.send(torch.full((3,), 2.), 1)
        if round_number == 1 and rank == 1:
            work.wait()
            assert (got == 2).all(), got


def main():
    dist.init_process_group("coll")
    rank, size = dist.get_rank(), dist.get_world_size()
    parts = [some_ranks, split, objects]
    if TORCH >= (2, 0):  # before, torchrun's Store serves one default group, with Gloo as well
        parts += [barriers_of_later_groups, messages_of_later_groups, again]
    for part in parts:
        part(rank, size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
