"""The first step of gpt train in a layout.

All sequences of the training shard are the batch of one step, so that their shuffled order does not
matter. The learning rate is 0 and no gradient is clipped: the checkpoint after the step holds the
initial parameters, and moments from which the gradients follow (checkpoint.py)."""
import array
import os
import random
import sys

from comparison.contenders import layouts

SHARD_MAGIC, SHARD_VERSION, SHARD_WORDS = 20240520, 1, 256
CLIP_MAX = 1e6  # the largest value of --clip


def write_shard(path, tokens):
    """llm.c's format, which gpt train reads (libtrain/data/shard.h)."""
    header = array.array("i", [SHARD_MAGIC, SHARD_VERSION, len(tokens)])
    header.extend([0] * (SHARD_WORDS - len(header)))
    body = array.array("H", tokens)
    if sys.byteorder == "big":
        header.byteswap()
        body.byteswap()
    with open(path, "wb") as file:
        header.tofile(file)
        body.tofile(file)


def draw_tokens(count, vocabulary, seed):
    """A text in which a token mostly determines the next one."""
    chance, tokens = random.Random(seed), [0]
    while len(tokens) < count:
        tokens.append((7 * tokens[-1] + chance.randrange(3)) % vocabulary
                      if chance.randrange(4) else chance.randrange(vocabulary))
    return tokens


def write_corpus(folder, sizes, batch, seed):
    """Shards with `batch` sequences to train on and one that is held out. Returns the name of the
    former."""
    context, vocabulary = sizes["context"], sizes["vocabulary"]
    path = os.path.join(folder, "train.bin")
    write_shard(path, draw_tokens(batch * context + 1, vocabulary, seed))
    write_shard(os.path.join(folder, "val.bin"), draw_tokens(context + 1, vocabulary, seed + 1))
    return path


def take_step(build, layout, folder, sizes, batch, checkpoint):
    """Raises launch.Failure."""
    options = ["--data", folder, "--batch", str(batch), "--steps", "1", "--lr", "0", "--clip",
               "%g" % CLIP_MAX, "--evals", "1", "--eval-tokens", str(sizes["context"]), "--out",
               checkpoint]
    for name, size in sizes.items():
        options += ["--" + name, str(size)]
    layouts.run(layouts.command(build, layout, options))
