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

# model: {"vocabulary": 256 ..., "untied": False, "experts": None or {"count": 4 ...}}. settings:
# options of gpt train, as text. position: {"step": 1 ...}. parameters, moments: array of floats.
# tensors: {name: (shape, offset in both)}.
Checkpoint = collections.namedtuple("Checkpoint",
                                    "model settings position parameters moments tensors")


def has_experts(model, layer):
    return model["experts"] is not None and (layer + 1) % model["experts"]["moe_every"] == 0


def block_shapes(model, layer):
    width = model["width"]
    found = {"ln_1.weight": (width,), "ln_1.bias": (width,),
             "attn.c_attn.weight": (3 * width, width), "attn.c_attn.bias": (3 * width,),
             "attn.c_proj.weight": (width, width), "attn.c_proj.bias": (width,),
             "ln_2.weight": (width,), "ln_2.bias": (width,)}
    if not has_experts(model, layer) or model["experts"]["shared"]:
        found.update({"mlp.c_fc.weight": (4 * width, width), "mlp.c_fc.bias": (4 * width,),
                      "mlp.c_proj.weight": (width, 4 * width), "mlp.c_proj.bias": (width,)})
    if has_experts(model, layer):
        found["gate.weight"] = (model["experts"]["count"], width)
    return found


def expert_shapes(model):
    """Of all experts of a block: in c_fc.weight, a row is an expert's matrix."""
    width, count = model["width"], model["experts"]["count"]
    return {"experts.c_fc.weight": (count, 4 * width * width),
            "experts.c_fc.bias": (count, 4 * width),
            "experts.c_proj.weight": (count * width, 4 * width),
            "experts.c_proj.bias": (count, width)}


def shapes(model):
    """{name: shape} in the order of the file (libtrain/model/layout.h)."""
    width, layers = model["width"], range(model["layers"])
    found = {"wte.weight": (model["vocabulary"], width), "wpe.weight": (model["context"], width),
             "ln_f.weight": (width,), "ln_f.bias": (width,)}
    if model["untied"]:
        found["lm_head.weight"] = (model["vocabulary"], width)
    blocks = [(layer, block_shapes(model, layer)) for layer in layers]
    blocks += [(layer, expert_shapes(model)) for layer in layers if has_experts(model, layer)]
    for layer, tensors in blocks:
        found.update({"h.%d.%s" % (layer, name): shape for name, shape in tensors.items()})
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
        model = dict(metadata["model"], experts=metadata.get("experts"),
                     untied=metadata.get("untied", False))
        tensors, count = placed(model)
        if count != elements:
            raise ValueError("%s has %d parameters instead of %d" % (path, elements, count))
        end = HEADER.size + metadata_bytes + tokenizer_bytes
        file.seek((end + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT)
        parameters, moments = floats(file, count), floats(file, count)
    return Checkpoint(model, metadata["settings"], metadata["position"], parameters, moments,
                      tensors)
