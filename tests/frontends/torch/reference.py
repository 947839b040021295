"""Inputs and expected results of collectives, which every rank can compute for all ranks."""
import torch

# float8 is compared with what float32 gives, by values that it represents exactly.
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
COMPLEX = [torch.complex64, torch.complex128]
DTYPES = FLOATS + INTEGERS + COMPLEX + [torch.bool]
UNSIGNED = [getattr(torch, name) for name in ("uint16", "uint32", "uint64") if hasattr(torch, name)]
NARROW = [getattr(torch, name) for name in ("float8_e4m3fn", "float8_e5m2", "complex32")
          if hasattr(torch, name)]
MOVED = DTYPES + NARROW + UNSIGNED


def values(rank, dtype, count):
    """Small whole numbers, so that sums and products over a few ranks are exact in every dtype."""
    numbers = (torch.arange(count) * (rank + 2) + rank) % 3
    if dtype.is_complex:
        return torch.complex(numbers.double(), (numbers - 1).double()).to(dtype)
    return numbers.to(dtype)


def stacked(size, dtype, count):
    return [values(rank, dtype, count) for rank in range(size)]


def reduced(inputs, op):
    """The reduction of a list of tensors; op is a name of torch.distributed.ReduceOp."""
    dtype = inputs[0].dtype
    wide = torch.int64 if not dtype.is_floating_point and not dtype.is_complex else None
    wide = wide or (torch.complex128 if dtype.is_complex else torch.float64)
    tensor = torch.stack([each.to(wide) for each in inputs])
    if op in ("SUM", "AVG"):
        result = tensor.sum(0)
        if op == "AVG":
            exact = dtype.is_floating_point or dtype.is_complex
            result = result / len(inputs) if exact else result // len(inputs)
    elif op == "PRODUCT":
        result = tensor.prod(0)
    elif op == "MIN":
        result = tensor.amin(0)
    elif op == "MAX":
        result = tensor.amax(0)
    else:
        result = tensor[0]
        for each in tensor[1:]:
            result = {"BAND": torch.bitwise_and, "BOR": torch.bitwise_or,
                      "BXOR": torch.bitwise_xor}[op](result, each)
    return result.to(dtype)


def ops_of(dtype):
    ops = ["SUM"]
    if dtype != torch.bool:
        ops += ["AVG"]
    if not dtype.is_complex:
        ops += ["PRODUCT", "MIN", "MAX"]
    if not dtype.is_complex and not dtype.is_floating_point:
        ops += ["BAND", "BOR", "BXOR"]
    return ops


def bytes_of(tensor):
    """In a copy of a bool tensor all bytes are 0 or 1, so one without gaps is not copied."""
    if tensor.stride(-1) != 1:
        tensor = tensor.clone(memory_format=torch.contiguous_format)
    return tensor.view(torch.uint8)


def same(got, wanted, what):
    """Bits may differ for an average, which is rounded once here."""
    assert got.dtype == wanted.dtype and got.shape == wanted.shape, (what, got, wanted)
    if got.dtype in FLOATS + COMPLEX:
        tolerance = 1e-2 if got.element_size() == 2 else 1e-6
        close = torch.allclose(got, wanted, rtol=tolerance)
    else:
        close = torch.equal(bytes_of(got), bytes_of(wanted))
    assert close, f"{what}: {got} instead of {wanted}"
