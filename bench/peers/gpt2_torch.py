#!/usr/bin/env python3
"""A GPT-2 in PyTorch as a user would write it, the peer of bench/step, with autocast,
scaled_dot_product_attention, clip_grad_norm_ and fused AdamW with libtrain's settings
(parallel/optimizer.h). Releases from 1.13 on work: where the attention or the fused AdamW is
missing, the attention is written out and AdamW is the default one. Where torch.compile or the loss
scaling of fp16 is missing, the exit code is 69 (EX_UNAVAILABLE).

Without --text: takes an untimed step on random tokens, prints a line of JSON that describes the
setup, and answers each line "steps N" on standard input with {"ms": [...]}, until it ends. With
--ddp it is one of the ranks of a launcher, which divide the batch by DistributedDataParallel over
Gloo; rank 0 reads and prints.

With --text: loads --weights and prints {"losses": [...]} of --steps steps on the file's bytes. A
sequence of a step starts where that of bench/step does (step_rank.h)."""
import argparse
import contextlib
import datetime
import functools
import json
import math
import os
import sys
import time

import torch
from torch import distributed as dist
from torch import nn
from torch.nn import functional as F

RATE, BETAS, EPSILON, DECAY, NORM_MAX = 1e-4, (0.9, 0.95), 1e-8, 0.1, 1.0
AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


@functools.lru_cache(1)
def future(length):
    return torch.ones(length, length, dtype=torch.bool).triu(1)


def causal_attention(queries, keys, values):
    if hasattr(F, "scaled_dot_product_attention"):  # from 2.0 on
        return F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    scores = (queries / math.sqrt(queries.shape[-1])) @ keys.transpose(-2, -1)
    return scores.masked_fill(future(scores.shape[-1]), -math.inf).softmax(-1) @ values


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(width, 3 * width),
                                   "c_proj": nn.Linear(width, width)})
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width),
                                  "c_proj": nn.Linear(4 * width, width)})

    def attend(self, x):
        batch, length, width = x.shape
        heads = (part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
                 for part in self.attn["c_attn"](x).split(width, dim=2))
        out = causal_attention(*heads)
        return self.attn["c_proj"](out.transpose(1, 2).reshape(batch, length, width))

    def apply_mlp(self, x):
        return self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](x), approximate="tanh"))

    def forward(self, x):
        x = x + self.attend(self.ln_1(x))
        return x + self.apply_mlp(self.ln_2(x))


class Model(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.wte = nn.Embedding(options.vocabulary, options.width)
        self.wpe = nn.Embedding(options.context, options.width)
        self.h = nn.ModuleList(Block(options.width, options.heads) for _ in range(options.layers))
        self.ln_f = nn.LayerNorm(options.width)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                residual = math.sqrt(2 * options.layers) if name.endswith("c_proj.weight") else 1
                nn.init.normal_(parameter, std=0.02 / residual)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    for name, size in (("vocabulary", 50257), ("context", 1024), ("layers", 12), ("heads", 12),
                       ("width", 768), ("batch", 4), ("length", 64)):
        add("--" + name, type=int, default=size, help="(%d)" % size)
    add("--precision", choices=("float32", "bf16", "fp16", "bf16-pure"), default="float32",
        help="bf16 and fp16: autocast; bf16-pure: everything in bfloat16 (float32)")
    add("--exact-norm", action="store_true", help="compute the norm of gradients in float64")
    add("--compile", action="store_true", help="torch.compile")
    add("--threads", type=int, default=0, help="0: PyTorch's choice (0)")
    add("--ddp", action="store_true", help="be a rank of a launcher, without --text")
    add("--weights", metavar="FILE", help="safetensors with Hugging Face's names")
    add("--text", metavar="FILE", help="train on its bytes")
    add("--steps", type=int, default=20, help="with --text (20)")
    return parser.parse_args()


# ---- weights and tokens --------------------------------------------------------------------------

def read_safetensors(path):
    with open(path, "rb") as file:
        header_bytes = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(header_bytes))
        data = bytearray(file.read())
    header.pop("__metadata__", None)
    return {name: torch.frombuffer(data, dtype=torch.uint8)[slice(*entry["data_offsets"])]
            .clone().view(TYPES[entry["dtype"]]).view(entry["shape"])
            for name, entry in header.items()}


def load_weights(model, path):
    """Hugging Face stores weights of linear layers transposed."""
    stored = read_safetensors(path)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            linear = parameter.dim() == 2 and name.startswith("h.")
            parameter.copy_(stored[name].t() if linear else stored[name])


def random_batch(options):
    generator = torch.Generator().manual_seed(1)
    return torch.randint(options.vocabulary, (2, options.batch, options.length),
                         generator=generator)


def text_batch(options, text, step):
    """step: from 0."""
    starts = len(text) - options.length
    first = step * options.batch
    rows = [((first + i) * options.length) % starts for i in range(options.batch)]
    cut = torch.tensor([list(text[row:row + options.length + 1]) for row in rows])
    return cut[:, :-1].contiguous(), cut[:, 1:].contiguous()


# ---- training ------------------------------------------------------------------------------------

def optimizer_of(model):
    def made(**more):  # a constructor that fails has changed the groups
        groups = [{"params": [p for p in model.parameters() if p.dim() == 2],
                   "weight_decay": DECAY},
                  {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0}]
        return torch.optim.AdamW(groups, lr=RATE, betas=BETAS, eps=EPSILON, **more)
    try:
        return made(fused=True), True
    except (RuntimeError, TypeError):  # releases before 2.4 have none for processors
        return made(), False


def clip(parameters):
    nn.utils.clip_grad_norm_(parameters, NORM_MAX)


def clip_exactly(parameters):
    """clip_grad_norm_ adds up squares in float32, whose sum over 10^8 gradients is 1e-4 off."""
    gradients = [parameter.grad for parameter in parameters]
    norm = math.sqrt(sum(float(gradient.double().square().sum()) for gradient in gradients))
    for gradient in gradients:
        gradient.mul_(min(1.0, NORM_MAX / norm))


class Trainer:
    def __init__(self, options):
        self.model = Model(options)
        if options.weights:
            load_weights(self.model, options.weights)
        if options.precision == "bf16-pure":
            self.model.to(torch.bfloat16)
        self.optimizer, self.fused = optimizer_of(self.model)
        self.run = torch.compile(self.model) if options.compile else self.model
        if options.ddp:
            self.run = nn.parallel.DistributedDataParallel(self.model)
        self.autocast = AUTOCAST.get(options.precision)
        self.clip = clip_exactly if options.exact_norm else clip
        self.scaler = (torch.amp.GradScaler("cpu", init_scale=1024)
                       if options.precision == "fp16" else None)

    def update(self, loss):
        if self.scaler:
            self.scaler.scale(loss).backward()
            self.scaler.unscale_(self.optimizer)
        else:
            loss.backward()
        self.clip(self.model.parameters())
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def step(self, tokens, targets):
        """Returns the loss."""
        context = (torch.autocast("cpu", dtype=self.autocast) if self.autocast
                   else contextlib.nullcontext())
        with context:
            loss = self.run(tokens, targets)
        self.update(loss)
        return loss.item()


def print_line(values):
    print(json.dumps(values), flush=True)


def requests(options):
    """The numbers of steps that standard input asks for; of rank 0 on all ranks."""
    if not options.ddp:
        yield from (int(line.split()[1]) for line in sys.stdin)
        return
    count = torch.ones(1, dtype=torch.long)
    while count.item() > 0:
        if dist.get_rank() == 0:
            count[0] = int((sys.stdin.readline() or "end 0").split()[1])
        dist.broadcast(count, 0)
        if count.item() > 0:
            yield count.item()


def serve(options, trainer):
    batch = random_batch(options)
    trainer.step(*batch)
    prints = not options.ddp or dist.get_rank() == 0
    if prints:
        print_line({"version": torch.__version__, "threads": torch.get_num_threads(),
                    "fused": trainer.fused, "bound": os.environ.get("OMP_PROC_BIND", "")})
    for count in requests(options):
        times = []
        for _ in range(count):
            began = time.perf_counter()
            trainer.step(*batch)
            times.append(1e3 * (time.perf_counter() - began))
        if prints:
            print_line({"ms": times})


def print_losses(options, trainer):
    with open(options.text, "rb") as file:
        text = file.read()
    print_line({"version": torch.__version__,
                "losses": [trainer.step(*text_batch(options, text, step))
                           for step in range(options.steps)]})


def missing(options):
    """What this release lacks, as a sentence; None if it has everything."""
    if options.compile and not hasattr(torch, "compile"):
        return "PyTorch %s has no torch.compile" % torch.__version__
    if options.precision == "fp16" and not hasattr(torch.amp, "GradScaler"):
        return "PyTorch %s has no loss scaling for processors" % torch.__version__
    return None


def main():
    options = parse_arguments()
    lacks = missing(options)
    if lacks:
        print(lacks, file=sys.stderr)
        sys.exit(os.EX_UNAVAILABLE)
    torch.manual_seed(1)
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.ddp:
        # Ranks wait as long as nobody asks for steps.
        dist.init_process_group("gloo", timeout=datetime.timedelta(days=1))
        options.batch //= dist.get_world_size()
    trainer = Trainer(options)
    if options.text:
        print_losses(options, trainer)
    else:
        serve(options, trainer)


if __name__ == "__main__":
    main()
