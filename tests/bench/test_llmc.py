"""llm.c as a peer in bench/train-compare, with a program that behaves like its train_gpt2: compiled
for a batch and a length, it checks its files, prints what llm.c prints, and runs a fixed number of
steps. Prints TAP.

    test_llmc.py BENCH-FOLDER BUILD-FOLDER
"""
import os
import subprocess
import sys
import tempfile
import time
import unittest

import tap

BENCH, BUILD = sys.argv.pop(1), sys.argv.pop(1)
sys.path.insert(0, BENCH)
from comparison import launch  # noqa: E402
from comparison.commands import train_compare  # noqa: E402
from comparison.contenders import llmc, trainers, trainings  # noqa: E402

# A step takes MS, or a quarter with bound threads. Like C programs, it writes line by line to a
# terminal only.
LIKE_LLMC = """#!%(python)s
import os, struct, sys, time
BATCH, LENGTH, STEPS, MS = %(batch)d, %(length)d, %(steps)d, %(ms)d
open("starts", "a").write("x")
def words(path, code, first):
    with open(path, "rb") as file:
        header, data = struct.unpack("256i", file.read(1024)), file.read()
    if header[:len(first)] != first:
        print("Bad magic model file")
        sys.exit(1)
    return header, struct.unpack(code %% (len(data) // struct.calcsize(code %% 1)), data)
header, values = words("gpt2_124M.bin", "%%df", (20240326, 3))
context, vocabulary, layers, heads, channels, padded = header[2:8]
assert len(values) == (padded + context + 2) * channels + layers * (
    12 * channels * channels + 13 * channels) and min(values) < 0 < max(values)
for split in "train", "val":
    path = "dev/data/tinyshakespeare/tiny_shakespeare_%%s.bin" %% split
    shard, tokens = words(path, "%%dH", (20240520, 1))
    assert len(tokens) == shard[2] > BATCH * LENGTH and max(tokens) < vocabulary
tokenizer, tokens = words("gpt2_tokenizer.bin", "%%dB", (20240328, 2, vocabulary))
assert tokenizer[3] < vocabulary and len(tokens) == 2 * vocabulary
positions = BATCH * LENGTH
inside = [1, 0, 0, 3, 1, 0, 0, 1, 1, 1, 0, 0, 4, 4, 1, 1]
activations = 2 * positions * (channels + padded) + 3 * positions + layers * (
    positions * channels * sum(inside) + 4 * positions + 2 * BATCH * heads * LENGTH * LENGTH)
print("[GPT-2]\\nmax_seq_len: %%d\\nvocab_size: %%d\\npadded_vocab_size: %%d\\nnum_layers: %%d\\n"
      "num_heads: %%d\\nchannels: %%d\\nnum_parameters: %%d" %% (
          context, vocabulary, padded, layers, heads, channels, len(values)))
print("train dataset num_batches: %%d\\nval dataset num_batches: %%d\\nnum_activations: %%d" %% (
    shard[2] // positions, shard[2] // positions, activations))
for step in range(STEPS):
    if step %% 10 == 0:
        print("val loss 5.0")
    began = time.monotonic()
    time.sleep(MS * 1e-3 / (4 if os.environ["OMP_PROC_BIND"] == "true" else 1))
    print("step %%d: train loss 5.0 (took %%f ms)" %% (step, 1e3 * (time.monotonic() - began)))
"""


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def make(self, steps=41, ms=20, batch=2, length=16):
        path = os.path.join(self.folder, llmc.PROGRAM)
        with open(path, "w", encoding="utf-8") as file:
            file.write(LIKE_LLMC % {"python": sys.executable, "batch": batch, "length": length,
                                    "steps": steps, "ms": ms})
        os.chmod(path, 0o755)
        return llmc.Program(self.folder, BUILD)

    def start(self, **how):
        program = self.make(**how)
        llmc.write_inputs(self.folder, BUILD, "tiny", 16)
        peer = llmc.Peer(program.path, self.folder, 1, False)
        self.addCleanup(peer.close)
        return peer

    def starts(self):
        return os.path.getsize(os.path.join(self.folder, "starts"))


class Output(unittest.TestCase):
    def test_times_of_steps(self):
        self.assertEqual(llmc.step_times("step 0: loss 5.1 (took 12.5 ms)\nval 3\nstep: 7 ms"),
                         [12.5, 7])

    def test_batch_and_length_of_gpt2(self):
        """num_activations as llm.c prints it for 124 M parameters, batch 4 and length 64."""
        sizes = {llmc.CHANNELS: 768, llmc.LAYERS: 12, llmc.HEADS: 12, llmc.VOCABULARY: 50304,
                 llmc.ACTIVATIONS: 73347840, llmc.BATCHES: llmc.TOKENS // 256}
        self.assertEqual(llmc.shape_of(sizes), (4, 64))
        sizes[llmc.ACTIVATIONS] += 1
        with self.assertRaisesRegex(launch.Failure, "73347841 activations"):
            llmc.shape_of(sizes)


class Steps(Case):
    def state(self, peer):
        with open("/proc/%d/stat" % peer.run.process.pid, encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0]

    def test_no_step_counts_that_was_interrupted(self):
        peer = self.start()
        for pause_s in (5, 0):
            self.assertEqual(self.state(peer), "T")
            time.sleep(pause_s)
            times = peer.steps(2)
            self.assertEqual(len(times), 2)
            self.assertLess(max(times), 5000)  # of 20 ms each
        self.assertEqual(self.starts(), 1)

    def test_it_is_started_again_after_its_last_step(self):
        peer = self.start(steps=4)
        self.assertEqual(len(peer.steps(7)), 7)
        self.assertGreaterEqual(self.starts(), 3)
        self.assertEqual(len(peer.steps(1)), 1)

    def test_two_steps_suffice(self):
        self.assertEqual(len(self.start(steps=2).steps(3)), 3)

    def test_a_single_step_is_a_failure(self):
        with self.assertRaisesRegex(launch.Failure, "ended after one step"):
            self.start(steps=1).steps(1)
        with self.assertRaisesRegex(launch.Failure, "ended without a step"):
            self.start(steps=0)

    def test_its_own_message_is_shown(self):
        program = self.make()
        llmc.write_inputs(self.folder, BUILD, "tiny", 16)
        with open(os.path.join(self.folder, "gpt2_124M.bin"), "r+b") as file:
            file.write(b"none")
        with self.assertRaisesRegex(launch.Failure, "exit code 1: Bad magic model file"):
            llmc.Peer(program.path, self.folder, 1, False)

    def test_it_ends_with_the_program_that_stopped_it(self):
        self.start().close()
        code = ("import os, sys; sys.path.insert(0, %r); from comparison.contenders import llmc\n"
                "peer = llmc.Peer(%r, %r, 1, False)\n"
                "print(peer.run.process.pid, flush=True); os._exit(0)" % (
                    BENCH, os.path.join(self.folder, llmc.PROGRAM), self.folder))
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
        path, deadline = "/proc/%d" % int(done.stdout), time.monotonic() + 20
        while self.runs(path) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertFalse(self.runs(path))

    def runs(self, path):
        """A process without a parent that waits for it may stay as a zombie."""
        try:
            with open(path + "/stat", encoding="ascii") as file:
                return file.read().rpartition(")")[2].split()[0] not in "ZX"
        except (FileNotFoundError, ProcessLookupError):
            return False


class Rows(Case):
    def measure(self, program, batch):
        class Options:
            python, build, llmc = [], BUILD, program

        class Progress:
            @staticmethod
            def step(*_):
                pass
        effort = trainings.Effort(2, 2, 1, trainings.KINDS, 1)
        return trainings.Group(Options, trainers.Row("tiny", batch, 16), "float32", effort,
                            lambda text: None).run(Progress)

    def test_the_faster_binding_is_kept(self):
        found = self.measure(self.make(ms=400), 2)
        self.assertEqual((found["failures"], found["left_out"]), ({}, {}))
        self.assertEqual(found["bound"], {"llm.c": True})
        self.assertEqual(len(found["times_ms"]["llm.c"]), 2)
        self.assertGreaterEqual(min(found["times_ms"]["llm.c"]), 100)

    def test_it_is_left_out_of_other_rows(self):
        program = self.make(batch=4)
        self.assertIsNone(program.reason_to_leave_out(trainers.Row("mini", 4, 16), "float32"))
        self.assertIn("float32 only",
                      program.reason_to_leave_out(trainers.Row("tiny", 4, 16), "bf16"))
        found = self.measure(program, 2)
        self.assertEqual((found["failures"], list(found["times_ms"])), ({}, ["libtrain"]))
        self.assertIn("  llm.c left out: it is compiled for batch 4 and length 16",
                      train_compare.group_lines(found))

    def test_a_program_that_is_not_there(self):
        done = subprocess.run([sys.executable, os.path.join(BENCH, "train-compare"), "--llmc",
                               self.folder], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("train_gpt2 is not a program: build llm.c", done.stderr)


if __name__ == "__main__":
    tap.run()
