"""Reads a checkpoint of gpt train (libtrain/files/checkpoint.h): parameters and AdamW's first
moments of each tensor, by Hugging Face's names and in libtrain's shapes, [outputs, inputs]. Digests
are not verified.

From the first moments after the first step follow the gradients of that step, to a rounding error:
m = (1 - beta1) g, where beta1 = 0.9 in float32."""
import array
import collections
import json
import struct
import sys

HEADER = struct.Struct("<8sIIQQQQ")  # train_checkpoint_header_t
MAGIC, VERSION, ARRAYS, ALIGNMENT = b"collgpt\0", 4, 3, 64
MOMENT_SHARE = struct.unpack("f", struct.pack("f", 1 - struct.unpack("f", struct.pack(
    "f", 0.9))[0]))[0]

# model: {"vocabulary": 256 ...}. position: {"step": 1 ...}. parameters, moments: array of floats.
# tensors: {name: (shape, offset in both)}.
Checkpoint = collections.namedtuple("Checkpoint", "model position parameters moments tensors")


def block_shapes(width):
    return {"ln_1.weight": (width,), "ln_1.bias": (width,),
            "attn.c_attn.weight": (3 * width, width), "attn.c_attn.bias": (3 * width,),
            "attn.c_proj.weight": (width, width), "attn.c_proj.bias": (width,),
            "ln_2.weight": (width,), "ln_2.bias": (width,),
            "mlp.c_fc.weight": (4 * width, width), "mlp.c_fc.bias": (4 * width,),
            "mlp.c_proj.weight": (width, 4 * width), "mlp.c_proj.bias": (width,)}


def shapes(model):
    """{name: shape} in the order of the file."""
    width = model["width"]
    found = {"wte.weight": (model["vocabulary"], width), "wpe.weight": (model["context"], width),
             "ln_f.weight": (width,), "ln_f.bias": (width,)}
    for layer in range(model["layers"]):
        for name, shape in block_shapes(width).items():
            found["h.%d.%s" % (layer, name)] = shape
    return found


def count_of(shape):
    return shape[0] * (shape[1] if len(shape) > 1 else 1)


def placed(model):
    offset, found = 0, {}
    for name, shape in shapes(model).items():
        found[name] = (shape, offset)
        offset += count_of(shape)
    return found, offset


def floats(file, count):
    values = array.array("f")
    values.fromfile(file, count)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def read(path):
    """Raises ValueError."""
    with open(path, "rb") as file:
        start = file.read(HEADER.size)
        if len(start) < HEADER.size or start[:8] != MAGIC:
            raise ValueError("%s is no checkpoint" % path)
        _, version, arrays, elements, metadata_bytes, tokenizer_bytes, _ = HEADER.unpack(start)
        if version != VERSION or arrays != ARRAYS:
            raise ValueError("%s is a checkpoint of version %d with %d arrays, not %d with %d" % (
                path, version, arrays, VERSION, ARRAYS))
        metadata = json.loads(file.read(metadata_bytes))
        if "experts" in metadata:
            raise ValueError("%s has experts, which the model in PyTorch lacks" % path)
        tensors, count = placed(metadata["model"])
        if count != elements:
            raise ValueError("%s has %d parameters instead of %d" % (path, elements, count))
        end = HEADER.size + metadata_bytes + tokenizer_bytes
        file.seek((end + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT)
        parameters, moments = floats(file, count), floats(file, count)
    return Checkpoint(metadata["model"], metadata["position"], parameters, moments, tensors)
