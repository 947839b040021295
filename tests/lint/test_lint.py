"""Tests tools/lint. Each case is a small source tree with one fault and the finding that lint must
print for it. Prints TAP.

    test_lint.py TOOLS/LINT
"""
import concurrent.futures
import os
import subprocess
import sys
import tempfile

LINT = sys.argv[1]

CLEAN = {
    "libcoll/include/coll.h":
        "/* Public. */\n#ifndef COLL_H\n#define COLL_H\n#include \"coll_algo.h\"\n#endif\n",
    "libcoll/include/coll_algo.h":
        "/* Its part. */\n#ifndef COLL_ALGO_H\n#define COLL_ALGO_H\n#include <coll.h>\n#endif\n",
    "base/base.h": "/* Base. */\n#ifndef BASE_H\n#define BASE_H\n#include <coll.h>\n#endif\n",
    "base/net/net.h":
        "/* Net. */\n#ifndef NET_H\n#define NET_H\n#include \"base/base.h\"\n#endif\n",
    "topo/topo.h": "/* Topo. */\n#ifndef TOPO_H\n#define TOPO_H\n#endif\n",
    "libcoll/plan/plan.h": "/* Plan. */\n#ifndef PLAN_H\n#define PLAN_H\n#endif\n",
    "libcoll/transport/ops.h": "/* Ops. */\n#ifndef OPS_H\n#define OPS_H\n#endif\n",
    "libcoll/transport/shm/shm.h": "/* Shm. */\n#ifndef SHM_H\n#define SHM_H\n#endif\n",
    "libcoll/engine/engine.h": "/* Engine. */\n#ifndef ENGINE_H\n#define ENGINE_H\n#endif\n",
    "libcoll/engine/engine.c": "/* Engine. */\n#include \"engine/engine.h\"\n"
                               "#include \"base/base.h\"\n#include \"transport/ops.h\"\n",
    "tests/engine/test.c": "/* Tests include anything. */\n#include \"transport/shm/shm.h\"\n",
}


def c_file(body):
    return "/* Opens. */\n" + body


def long_function(lines, head="static int f(int a)"):
    return head + " {\n" + "  a++;\n" * (lines - 2) + "}\n"


# name, files added to the clean tree, part of the expected finding (None: no finding)
CASES = [
    ("a clean tree", {}, None),
    ("algo includes engine",
     {"libcoll/algo/a.c": c_file('#include "engine/engine.h"\n')},
     "libcoll/algo/a.c:2: algo may not include engine"),
    ("base includes its networks",
     {"base/b.c": c_file('#include "base/net/net.h"\n')}, "base may not include base/net"),
    ("plan includes networks",
     {"libcoll/plan/p.c": c_file('#include "base/net/net.h"\n')}, "plan may not include base/net"),
    ("a transport includes networks",
     {"libcoll/transport/t.c": c_file('#include "base/net/net.h"\n')}, None),
    ("topo includes plan",
     {"topo/t.c": c_file('#include "plan/plan.h"\n')}, "topo may not include plan"),
    ("base includes plan",
     {"base/b.c": c_file('#include "plan/plan.h"\n')}, "base may not include plan"),
    ("the engine names a transport",
     {"libcoll/engine/e.c": c_file('#include "transport/shm/shm.h"\n')},
     "the engine may include from transport only ops.h"),
    ("comm names a transport",
     {"libcoll/comm/c.c": c_file('#include "transport/shm/shm.h"\n')}, None),
    ("a wire includes a channel",
     {"libcoll/transport/net/channel/c.h": "/* C. */\n#ifndef C_H\n#define C_H\n#endif\n",
      "libcoll/transport/net/wire/w.c": c_file('#include "transport/net/channel/c.h"\n')},
     "libcoll/transport/net/wire may not include libcoll/transport/net/channel/c.h"),
    ("a channel includes what wires show",
     {"libcoll/transport/net/wire/ops.h": "/* W. */\n#ifndef W_H\n#define W_H\n#endif\n",
      "libcoll/transport/net/channel/c.c": c_file('#include "transport/net/wire/ops.h"\n')}, None),
    ("a channel includes what a wire hides",
     {"libcoll/transport/net/wire/verbs/v.h": "/* V. */\n#ifndef V_H\n#define V_H\n#endif\n",
      "libcoll/transport/net/channel/c.c": c_file('#include "transport/net/wire/verbs/v.h"\n')},
     "libcoll/transport/net/channel may not include"),
    ("a room outside includes one inside",
     {"libcoll/transport/net/channel/c.h": "/* C. */\n#ifndef C_H\n#define C_H\n#endif\n",
      "libcoll/transport/t.c": c_file('#include "transport/net/channel/c.h"\n')},
     "libcoll/transport may not include"),
    ("watch includes run", {"libcoll/run/r.h": "/* R. */\n#ifndef R_H\n#define R_H\n#endif\n",
                            "libcoll/watch/w.c": c_file('#include "run/r.h"\n')},
     "libcoll/watch/w.c:2: watch may not include run"),
    ("a room of 31 files", {"libcoll/algo/a%d.c" % i: c_file("") for i in range(31)},
     "libcoll/algo:1: 31 .c files; the maximum is 30"),
    ("a break that does not apply", {"tests/teeth/b.patch": "diff --git a/base/b.c b/base/b.c\n"
                                     "--- a/base/b.c\n+++ b/base/b.c\n@@ -1 +1 @@\n-x\n+y\n",
                                     "base/b.c": c_file("int z;\n")},
     "tests/teeth/b.patch:1: the break does not apply"),
    ("a room of 30 files", {"libcoll/algo/a%d.c" % i: c_file("") for i in range(30)}, None),
    ("bench includes libcoll's plan",
     {"bench/b.c": c_file('#include "plan/plan.h"\n')}, "bench may not include plan"),
    ("a front end includes base",
     {"libcoll/frontends/nccl/n.c": c_file('#include "base/base.h"\n')},
     "front ends may include <coll.h> only"),
    ("collrun includes plan",
     {"tools/collrun/c.c": c_file('#include "plan/plan.h"\n')},
     "tools/collrun may not include plan"),
    ("collplan includes plan",
     {"tools/collplan/c.c": c_file('#include "plan/plan.h"\n')}, None),
    ("one tool includes another",
     {"tools/gpt/g.h": "/* G. */\n#ifndef G_H\n#define G_H\n#endif\n",
      "tools/collrun/c.c": c_file('#include "tools/gpt/g.h"\n')},
     "tools/collrun may not include tools/gpt"),
    ("the public header includes base",
     {"libcoll/include/coll.h": CLEAN["libcoll/include/coll.h"].replace(
         "#endif", '#include "base/base.h"\n#endif')}, "public may not include base"),
    ("a header that does not exist",
     {"base/b.c": c_file('#include "base/nowhere.h"\n')}, "is not a file of this repository"),
    ("the public header in quotes",
     {"base/b.c": c_file('#include "coll.h"\n')}, "as <coll.h>"),
    ("our header in angles",
     {"base/b.c": c_file("#include <base/base.h>\n")}, "is a file of this repository"),
    ("vector instructions in the engine",
     {"libcoll/engine/e.c": c_file("#include <immintrin.h>\n")}, "vector instructions are allowed"),

    ("a function of 70 lines", {"base/b.c": c_file(long_function(70))},
     "base/b.c:2: f has 70 lines"),
    ("a function of 69 lines", {"base/b.c": c_file(long_function(69))}, None),
    ("a long function with arguments on lines of their own",
     {"base/b.c": c_file(long_function(69, "static int f(int a,\n             int b)"))},
     "f has 70 lines"),
    ("braces in strings, characters and comments",
     {"base/b.c": c_file('static int f(int a) {\n  a += "}"[0] + \'{\'; /* { */ // {\n}\n'
                         + long_function(69, "static int g(int a)"))}, None),
    ("a long function behind a macro with a brace",
     {"base/b.c": c_file("#define OPEN {\n#define LONG \\\n  {\n" + long_function(70))},
     "f has 70 lines"),
    ("a long function behind a table",
     {"base/b.c": c_file("static const int t[] = {1, 2};\nstruct s {\n  int x;\n};\n"
                         + long_function(71))}, "f has 71 lines"),
    ("a long Criterion test",
     {"tests/base/t.c": c_file(long_function(80, "Test(suite, name)"))},
     "Test(suite, name) has 80 lines"),
    ("a file of 801 lines", {"base/b.c": c_file("int x;\n" * 800)}, "801 lines"),
    ("a file of 800 lines", {"base/b.c": c_file("int x;\n" * 799)}, None),

    ("strcpy", {"base/b.c": c_file("void f(void) { strcpy(a, b); }\n")}, "strcpy: use snprintf"),
    ("atoi with a space", {"base/b.c": c_file("int x = atoi (y);\n")},
     "atoi: use base_text_integer"),
    ("rand in a test", {"tests/base/t.c": c_file("int f(void) { return rand(); }\n")}, "rand: use"),
    ("names that only contain a banned one, a slot, a string and a comment",
     {"base/b.c": c_file("void f(x_t *x) {\n  my_rand();\n  rand_r(&s);\n  x->sleep(x);\n"
                         "  g(\"system(1)\"); /* atoi(x) */\n}\n")}, None),
    ("poll with a limit of its own", {"libcoll/comm/c.c": c_file(
        "void f(void) {\n  poll(&p[g(1, 2)], 1,\n       left_ms);\n}\n")},
     "libcoll/comm/c.c:3: the limit of poll is not of base_deadline_limit_ms"),
    ("epoll_wait with a number", {"libcoll/comm/c.c": c_file(
        "void f(void) { epoll_wait(e, v, 1, 50); }\n")}, "the limit of epoll_wait is not"),
    ("a futex with a limit of its own", {"base/b.c": c_file(
        "void f(void) { syscall(SYS_futex, &w, FUTEX_WAIT, s, &time, NULL, 0); }\n")},
     "the limit of a futex is not of base_deadline_limit"),
    ("nanosleep", {"libtrain/t.c": c_file("void f(void) { nanosleep(&t, NULL); }\n")},
     "nanosleep: use base_clock_sleep_ns"),
    ("a timeout of a socket", {"libcoll/comm/c.c": c_file("int x = SO_RCVTIMEO;\n")},
     "SO_RCVTIMEO: use base_deadline_poll"),
    ("limits of base, none, and those of tests and front ends",
     {"libcoll/comm/c.c": c_file(
         "void f(void) {\n  int ms = base_deadline_limit_ms(left(a, b));\n  poll(p, 1, ms);\n"
         "  poll(p, 1, 0);\n  epoll_wait(e, v, 1, -1);\n  x->ops->poll(p, 1, 5);\n"
         "  poll(p, 1, base_deadline_limit_ms(left));\n  context->poll(p);\n"
         "  struct timespec t = base_deadline_limit(left);\n"
         "  syscall(SYS_futex, &w, FUTEX_WAIT, s, &t, NULL, 0);\n}\n"),
      "libcoll/frontends/mpi/m.c": c_file("void f(void) { nanosleep(&t, NULL); }\n"),
      "tests/engine/t.c": c_file("void f(void) { poll(p, 1, 5); }\n"),
      "base/deadline.c": c_file("void f(void) { pthread_cond_timedwait(c, l, &t); }\n")}, None),
    ("a macro that returns",
     {"base/b.c": c_file("#define CHECK(x) \\\n  do {    \\\n    if (x) return 1; \\\n"
                         "  } while (0)\n")}, "CHECK hides control flow"),
    ("a to-do comment", {"base/b.c": c_file("/* TO" "DO: more */\n")}, "in the source"),
    ("a fix-me comment in a script", {"tools/s": "#!/bin/sh\n# FIX" "ME\n"}, "in the source"),

    ("a long line", {"base/b.c": c_file("/* %s */\n" % ("x" * 98))}, "base/b.c:2: 104 columns"),
    ("a tab", {"base/b.c": c_file("\tint x;\n")}, "tab"),
    ("white space at the end", {"base/b.c": c_file("int x; \n")}, "white space at the end"),
    ("a last line without a newline", {"base/b.c": c_file("int x;")}, "has no newline"),
    ("no opening comment", {"base/b.c": "int x;\n"}, "does not begin with a comment"),
    ("no include guard", {"base/b.h": "/* B. */\nint x(void);\n"}, "without an include guard"),
    ("a header that needs another one",
     {"base/b.h": "/* B. */\n#ifndef B_H\n#define B_H\nsize_t x(void);\n#endif\n"},
     "base/b.h:1: does not compile on its own"),
    ("a script that does not parse", {"tools/s": "#!/bin/sh\nif true\n"}, "tools/s:1:"),
    ("a hidden folder and a build folder",
     {".cache/b.c": "\t", "build/b.c": "\t", "build-asan/b.c": "\t"}, None),
]


def write_tree(root, files):
    for path, text in files.items():
        os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
        with open(os.path.join(root, path), "w", encoding="utf-8") as file:
            file.write(text)


def run_lint(*options):
    return subprocess.run([sys.executable, LINT, *options], capture_output=True, text=True,
                          check=False)


def run_case(files, expected):
    with tempfile.TemporaryDirectory() as root:
        write_tree(root, {**CLEAN, **files})
        run = run_lint("--root", root)
    if expected is None:
        return run.returncode == 0, run.stdout + run.stderr
    return run.returncode == 1 and expected in run.stdout, run.stdout + run.stderr


def library_case(code, expected):
    """Builds a library from the code and checks the finding about its symbols."""
    with tempfile.TemporaryDirectory() as root:
        nccl = "frontends/nccl/"
        write_tree(root, {**CLEAN, "build/libcoll/x.c": code,
                          "build/libcoll/%sn.c" % nccl: code.replace("coll_x", "ncclX")})
        folder = os.path.join(root, "build/libcoll")
        for command in (["cc", "-c", "-fPIC", "x.c"], ["cc", "-shared", "-o", "libcoll.so", "x.o"],
                        ["ar", "rc", "libcoll.a", "x.o"],
                        ["cc", "-shared", "-fPIC", "-o", nccl + "libnccl.so.2", nccl + "n.c"]):
            subprocess.run(command, cwd=folder, check=True)
        run = run_lint("--root", root, "--build", os.path.join(root, "build"))
    if expected is None:
        return run.returncode == 0, run.stdout + run.stderr
    names = ("libcoll.so", "libcoll.a", "libnccl.so.2")
    return all(expected.replace("*", name) in run.stdout for name in names), \
        run.stdout + run.stderr


def main():
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        case_results = pool.map(lambda case: run_case(*case[1:]), CASES)
        results = [(case[0], *result) for case, result in zip(CASES, case_results)]
    good = "int coll_x(void);\nint coll_x(void) { return 0; }\n"
    results.append(("libraries that export coll_* only", *library_case(good, None)))
    results.append(("libraries that export more", *library_case(
        good + "int helper(void);\nint helper(void) { return 0; }\n", "*:1: exports helper")))
    print("1..%d" % len(results))
    for number, (name, passed, output) in enumerate(results, 1):
        print("%s %d - %s" % ("ok" if passed else "not ok", number, name))
        if not passed:
            print("".join("# %s\n" % line for line in output.split("\n")), end="")
    return 0 if all(passed for _, passed, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
