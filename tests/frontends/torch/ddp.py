"""DistributedDataParallel of a small model trains over backend coll as over Gloo: losses are equal
within 1e-6, and with two ranks, whose sums have one order only, parameters too. With more ranks
they need not be: the gradient of a key's bias is zero but for rounding, which AdamW scales to the
size of a step. Run on several ranks (ranks.py)."""
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import coll_torch  # noqa: F401  (registers the backend)

STEPS = 6


class Block(torch.nn.Module):
    """A block of a small GPT."""

    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.attention = torch.nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(),
                                       torch.nn.Linear(4 * width, width))

    def forward(self, x):
        mask = torch.triu(torch.full((x.shape[1], x.shape[1]), float("-inf")), 1)
        y = self.norm1(x)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class Gpt(torch.nn.Module):
    def __init__(self, vocabulary=64, width=32, layers=2, heads=4, length=16):
        super().__init__()
        self.tokens = torch.nn.Embedding(vocabulary, width)
        self.places = torch.nn.Embedding(length, width)
        self.blocks = torch.nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.head = torch.nn.Linear(width, vocabulary)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        return self.head(self.blocks(x))


def train(group, rank):
    torch.manual_seed(1)
    model = DistributedDataParallel(Gpt(), process_group=group, bucket_cap_mb=0.05)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(100 + rank)
    losses = []
    for step in range(STEPS):
        ids = torch.randint(0, 64, (4, 17), generator=generator)
        for part in range(2):
            half = ids[2 * part:2 * part + 2]
            # The first half's gradients stay local.
            context = model.no_sync() if part == 0 else torch.enable_grad()
            with context:
                logits = model(half[:, :-1])
                loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1),
                                                         half[:, 1:].flatten())
                loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, [parameter.detach().clone() for parameter in model.parameters()]


def main():
    dist.init_process_group("coll")
    rank = dist.get_rank()
    gloo = dist.new_group(backend="gloo")
    losses, parameters = train(None, rank)
    expected, theirs = train(gloo, rank)
    worst = max(abs(a - b) for a, b in zip(losses, expected))
    if dist.get_world_size() == 2:
        worst = max([worst] + [(a - b).abs().max().item() for a, b in zip(parameters, theirs)])
    if rank == 0:
        print(f"largest difference to gloo: {worst:.2e}; last loss {losses[-1]:.6f}")
    dist.destroy_process_group()
    sys.exit(worst > 1e-6)


if __name__ == "__main__":
    main()
