/*
 * Dtypes and operations of PyTorch in libcoll's terms.
 */
#include "tensors.hpp"

#include "gpu.hpp"

namespace coll_torch {

namespace {

/* The wire of a dtype that libcoll can reduce; false if there is none. */
bool arithmetic_wire(at::ScalarType type, Wire *wire) {
  switch (type) {
    case at::kBool:
    case at::kByte: *wire = {COLL_UINT8, 1}; return true;
    case at::kChar: *wire = {COLL_INT8, 1}; return true;
    case at::kShort: *wire = {COLL_INT16, 1}; return true;
    case at::kInt: *wire = {COLL_INT32, 1}; return true;
    case at::kLong: *wire = {COLL_INT64, 1}; return true;
    case at::kHalf: *wire = {COLL_FLOAT16, 1}; return true;
    case at::kBFloat16: *wire = {COLL_BFLOAT16, 1}; return true;
    case at::kFloat: *wire = {COLL_FLOAT32, 1}; return true;
    case at::kDouble: *wire = {COLL_FLOAT64, 1}; return true;
    case at::kComplexHalf: *wire = {COLL_FLOAT16, 2}; return true;
    case at::kComplexFloat: *wire = {COLL_FLOAT32, 2}; return true;
    case at::kComplexDouble: *wire = {COLL_FLOAT64, 2}; return true;
#if COLL_TORCH_AT_LEAST(2, 1)
    case at::kFloat8_e4m3fn: *wire = {COLL_FLOAT8_E4M3, 1}; return true;
    case at::kFloat8_e5m2: *wire = {COLL_FLOAT8_E5M2, 1}; return true;
#endif
#if COLL_TORCH_AT_LEAST(2, 3)
    case at::kUInt16: *wire = {COLL_UINT16, 1}; return true;
    case at::kUInt32: *wire = {COLL_UINT32, 1}; return true;
    case at::kUInt64: *wire = {COLL_UINT64, 1}; return true;
#endif
    default: return false;
  }
}

/* On bytes that are 0 or 1, a sum is a logical or and a product a logical and, which keeps them 0
 * or 1. */
coll_op_t op_of_bool(coll_op_t op) {
  if (op == COLL_SUM) return COLL_MAX;
  return op == COLL_PROD ? COLL_MIN : op;
}

coll_op_t op_of(c10d::ReduceOp::RedOpType op, const char *verb) {
  switch (op) {
    case c10d::ReduceOp::SUM: return COLL_SUM;
    case c10d::ReduceOp::AVG: return COLL_AVG;
    case c10d::ReduceOp::PRODUCT: return COLL_PROD;
    case c10d::ReduceOp::MIN: return COLL_MIN;
    case c10d::ReduceOp::MAX: return COLL_MAX;
    case c10d::ReduceOp::BAND: return COLL_BAND;
    case c10d::ReduceOp::BOR: return COLL_BOR;
    case c10d::ReduceOp::BXOR: return COLL_BXOR;
    default:
      TORCH_CHECK(false, "coll: ", verb, " has no operation with the number ", int(op),
                  "; SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR and PREMUL_SUM are possible");
  }
}

bool is_bitwise(coll_op_t op) {
  return op == COLL_BAND || op == COLL_BOR || op == COLL_BXOR;
}

void set_premul(Reduction *reduction, const at::Tensor &tensor, const c10d::ReduceOp &op) {
  at::Tensor factor = premul_factor(op);
  TORCH_CHECK(at::isFloatingType(tensor.scalar_type()),
              "coll: PREMUL_SUM is for floating-point tensors, and this one is of ",
              tensor.scalar_type());
  TORCH_CHECK(factor.defined(),
              "coll: this PREMUL_SUM has no factor; make it by "
              "torch.distributed._make_nccl_premul_sum");
  reduction->is_premul = true;
  reduction->factor = factor.to(tensor.scalar_type()).contiguous();
}

}  // namespace

void require_dense(const at::Tensor &tensor, const char *verb) {
  TORCH_CHECK(tensor.defined(), "coll: a tensor of ", verb, " is undefined");
  TORCH_CHECK(tensor.layout() == at::kStrided, "coll: ", verb, " of a tensor with layout ",
              tensor.layout(), ": only dense tensors can be communicated; use .to_dense() first");
  bool has_gpu = COLL_TORCH_HAS_GPU;
  TORCH_CHECK(tensor.device().is_cpu() || (has_gpu && tensor.device().is_cuda()), "coll: ", verb,
              " of a tensor on ", tensor.device(), ": this backend communicates tensors of the CPU",
              has_gpu ? " and of CUDA" : " (and, from PyTorch 2.10 on, of CUDA)", "; ",
              "init_process_group(backend=\"cpu:coll,cuda:nccl\") gives each kind of device a ",
              "backend");
  TORCH_CHECK(!tensor.is_quantized(), "coll: ", verb, " of a quantized tensor of ",
              tensor.scalar_type(), ": communicate its .int_repr()");
}

c10::Device common_device(const Tensors &inputs, const Tensors &outputs, const char *verb) {
  c10::optional<c10::Device> device;
  for (const Tensors *list : {&inputs, &outputs}) {
    for (const at::Tensor &tensor : *list) {
      if (!device) device = tensor.device();
      TORCH_CHECK(tensor.device() == *device, "coll: ", verb,
                  " of tensors on several devices: ", *device, " and ", tensor.device());
    }
  }
  return device.value_or(c10::Device(c10::kCPU));
}

at::Tensor only_tensor(const Tensors &tensors, const char *verb) {
  TORCH_CHECK(tensors.size() == 1, "coll: ", verb, " takes one tensor per rank, but got ",
              tensors.size());
  require_dense(tensors[0], verb);
  return tensors[0];
}

void require_blocks(const at::Tensor &whole, const at::Tensor &block, int size, const char *verb) {
  TORCH_CHECK(whole.scalar_type() == block.scalar_type(), "coll: ", verb,
              ": input and output differ in dtype: ", whole.scalar_type(), " and ",
              block.scalar_type());
  TORCH_CHECK(whole.numel() == block.numel() * size, "coll: ", verb, " on ", size, " ranks: one of",
              " input and output needs ", size, " times the elements of the other, but they have ",
              whole.numel(), " and ", block.numel());
}

Wire wire_to_move(const at::Tensor &tensor, const char *verb) {
  Wire wire;
  require_dense(tensor, verb);
  if (!arithmetic_wire(tensor.scalar_type(), &wire)) {
    wire = {COLL_UINT8, size_t(tensor.element_size())};
  }
  return wire;
}

Reduction reduction_of(const at::Tensor &tensor, const c10d::ReduceOp &op, const char *verb) {
  Reduction reduction = {{COLL_UINT8, 1}, COLL_SUM, false, at::Tensor()};
  at::ScalarType type = tensor.scalar_type();
  require_dense(tensor, verb);
  TORCH_CHECK(arithmetic_wire(type, &reduction.wire), "coll: ", verb, " cannot compute with ", type,
              " (it can be moved, but not reduced)");
  if (op.op_ == c10d::ReduceOp::PREMUL_SUM) {
    set_premul(&reduction, tensor, op);
    return reduction;
  }
  reduction.op = op_of(op, verb);
  TORCH_CHECK(!is_bitwise(reduction.op) || at::isIntegralType(type, true), "coll: ", verb,
              " with a bitwise operation takes integers, and this tensor is of ", type);
  if (type == at::kBool) {
    TORCH_CHECK(reduction.op != COLL_AVG, "coll: ", verb, " cannot average bool tensors");
    reduction.op = op_of_bool(reduction.op);
  }
  TORCH_CHECK(!at::isComplexType(type) || reduction.op == COLL_SUM || reduction.op == COLL_AVG,
              "coll: ", verb, " of complex tensors can be SUM or AVG only");
  return reduction;
}

at::Tensor staging(const at::Tensor &like, int64_t count) {
  return at::empty({count * like.numel()},
                   like.options().memory_format(at::MemoryFormat::Contiguous));
}

size_t wire_count(const at::Tensor &tensor, const Wire &wire) {
  return size_t(tensor.numel()) * wire.per_element;
}

}  // namespace coll_torch
