"""Training that survives a rank: rank 1 kills itself, torchrun's agent starts all ranks again, and
they go on from the last checkpoint. Run by torchrun with a folder; the result is the same as that
of a run in which no rank dies, for which the second argument is `whole`."""
import os
import signal
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import coll_torch  # noqa: F401  (registers the backend)

STEPS = 6
DIES_AT = 3


def main():
    folder, kind = sys.argv[1], sys.argv[2]
    dist.init_process_group("coll")
    rank, attempt = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    torch.manual_seed(1)
    model = DistributedDataParallel(torch.nn.Linear(20, 20))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    path, step = os.path.join(folder, "checkpoint"), 0
    if os.path.exists(path):
        state = torch.load(path)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
    begin = step
    while step < STEPS:
        if step == DIES_AT and rank == 1 and attempt == 0 and kind == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        x = torch.randn(8, 20, generator=torch.Generator().manual_seed(10 * step + rank))
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        if rank == 0:
            torch.save({"model": model.module.state_dict(), "step": step,
                        "optimizer": optimizer.state_dict()}, path + ".new")
            os.rename(path + ".new", path)
        dist.barrier()
    total = loss.detach().clone()
    dist.all_reduce(total)
    if rank == 0:
        with open(os.path.join(folder, "result"), "w", encoding="utf-8") as file:
            file.write(f"{attempt} {begin} {total.item():.9e}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
