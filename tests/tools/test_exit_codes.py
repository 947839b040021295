"""The exit codes of docs/tools.md, for every program of the build. Prints TAP.

    test_exit_codes.py SOURCES BUILD
"""
import os
import subprocess
import sys
import tempfile
import unittest

SOURCES, BUILD = sys.argv[1:3]
del sys.argv[1:3]
sys.path[:0] = [os.path.join(SOURCES, "tests", "tools"), os.path.join(SOURCES, "tests", "bench")]
import programs  # noqa: E402
import tap  # noqa: E402

DONE, FAILED, USAGE = 0, 1, 2
PROGRAMS = programs.built(SOURCES, BUILD)
SCHEDULE = """<algo name="wrong" proto="Simple" nchannels="1" nchunksperloop="1" ngpus="1"
 coll="allreduce" inplace="0"></algo>
"""

# Files: empty has no byte, text a line of words, bytes what is no text.
FAILING = """
collplan list FILE
collplan show FILE
collplan verify FILE
collplan verify no-such-file.plan
collplan import FILE
collplan import no-such-file
collplan export FILE --msccl
collplan draw allreduce --topology FILE
collplan show allreduce --svg /no/such/folder/x.svg
colltopo check FILE
colltopo show FILE
colltopo draw FILE
colltopo convert FILE
colltopo paths FILE a b
colltopo layout FILE -n 2
colltopo predict FILE
colltopo traffic FILE
colltopo record --out /no/such/folder/x.json
collrun -n 2 false
collrun --hostfile FILE true
collrun --hostfile /no/such/file true
collrun -n 1 --output /no/such/folder/x true
collbench allreduce --threads 2 --sizes 4 --plan FILE
collbench allreduce --threads 2 --sizes 4 -n 1 --json /no/such/folder/x.json
gpt convert FILE x.ckpt
gpt sample --checkpoint FILE
gpt eval --checkpoint FILE
gpt train --config FILE
gpt tokenizer train --data /no/such/folder
gpt tokenizer decode --data FILE
gpt schedule --svg /no/such/folder/x.svg
gpt mesh --draw-mesh /no/such/folder/x.svg
gpt plan --ranks 2 --json /no/such/folder/x.json
"""

WRONG = """
collplan
collplan shwo
collplan show
collplan show allredcue
collplan show allreduce -n 0
collplan show allreduce --algo rnig
collplan import
collplan export allreduce
colltopo
colltopo make
colltopo make no-such-machine
colltopo check
colltopo predict FILE --sizes x
collrun
collrun -n 0 true
collrun -n 2
collrun --hosts a:x true
collbench
collbench allredcue
collbench allreduce -b 8K -e 4K
gpt
gpt tarin
gpt train --steps x
gpt convert
gpt tokenizer
gpt tokenizer trian
limit
limit -n 0 broadcast
gpu_limit
gpu_abort 1
"""


def run(words, folder="/"):
    environment = {name: value for name, value in os.environ.items() if name != "COLL_TOPO_FILE"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder,
                          stdin=subprocess.DEVNULL, timeout=120, env=environment)
    return done.returncode, done.stderr


class TestExitCodes(unittest.TestCase):
    def check(self, lines, code, folder, file):
        wrong = []
        for line in lines.strip().splitlines():
            words = line.replace("FILE", file).split()
            if words[0] in PROGRAMS:
                got, errors = run([PROGRAMS[words[0]], *words[1:]], folder)
                if got != code or errors == "":
                    wrong.append((line, file, got, errors))
        self.assertEqual(wrong, [])

    def test_failing(self):
        contents = {"empty": b"", "text": b"some words\n", "bytes": b"\177ELF\0\xff",
                    "schedule": SCHEDULE.encode()}
        with tempfile.TemporaryDirectory() as folder:
            for name, content in contents.items():
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(content)
                lines = FAILING.replace("--hostfile FILE", "--hostfile " +
                                        ("FILE" if name != "schedule" else "empty"))
                self.check(lines, FAILED, folder, name)

    def test_a_wrong_command_line(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "text"), "wb"):
                pass
            self.check(WRONG, USAGE, folder, "text")

    def test_an_unknown_option(self):
        for program in PROGRAMS.values():
            if not program.endswith(("coll-mpi", "limit_net")):
                for words in programs.commands(program):
                    if len(words) > 1 or words == list(programs.commands(program))[-1]:
                        code, errors = run([*words, "--no-such-option"])
                        self.assertEqual(code, USAGE, (words, errors))

    def test_an_unknown_option_of_a_script(self):
        for script in programs.scripts(SOURCES):
            code, errors = run([script, "--no-such-option"])
            self.assertEqual(code, USAGE, (script, errors))

    def test_help(self):
        for program in PROGRAMS.values():
            for words in programs.commands(program):
                self.assertEqual(run([*words, "--help"]), (DONE, ""), words)

    def test_of_a_rank(self):
        collrun = PROGRAMS["collrun"]
        self.assertEqual(run([collrun, "-n", "2", "sh", "-c", "exit 7"])[0], 7)
        self.assertEqual(run([collrun, "-n", "2", "sh", "-c", "kill -9 $$"])[0], 137)
        self.assertEqual(run([collrun, "-n", "2", "no-such-program"])[0], 127)
        self.assertEqual(run([collrun, "-n", "2", "/etc/passwd"])[0], 126)


if __name__ == "__main__":
    tap.run()
