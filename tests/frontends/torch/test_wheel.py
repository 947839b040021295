"""`pip install libcoll/frontends/torch` into an environment of its own that has PyTorch, and what
is installed. Compiles libcoll, so it is part of full runs only. Prints TAP.

    test_wheel.py SOURCES
"""
import os
import subprocess
import sys
import tempfile
import time

PROGRAM = """
import os
import torch.distributed as dist
dist.init_process_group("coll", store=dist.HashStore(), rank=0, world_size=1)
import coll_torch, torch
tensor = coll_torch.empty(1000) + 1
dist.all_reduce(tensor)
assert (tensor == 1).all()
print(os.path.dirname(coll_torch.__file__))
"""
CANNOT_DOWNLOAD = ("No matching distribution", "Could not find a version", "Temporary failure",
                   "Max retries exceeded", "Connection")


def skip(reason):
    print(f"1..0 # SKIP {reason}")
    sys.exit(0)


def run(*command, **environment):
    environment = {**os.environ, **environment}
    environment.pop("PYTHONPATH", None)
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def make_environment(folder):
    """An environment that sees this Python's PyTorch; returns its Python."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = os.path.join(folder, "bin", "python")
    found = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    packages = found.stdout.strip()
    import torch
    place = os.path.dirname(os.path.dirname(torch.__file__))
    with open(os.path.join(packages, "torch.pth"), "w", encoding="utf-8") as file:
        file.write(place + "\n")
    return python


def main():
    if not os.environ.get("COLL_TEST_FULL"):
        skip("only in full runs")
    with tempfile.TemporaryDirectory() as folder:
        python = make_environment(folder)
        begin = time.monotonic()
        done = run(python, "-m", "pip", "install", "--no-deps", "--disable-pip-version-check",
                   os.path.join(sys.argv[1], "libcoll", "frontends", "torch"))
        seconds = time.monotonic() - begin
        output = done.stdout + done.stderr
        if done.returncode and any(text in output for text in CANNOT_DOWNLOAD):
            skip("the packages that build a wheel cannot be downloaded")
        print(f"# pip took {seconds:.0f} s")
        good = done.returncode == 0
        print("ok 1 - pip installs the package" if good else "not ok 1 - pip installs the package")
        if not good:
            print("".join(f"# {line}\n" for line in output.split("\n")[-40:]))
        used = run(python, "-c", PROGRAM, TORCH_DEVICE_BACKEND_AUTOLOAD="1")
        works = used.returncode == 0 and used.stdout.startswith(os.path.realpath(folder))
        print(f"{'ok' if works else 'not ok'} 2 - without an import, from the environment's folder")
        if not works:
            print("".join(f"# {line}\n" for line in (used.stdout + used.stderr).split("\n")))
        print("1..2")
        sys.exit(not (good and works))


if __name__ == "__main__":
    main()
