"""README and docs print what today's build prints, and their links resolve; and tools/docs finds
what does not. Prints TAP.

    test_docs.py SOURCES BUILD
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCES, BUILD = sys.argv[1:3]
del sys.argv[1:3]
sys.path.insert(0, os.path.join(SOURCES, "tests", "bench"))
import tap  # noqa: E402


def block(kind, *lines):
    return "\n".join(["<!-- docs: %s -->" % kind, "```console", *lines, "```", ""])


class TestDocs(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="docs-test.")
        self.addCleanup(shutil.rmtree, self.root)
        for folder in ("docs", "tools", "bench"):
            os.mkdir(os.path.join(self.root, folder))
        shutil.copy(os.path.join(SOURCES, "tools", "docs"), os.path.join(self.root, "tools"))
        os.symlink(os.path.join(SOURCES, "bench", "comparison"),
                   os.path.join(self.root, "bench", "comparison"))
        subprocess.run(["git", "init", "-q", self.root], check=True)
        commit = ["git", "-C", self.root, "-c", "user.name=a", "-c", "user.email=a@b", "commit"]
        subprocess.run([*commit, "-q", "--allow-empty", "-m", "a"], check=True)

    def docs(self, page, *options):
        """What tools/docs prints for a page, its exit code, and the page afterwards."""
        path = os.path.join(self.root, "README.md")
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)
        run = subprocess.run([os.path.join(self.root, "tools", "docs"), BUILD, *options], text=True,
                             capture_output=True, check=False)
        with open(path, encoding="utf-8") as file:
            return run.stdout, run.returncode, file.read()

    def finds(self, page, text, *options):
        out, code, after = self.docs(page, "--check", *options)
        self.assertIn(text, out)
        self.assertEqual((code, after), (1, page))

    def accepts(self, page, *options):
        out, code, after = self.docs(page, "--check", *options)
        self.assertEqual((out, code, after), ("", 0, page))

    def test_outputs_that_are_right(self):
        self.accepts(block("same", "$ echo a", "a", "$ printf 'b\\nc\\nd\\n'", "b", "...", "d"))
        self.accepts(block("same", "$ echo a > file", "$ cat file", "a", "$ echo \\", "    b", "b"))
        self.accepts(block("same", "$ WORD=x", '$ echo "$WORD"', "x"))
        self.accepts("<!-- docs: file a.txt -->\n```c\nint a;\n```\n" +
                     block("same", "$ cat a.txt", "int a;"))
        self.accepts(block("same", "$ collplan list | head -1 | cut -c1-10", "collective"))
        self.accepts(block("measured", "$ echo 1", "2"))
        self.accepts(block("needs a moon", "$ false"))

    def test_outputs_that_are_wrong(self):
        self.finds(block("same", "$ echo a", "b"), "'echo a' prints\na")
        self.finds(block("same", "$ printf 'b\\nc\\n'", "b", "...", "d"), "prints\nb\nc")
        self.finds(block("same", "$ ls nothing"), "exit code 2")
        self.finds("```console\n$ echo a\n```\n", "no comment <!-- docs: ... -->")
        self.finds("```\na\n```\n", "say ```console")
        self.finds(block("needs", "$ echo a"), "no comment <!-- docs: ... -->")
        self.finds(block("sometimes", "$ echo a"), "no comment <!-- docs: ... -->")

    def test_commands_whose_output_is_not_compared(self):
        page = block("runs", "$ false")
        self.accepts(page)
        self.finds(page, "false: exit code 1", "--run")

    def test_links(self):
        self.accepts("# A b\n[a](#a-b) [b](tools/docs) [c](https://a.b/c)\n")
        self.finds("[a](docs/nothing.md)\n", "there is no docs/nothing.md")
        self.finds("# A\n[a](#b)\n", "README.md has no section #b")

    def test_knobs(self):
        page = os.path.join(self.root, "docs", "knobs.md")
        with open(page, "w", encoding="utf-8") as file:
            file.write("| `COLL_HANG_MS` | 7 | a |\n| `COLL_GET` | auto | b |\n")
        out, code, _ = self.docs("", "--check")
        self.assertEqual(code, 1)
        self.assertIn("COLL_TUNE is not named", out)
        self.assertIn("docs/knobs.md:1: the default of COLL_HANG_MS is '30000'", out)
        self.assertNotIn("COLL_GET", out)

    def test_outputs_are_made_again(self):
        _, code, after = self.docs("a\n" + block("same", "$ echo a", "b") + "c\n")
        self.assertEqual((code, after), (0, "a\n" + block("same", "$ echo a", "a") + "c\n"))
        page = block("same", "$ echo a", "b", "...")
        out, code, after = self.docs(page)
        self.assertIn("shorten it by hand", out)
        self.assertEqual((code, after), (1, page))

    def test_measured_outputs_say_where_and_when(self):
        self.finds(block("measured", "$ true"), "none of these commands prints", "--measure")
        page = block("measured", "$ echo 1", "2") + "\nc\n"
        self.assertEqual(self.docs(page)[2], page)
        _, code, after = self.docs(page, "--measure")
        self.assertEqual(code, 0)
        self.assertRegex(after, r"\$ echo 1\n1\n```\n\n\*.*, \d+ cores, .*, commit \w+\*\n\nc\n$")
        self.assertEqual(self.docs(after, "--measure")[2], after)

    def test_the_pages_of_this_tree(self):
        options = ["--check"] + (["--run"] if os.environ.get("COLL_TEST_FULL") else [])
        run = subprocess.run([os.path.join(SOURCES, "tools", "docs"), BUILD, *options], text=True,
                             capture_output=True, check=False)
        self.assertEqual((run.stdout, run.returncode), ("", 0))


if __name__ == "__main__":
    tap.run()
