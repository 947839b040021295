"""The two builds. A git revision is exported and built once per commit, in release mode; of the
build only the programs and the library are kept, in CACHE/<commit>, those of the last 20 commits
used. A build folder is taken as it is. What runs are byte copies in a folder of the run: OLD, NEW
and OLD again, so that neither places of files nor a build that goes on meanwhile make a
difference."""
import collections
import contextlib
import fcntl
import glob
import json
import os
import shutil
import subprocess
import tempfile
import time

from comparison.launch import Trouble

COMMITS_KEPT = 20
PROGRAMS = (os.path.join("bench", "collbench"), os.path.join("tools", "collrun"))
LIBRARY_FOLDER = "libcoll"
LIBRARIES = os.path.join(LIBRARY_FOLDER, "libcoll.so.[0-9]")
LOG_LINES_SHOWN = 15

# named: as the user did. commit, subject: "" of a build folder. notes: what is odd about it.
Build = collections.namedtuple("Build", "named folder commit subject notes")


def output_of(command, folder):
    try:
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, text=True, check=False)
    except FileNotFoundError:
        raise Trouble("there is no %s here; install it, or name build folders" % command[0]) \
            from None
    return done.stdout.strip() if done.returncode == 0 else None


# ---- folders that end with the run ---------------------------------------------------------------

def is_in_use(folder):
    """Whether the process that made it still lives: it holds a lock on it."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # its process has just removed it
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


@contextlib.contextmanager
def temporary(cache):
    """A folder in the cache. Those that killed runs left behind are removed."""
    os.makedirs(cache, exist_ok=True)
    handle = os.open(cache, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        for old in glob.glob(os.path.join(cache, "run-*")):
            if not is_in_use(old):
                shutil.rmtree(old, ignore_errors=True)
        folder = tempfile.mkdtemp(prefix="run-", dir=cache)
        lock = os.open(folder, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
    finally:
        os.close(handle)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


# ---- revisions -----------------------------------------------------------------------------------

def is_build(folder):
    return all(os.access(os.path.join(folder, program), os.X_OK) for program in PROGRAMS)


def copy_build(source, target):
    """The programs and the library that they load, with links resolved."""
    libraries = [os.path.relpath(path, source)
                 for path in glob.glob(os.path.join(glob.escape(source), LIBRARIES))]
    for name in [*PROGRAMS, *libraries]:
        os.makedirs(os.path.dirname(os.path.join(target, name)), exist_ok=True)
        shutil.copy2(os.path.join(source, name), os.path.join(target, name))


def drop_oldest(cache):
    """All builds but the latest used, and all logs of failed ones but the latest."""
    folders = [path for path in glob.glob(os.path.join(cache, "*")) if is_build(path)
               and not os.path.basename(path).startswith("run-")]
    for folder in sorted(folders, key=os.path.getmtime)[:-COMMITS_KEPT]:
        shutil.rmtree(folder, ignore_errors=True)
    logs = glob.glob(os.path.join(cache, "*.log"))
    for log in sorted(logs, key=os.path.getmtime)[:-COMMITS_KEPT]:
        os.remove(log)


def run_logged(command, folder, log, what):
    """Raises Trouble with the last lines that the command wrote, all of which are in the log."""
    with open(log, "a", encoding="utf-8") as file:
        try:
            code = subprocess.run(command, cwd=folder, stdout=file, stderr=subprocess.STDOUT,
                                  stdin=subprocess.DEVNULL, check=False).returncode
        except FileNotFoundError:
            raise Trouble("there is no %s here; tools/run installs what a build needs"
                          % command[0]) from None
    if code != 0:
        with open(log, encoding="utf-8", errors="replace") as file:
            last = file.read().splitlines()[-LOG_LINES_SHOWN:]
        raise Trouble("\n  ".join(["%s failed; %s ends with" % (what, os.path.relpath(log)),
                                   *last]))


def meson_options(source):
    """Tests and training are not built where a revision lets one leave them out."""
    path = os.path.join(source, "meson_options.txt")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        known = file.read()
    return ["-D%s=false" % name for name in ("tests", "train") if "option('%s'" % name in known]


def make(root, cache, commit, what):
    """Exports and builds the commit and keeps what is needed of it in CACHE/<commit>."""
    log = os.path.join(cache, commit + ".log")
    with temporary(cache) as folder:
        source, build = os.path.join(folder, "source"), os.path.join(folder, "source", "build")
        archive = os.path.join(folder, "source.tar")
        os.mkdir(source)
        if os.path.exists(log):
            os.remove(log)
        run_logged(["git", "archive", "-o", archive, commit], root, log, what)
        run_logged(["tar", "-xf", archive], source, log, what)
        run_logged(["meson", "setup", "--buildtype=release", *meson_options(source), build],
                   source, log, what)
        run_logged(["ninja", "-C", build, *PROGRAMS], source, log, what)
        copy_build(build, os.path.join(folder, "kept"))
        try:
            os.rename(os.path.join(folder, "kept"), os.path.join(cache, commit))
        except OSError:  # another run has made it meanwhile
            if not is_build(os.path.join(cache, commit)):
                raise
    os.remove(log)


def revision(root, cache, named, say):
    commit = output_of(["git", "rev-parse", "--verify", "--quiet", "--end-of-options",
                        named + "^{commit}"], root)
    if commit is None:
        raise Trouble("'%s' is neither a build folder nor a git revision" % named)
    folder = os.path.join(cache, commit)
    if not is_build(folder):
        began = time.monotonic()
        say("building %s (%s), once" % (named, commit[:12]))
        make(root, cache, commit, "building %s (%s)" % (named, commit[:12]))
        say("built in %.0f s" % (time.monotonic() - began))
    os.utime(folder)
    drop_oldest(cache)
    subject = output_of(["git", "log", "-1", "--format=%s", commit], root) or ""
    return Build(named, folder, commit, subject, [])


# ---- build folders -------------------------------------------------------------------------------

def folder_notes(folder):
    """What a reader of the figures should know: other options than a release has, old programs."""
    notes = []
    path = os.path.join(folder, "meson-info", "intro-buildoptions.json")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            values = {option["name"]: option["value"] for option in json.load(file)}
        for name, usual in (("buildtype", "release"), ("sanitize", "none")):
            if values.get(name, usual) != usual:
                notes.append("%s is %s" % (name, values[name]))
    if os.path.exists(os.path.join(folder, "build.ninja")) and shutil.which("ninja"):
        plan = output_of(["ninja", "-n", *PROGRAMS], folder)
        if plan is None or "no work to do" not in plan:
            notes.append("older than its sources: ninja -C %s" % os.path.relpath(folder))
    return notes


def find(root, cache, named, say):
    """The Build of a build folder or a revision, made where it is missing; say(text) takes what a
    person waits for. Raises Trouble."""
    if os.path.isdir(named):
        folder = os.path.abspath(named)
        if not is_build(folder):
            raise Trouble("the folder '%s' lacks %s; build it (ninja -C %s), or name a revision"
                          % (named, " or ".join(PROGRAMS), named))
        return Build(named, folder, "", "", folder_notes(folder))
    return revision(root, cache, named, say)


# ---- what runs -----------------------------------------------------------------------------------

def library_variables(folder):
    """What makes the programs in a copy load the library in it, whatever the user's environment
    says."""
    paths = [os.path.join(folder, LIBRARY_FOLDER), os.environ.get("LD_LIBRARY_PATH", "")]
    return {"LD_LIBRARY_PATH": ":".join(path for path in paths if path)}


def check_library(folder):
    """Raises Trouble where collbench loads a library from outside its own folder."""
    environment = dict(os.environ, LD_TRACE_LOADED_OBJECTS="1", **library_variables(folder))
    done = subprocess.run([os.path.join(folder, PROGRAMS[0])], env=environment, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True)
    for line in done.stdout.splitlines():
        name, _, path = line.strip().partition(" => ")
        if name.startswith("libcoll.") and not path.startswith(folder + os.sep):
            raise Trouble("collbench would not load the library of its own build, but: %s" % path)


def copy_sides(old, new, folder):
    """{side: folder of its copy}. The names are of one length, as a longer environment moves a
    program's stack."""
    folders = {"old": (old, "old"), "new": (new, "new"), "copy": (old, "dup")}
    made = {}
    for side, (build, name) in folders.items():
        made[side] = os.path.join(folder, name)
        copy_build(build.folder, made[side])
        check_library(made[side])
    return made
