"""Reads and writes model files independently of libtrain, with Python's standard library only, to
check gpt convert.

models.py same CHECKPOINT FOLDER LLMC      fails unless all three have bit-identical parameters
models.py rounded CHECKPOINT FOLDER DTYPE  fails unless the folder has the nearest values of the
                                           dtype to the checkpoint's parameters
models.py make FOLDER                      writes a small float16 GPT-2 as transformers would
models.py made CHECKPOINT                  fails unless it contains the model written by `make`
"""
import json
import os
import struct
import sys

BLOCK = [  # name, rows, columns in multiples of the width; a linear layer's rows are its outputs
    ("ln_1.weight", 0, 1), ("ln_1.bias", 0, 1), ("attn.c_attn.weight", 3, 1),
    ("attn.c_attn.bias", 0, 3), ("attn.c_proj.weight", 1, 1), ("attn.c_proj.bias", 0, 1),
    ("ln_2.weight", 0, 1), ("ln_2.bias", 0, 1), ("mlp.c_fc.weight", 4, 1), ("mlp.c_fc.bias", 0, 4),
    ("mlp.c_proj.weight", 1, 4), ("mlp.c_proj.bias", 0, 1)]
CHUNK = 1 << 18  # elements of a tensor that have one digest in a checkpoint
ALL = (1 << 64) - 1

# Names in safetensors, letters of struct for the bits, and bytes of the element types.
TYPES = {"float32": ("F32", "I", 4), "bfloat16": ("BF16", "H", 2), "float16": ("F16", "H", 2)}
# The model that `make` writes.
SIZES = {"vocabulary": 13, "context": 5, "layers": 2, "heads": 2, "width": 6}


def require(condition, sentence):
    if not condition:
        sys.exit("models.py: " + sentence)


def tensors_of(sizes):
    """(name, rows, columns, linear) in the order of the flat space; vectors have 0 rows."""
    width = sizes["width"]
    yield "wte.weight", sizes["vocabulary"], width, False
    yield "wpe.weight", sizes["context"], width, False
    yield "ln_f.weight", 0, width, False
    yield "ln_f.bias", 0, width, False
    for layer in range(sizes["layers"]):
        for name, rows, columns in BLOCK:
            yield "h.%d.%s" % (layer, name), rows * width, columns * width, rows > 0


def transposed(words, rows, columns):
    """Transposes words[rows * columns] to [columns, rows]."""
    return [words[row * columns + column] for column in range(columns) for row in range(rows)]


def digest(words, first):
    """The sum of SplitMix64's outputs for the indices, the words being added to its state."""
    total = 0
    for index, word in enumerate(words, first + 1):
        z = index * 0x9e3779b97f4a7c15 + word & ALL
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 & ALL
        z = (z ^ z >> 27) * 0x94d049bb133111eb & ALL
        total += z ^ z >> 31
    return total & ALL


def read_checkpoint(path):
    """Returns the sizes and the bits of each tensor."""
    with open(path, "rb") as file:
        data = file.read()
    magic, version, arrays, elements, record_bytes, tokenizer_bytes, chunks = struct.unpack_from(
        "<8sIIQQQQ", data)
    require(magic == b"collgpt\0" and version == 4 and arrays in (1, 3), path + ": its header")
    sizes = json.loads(data[48:48 + record_bytes])["model"]
    at = (48 + record_bytes + tokenizer_bytes + 63) // 64 * 64
    words = struct.unpack_from("<%dI" % elements, data, at)
    digests = struct.unpack_from("<%dQ" % chunks, data, at + 4 * arrays * elements)
    tensors, begin, chunk = {}, 0, 0
    for name, rows, columns, _ in tensors_of(sizes):
        end = begin + max(rows, 1) * columns
        tensors[name] = list(words[begin:end])
        for first in range(0, end - begin, CHUNK):
            require(digest(tensors[name][first:first + CHUNK], first) == digests[chunk],
                    "%s: the digest of %s from %d on" % (path, name, first))
            chunk += 1
        begin = end
    require(begin == elements and chunk == chunks,
            "%s has %d elements in %d chunks, not %d in %d"
            % (path, elements, chunks, begin, chunk))
    return sizes, tensors


def read_folder(folder, dtype="float32"):
    name_of_type, letter, size = TYPES[dtype]
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    require(config["model_type"] == "gpt2" and config["architectures"] == ["GPT2LMHeadModel"] and
            config["activation_function"] == "gelu_new" and config["tie_word_embeddings"] is True
            and config["layer_norm_epsilon"] == 1e-5 and config["n_ctx"] == config["n_positions"]
            and config["torch_dtype"] == dtype,
            "config.json: %s" % config)
    sizes = {"vocabulary": config["vocab_size"], "context": config["n_positions"],
             "layers": config["n_layer"], "heads": config["n_head"], "width": config["n_embd"]}
    with open(os.path.join(folder, "model.safetensors"), "rb") as file:
        data = file.read()
    length, = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    require(header.pop("__metadata__") == {"format": "pt"} and length % 8 == 0, "its metadata")
    tensors, total = {}, 0
    for name, rows, columns, linear in tensors_of(sizes):
        entry = header.pop(name)
        shape = [columns] if rows == 0 else [columns, rows] if linear else [rows, columns]
        require(entry["dtype"] == name_of_type and entry["shape"] == shape,
                "%s: %s" % (name, entry))
        begin, end = entry["data_offsets"]
        words = struct.unpack_from("<%d%s" % ((end - begin) // size, letter), data,
                                   8 + length + begin)
        tensors[name] = transposed(words, columns, rows) if linear else list(words)
        total += end - begin
    require(not header and len(data) == 8 + length + total, "more than a GPT-2: %s" % list(header))
    return sizes, tensors


def read_llmc(path):
    with open(path, "rb") as file:
        data = file.read()
    header = struct.unpack_from("<256i", data)
    require(header[:2] == (20240326, 3) and not any(header[8:]), path + ": its header")
    sizes = dict(zip(("context", "vocabulary", "layers", "heads", "width"), header[2:7]))
    padded, width, at = header[7], sizes["width"], 1024
    require(padded == (sizes["vocabulary"] + 127) // 128 * 128, "padded to %d" % padded)
    order = ["wte.weight", "wpe.weight"]
    order += ["h.%d.%s" % (layer, name) for name, _, _ in BLOCK for layer in range(sizes["layers"])]
    order += ["ln_f.weight", "ln_f.bias"]
    counts = {name: max(rows, 1) * columns for name, rows, columns, _ in tensors_of(sizes)}
    tensors = {}
    for name in order:
        tensors[name] = list(struct.unpack_from("<%dI" % counts[name], data, at))
        at += 4 * counts[name]
        if name == "wte.weight":
            padding = 4 * (padded * width - counts[name])
            require(not any(data[at:at + padding]), "padding that is not 0")
            at += padding
    require(at == len(data), "%s has %d bytes, not %d" % (path, len(data), at))
    return sizes, tensors


def same(checkpoint, folder, llmc):
    sizes, tensors = read_checkpoint(checkpoint)
    require(len(set(tensors["wte.weight"])) > 100, "a model with nothing in it")
    for other_sizes, other in (read_folder(folder), read_llmc(llmc)):
        require(sizes == other_sizes, "sizes %s and %s" % (sizes, other_sizes))
        for name, words in tensors.items():
            require(words == other[name], name + " differs")


def nearest(word, dtype):
    """The bits of the value of the narrow type nearest to the float32, ties to even."""
    if dtype == "float16":
        value, = struct.unpack("<f", struct.pack("<I", word))
        return struct.unpack("<H", struct.pack("<e", value))[0]
    upper, lower = word >> 16, word & 0xffff
    return upper + (lower > 0x8000 or (lower == 0x8000 and upper % 2 == 1))


def rounded(checkpoint, folder, dtype):
    sizes, tensors = read_checkpoint(checkpoint)
    other_sizes, other = read_folder(folder, dtype)
    require(sizes == other_sizes, "sizes %s and %s" % (sizes, other_sizes))
    for name, words in tensors.items():
        require([nearest(word, dtype) for word in words] == other[name], name + " differs")


def number(name, index):
    """An element of the model that `make` writes; exact in float16."""
    return (index * 37 + len(name) * 11) % 1024 / 64 - 7


def make(folder):
    os.mkdir(folder)
    header, data = {}, b""
    for name, rows, columns, linear in reversed(list(tensors_of(SIZES))):
        values = [number(name, i) for i in range(max(rows, 1) * columns)]
        shape = [columns] if rows == 0 else [columns, rows] if linear else [rows, columns]
        if linear:
            values = transposed(values, rows, columns)
        begin = len(data)
        data += struct.pack("<%de" % len(values), *values)
        header["transformer." + name] = {"dtype": "F16", "shape": shape,
                                         "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    config = {"model_type": "gpt2", "n_embd": SIZES["width"], "n_head": SIZES["heads"],
              "n_layer": SIZES["layers"], "n_positions": SIZES["context"],
              "vocab_size": SIZES["vocabulary"]}
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)


def made(checkpoint):
    sizes, tensors = read_checkpoint(checkpoint)
    require(sizes == SIZES, "sizes %s" % sizes)
    for name, words in tensors.items():
        expected = [number(name, i) for i in range(len(words))]
        require(words == list(struct.unpack("<%dI" % len(words),
                                            struct.pack("<%df" % len(words), *expected))),
                name + " differs")


if __name__ == "__main__":
    {"same": same, "rounded": rounded, "make": make, "made": made}[sys.argv[1]](*sys.argv[2:])
