"""A sum of two ranks over backend coll. Prints "works"."""
import sys

import torch
import torch.distributed as dist

import coll_torch  # noqa: F401  (registers the backend)

dist.init_process_group("coll", init_method="file:///tmp/store", rank=int(sys.argv[1]),
                        world_size=2)
x = torch.ones(3)
dist.all_reduce(x)
assert x.tolist() == [2, 2, 2]
dist.destroy_process_group()
if sys.argv[1] == "1":
    print("works")
