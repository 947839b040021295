"""Sends and receives that pass each other. Run on several ranks (ranks.py)."""
import time

import torch
import torch.distributed as dist

import coll_torch  # noqa: F401  (registers the backend)

LARGE = 1 << 19


def cross(rank, size):
    """All ranks send before any receives."""
    right, left = (rank + 1) % size, (rank - 1) % size
    for count in (0, 1, 1000, LARGE):
        got = torch.empty(count)
        works = [dist.isend(torch.full((count,), float(rank)), right), dist.irecv(got, left)]
        for work in works:
            work.wait()
        assert (got == left).all()
        ops = [dist.P2POp(dist.isend, torch.full((count,), float(rank)), left),
               dist.P2POp(dist.irecv, got, right)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        assert (got == right).all()


def tags(rank, size):
    """Messages are received in another order than that in which they were sent."""
    if rank == 0:
        works = [dist.isend(torch.full((1000,), float(tag)), 1, tag=tag) for tag in (5, 3, 4)]
        for work in works:
            work.wait()
    elif rank == 1:
        for tag in (4, 3, 5):
            got = torch.empty(1000)
            dist.recv(got, 0, tag=tag)
            assert (got == tag).all(), (tag, got)


def around_collectives(rank, size):
    """A collective between the call of a receive and that of its send."""
    got = torch.empty(10)
    if rank == 1:
        work = dist.irecv(got, 0)
    dist.barrier()
    if rank == 0:
        dist.send(torch.ones(10), 1)
    if rank == 1:
        work.wait()
        assert (got == 1).all()


def any_source(rank, size):
    if rank == 0:
        seen = set()
        for _ in range(size - 1):
            got = torch.empty(3)
            source = dist.recv(got)
            assert (got == source).all(), (source, got)
            seen.add(source)
        assert seen == set(range(1, size))
    else:
        dist.send(torch.full((3,), float(rank)), 0)


def order_of_receives(rank, size):
    """Of two receives that fit a message, the one that was called first gets it, also if one of
    them is from any rank."""
    if rank == 0:
        got = [torch.empty(1) for _ in range(4)]
        works = [dist.irecv(got[0]), dist.irecv(got[1], 1), dist.irecv(got[2], 1),
                 dist.irecv(got[3])]
    dist.barrier()
    if rank == 1:
        for i in range(4):
            dist.send(torch.full((1,), float(i)), 0)
    if rank == 0:
        for work in works:
            work.wait()
        assert [each.item() for each in got] == [0, 1, 2, 3], got


def sender_that_leaves(rank, size):
    """A message that was sent before its sender destroyed the group is received after that."""
    for count in (3, 1000):
        group = dist.new_group([0, 1])
        got = torch.empty(count)
        if rank == 0:
            dist.send(got, 1, group=group)  # the first message connects the two
            dist.send(torch.full((count,), 7.), 1, group=group)
            dist.destroy_process_group(group)
        if rank == 1:
            dist.recv(got, 0, group=group)
        dist.barrier()
        if rank == 1:
            dist.recv(got, 0, group=group)
            assert (got == 7).all(), got
            dist.destroy_process_group(group)


def sends_in_callbacks(rank, size):
    """Two ranks send to each other in callbacks of their sends, more than is kept for a receive."""
    if rank > 1:
        return
    peer, done = 1 - rank, []
    got = [torch.empty(LARGE) for _ in range(4)]

    def again(_):
        dist.isend(torch.full((LARGE,), 1.), peer).wait()
        done.append(True)
    receives = [dist.irecv(each, peer) for each in got]
    works = [dist.isend(torch.full((LARGE,), 1.), peer) for _ in range(2)]
    futures = [work.get_future().then(again) for work in works]
    for each in receives + futures:
        each.wait()
    assert len(done) == 2 and all((each == 1).all() for each in got)


def wrong_size(rank, size):
    if rank == 0:
        dist.send(torch.ones(10), 1)
    elif rank == 1:
        try:
            dist.recv(torch.empty(11), 0)
            raise AssertionError("a message of another size was received")
        except RuntimeError as error:
            assert "40 bytes" in str(error) and "rank 0" in str(error), error
    dist.barrier()


def main():
    dist.init_process_group("coll")
    rank, size = dist.get_rank(), dist.get_world_size()
    for part in (cross, tags, around_collectives, any_source, order_of_receives, sender_that_leaves,
                 sends_in_callbacks, wrong_size):
        part(rank, size)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
