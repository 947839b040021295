"""tools/gpu-build: what it reads from compilers that claim what they are told to, and, where nvcc
is installed, kernels for sm_90. Prints TAP.

    test_gpu_build.py SOURCE-FOLDER
"""
import importlib.machinery
import importlib.util
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

SOURCE = sys.argv.pop(1)
sys.path.insert(0, os.path.join(SOURCE, "tests", "bench"))
import tap  # noqa: E402

TOOL = os.path.join(SOURCE, "tools", "gpu-build")
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("gpu_build", TOOL)
build = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_build", loader))
loader.exec_module(build)

PTXAS = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'gpu_run_float32_sum' for 'sm_90'
ptxas info    : Function properties for gpu_run_float32_sum
    48 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used MANY registers, used 1 barrier, 48 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compile time = 1.0 ms
ptxas info    : Function properties for _Z8gpu_copyPcPKcm
    0 bytes stack frame, SPILLED bytes spill stores, 8 bytes spill loads
"""
CODE = """.section .text.gpu_run_float32_sum,"ax",@progbits
        .type           gpu_run_float32_sum,@function
        .type           $gpu_run_float32_sum$_Z8gpu_copyPcPKcm,@function
        .type           $gpu_run_float32_sum$_Z15gpu_float32_sumPcPKPKcim,@function
.text.gpu_run_float32_sum:
gpu_run_float32_sum:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_9:
        /*0010*/                   LDG.E.128 R4, desc[UR4][R16.64] ;
        /*0020*/                   EXIT ;
        .type           after,@object
$gpu_run_float32_sum$_Z8gpu_copyPcPKcm:
        /*0030*/                   LD.E R3, [R2.64] ;
.L_x_1:
        /*0040*/                   LDG.E.128.STRONG.SYS R4, desc[UR4][R16.64] ;
        /*0050*/                   LD.E.U8 R8, desc[UR4][R16.64+0x128] ;
        /*0060*/                   STORE R4 ;
        /*0070*/              @!P0 BRA `(.L_x_1) ;
$gpu_run_float32_sum$_Z15gpu_float32_sumPcPKPKcim:
.L_x_2:
        /*0080*/                   LD.E.128 R4, desc[UR4][R16.64] ;
        /*0090*/                   ST.E.128 desc[UR4][R2.64], R4 ;
        /*00a0*/                   BRA P1, `(.L_x_2) ;
        /*00b0*/                   BRA `(.L_x_3) ;
.L_x_3:
        /*00c0*/                   RET.REL.NODEC R4 `(gpu_run_float32_sum) ;
"""
NVCC = """#!/bin/sh
case "$*" in
  --list-gpu-arch) printf 'compute_75\\ncompute_90\\n'; exit 0 ;;
  --version) echo 'Cuda compilation tools, release 99.1, V99.1.2'; exit 0 ;;
esac
for last; do :; done
case "$BROKEN$*" in
  1*_75*) echo 'kernel.cu(1): warning #1: odd' >&2; exit 1 ;;
esac
[ "$last" = /dev/null ] || cp "$FAKES/cubin" "$last"
cat "$FAKES/ptxas" >&2
"""


def elf(name, size):
    """An ELF file with one section of that name and size."""
    names = b"\0" + name.encode() + b"\0"
    head = bytearray(64)
    head[0:5] = b"\x7fELF\x02"
    struct.pack_into("<Q", head, 0x28, 64)
    struct.pack_into("<HHH", head, 0x3A, 64, 2, 1)
    text = struct.pack("<IIQQQQIIQQ", 1, 1, 0, 0, 0, size, 0, 0, 0, 0)
    strings = struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 64 + 128, len(names), 0, 0, 0, 0)
    return bytes(head) + text + strings + names


class Fakes(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        os.chmod(path, mode)
        return path

    def run_tool(self, registers="90", spilled="0", stack="48", store="STG.E.128 R4", broken="",
                 words=()):
        self.write("cubin", elf(".text.gpu_run_float32_sum", 4096))
        said = PTXAS.replace("SPILLED", spilled).replace("MANY", registers)
        self.write("ptxas", said.replace("48 bytes stack", stack + " bytes stack"))
        code = self.write("code", CODE.replace("STORE R4", store))
        nvcc = self.write("nvcc", NVCC, 0o755)
        nvdisasm = self.write("nvdisasm", "#!/bin/sh\ncat '%s'\n" % code, 0o755)
        self.output = os.path.join(self.folder, "results", "gpu")
        environment = dict(os.environ, FAKES=self.folder, BROKEN=broken)
        return subprocess.run([TOOL, "--nvcc", nvcc, "--nvdisasm", nvdisasm, "--output",
                               self.output, *words], capture_output=True, text=True,
                              env=environment, timeout=60)

    def test_a_table(self):
        result = self.run_tool()
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = [line.split() for line in result.stdout.splitlines()]
        self.assertIn("sm_75 gpu_run, 28 90 0 8 48 1024 114688".split(), rows)
        self.assertEqual(rows.count("gpu_run_float32_sum 90 0 8 48 1024 4096".split()), 28)
        self.assertIn("gpu_copy", result.stdout)
        with open(self.output + ".txt") as file:
            self.assertEqual(file.read(), result.stdout)
        self.assertTrue(os.path.exists(self.output + ".json"))

    def test_spills_fail(self):
        result = self.run_tool(spilled="16")
        self.assertEqual(result.returncode, 1)
        self.assertIn("gpu_run_float32_sum on sm_90: spills 16 bytes", result.stderr)
        self.assertIn("gpu_run_float32_sum on sm_90: gpu_copy spills 16 bytes", result.stdout)
        self.assertNotIn("sm_75: spills", result.stderr)
        self.assertFalse(os.path.exists(self.output + ".txt"))

    def test_a_large_stack_fails(self):
        result = self.run_tool(stack="640")
        self.assertEqual(result.returncode, 1)
        self.assertIn("gpu_run_float32_sum on sm_90: has 640 bytes of stack, more than 512",
                      result.stderr)
        self.assertNotIn("sm_75: has", result.stderr)
        self.assertFalse(os.path.exists(self.output + ".txt"))

    def test_many_registers_fail(self):
        result = self.run_tool(registers="97")
        self.assertEqual(result.returncode, 1)
        self.assertIn("gpu_run_float32_sum on sm_90: has 97 registers, more than 96",
                      result.stderr)
        self.assertNotIn("sm_75: has", result.stderr)

    def test_narrow_stores_fail(self):
        result = self.run_tool(store="STG.E.64 R4")
        self.assertEqual(result.returncode, 1)
        self.assertIn("gpu_copy has no loop of 128-bit loads and stores", result.stderr)
        self.assertNotIn("gpu_float32_sum has", result.stderr)

    def test_a_warning_fails(self):
        result = self.run_tool(broken="1")
        self.assertEqual(result.returncode, 1)
        self.assertIn("float32_sum for sm_75: kernel.cu(1): warning #1: odd", result.stderr)

    def test_the_front_end_alone(self):
        result = self.run_tool(words=["--ptx", "--arch", "90"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("28 kernels for compute_90: no warnings", result.stdout)
        result = self.run_tool(broken="1", words=["--ptx"])
        self.assertEqual(result.returncode, 1)
        self.assertIn("warning #1: odd", result.stderr)

    def test_an_architecture_that_is_unknown(self):
        result = self.run_tool(words=["--arch", "60"])
        self.assertEqual(result.returncode, 2)
        self.assertIn("this nvcc has 75, 90", result.stderr)

    def test_units(self):
        result = self.run_tool(words=["--units", "float32_sum,int8_other"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("gpu_run, 2 ", result.stdout)
        result = self.run_tool(words=["--units", "float32_min"])
        self.assertEqual(result.returncode, 2)
        self.assertIn("--units float32_min: there are int8_sum, int8_other,", result.stderr)

    def test_no_compiler(self):
        result = subprocess.run([TOOL, "--nvcc", "/nonexistent"], capture_output=True, text=True,
                                timeout=60)
        self.assertEqual(result.returncode, 2)
        self.assertIn("nvcc is not installed", result.stderr)

    def test_loops(self):
        functions = {build.plain_name(function.name): function
                     for function in build.parse_code(CODE.replace("STORE", "STG.E.128"))}
        self.assertEqual(sorted(functions), ["gpu_copy", "gpu_float32_sum", "gpu_run_float32_sum"])
        self.assertEqual(functions["gpu_copy"].count(build.LOAD), (1, 1))
        self.assertEqual(functions["gpu_copy"].count(build.STORE), (1, 0))
        self.assertFalse(functions["gpu_run_float32_sum"].has_wide_loop())
        self.assertEqual(len(functions["gpu_float32_sum"].loops), 1)

    def test_lines(self):
        store = build.parse_code(CODE.replace("STORE", "STG.E.64"))
        put = {build.plain_name(function.name): function for function in store}["gpu_copy"]
        self.assertTrue(put.has_wide_loop(build.LINES["gpu_ll128_take"]))
        self.assertFalse(put.has_wide_loop(build.LINES["gpu_ll128_put"]))
        for name in build.LINES:
            self.assertTrue(build.MOVES.fullmatch(name))

    def test_names(self):
        for symbol in ("_Z8gpu_copyPcPKcm", "$gpu_run_float32_sum$_Z8gpu_copyPcPKcm",
                       "_ZN51_INTERNAL_1234ab_9_kernel_cu_1a2b3c458gpu_copyEPcPKcm"):
            self.assertEqual(build.plain_name(symbol), "gpu_copy")


class Sources(unittest.TestCase):
    def read(self, name):
        with open(os.path.join(SOURCE, "libcoll", "device", "cuda", name)) as file:
            return file.read()

    def test_flags_and_dtypes_are_those_of_the_build(self):
        text = self.read("meson.build")
        for name in build.FLAGS + build.DTYPES:
            self.assertIn("'%s'" % name, text)

    def test_dtypes_are_those_of_the_kernels(self):
        found = re.findall(r"X\((\w+), COLL_", self.read("dtypes.h"))
        self.assertEqual(sorted(found), sorted(build.DTYPES))

    def test_registers_are_those_that_kernels_are_compiled_with(self):
        self.assertIn("#define GPU_REGISTERS_MAX %d " % build.REGISTERS_MAX, self.read("gpu.h"))


class Compiler(unittest.TestCase):
    """On sm_90: registers, spills and stack, and machine code where nvdisasm is. Those that need
    most, unless COLL_TEST_FULL is set."""

    def test_kernels_for_sm_90(self):
        if not build.find_program("nvcc"):
            self.skipTest("nvcc is not installed")
        full = os.environ.get("COLL_TEST_FULL") is not None
        words = [] if full else ["--units", "float32_sum,float16_other,float8_e4m3_other,int8_sum"]
        result = subprocess.run([TOOL, "--arch", "90", *words], capture_output=True, text=True,
                                timeout=880)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("gpu_run, %d " % (len(build.UNITS) if full else 4), result.stdout)


tap.run()
