"""The programs of a build, and the commands that their help pages list."""
import json
import os
import re
import subprocess


def built(sources, build):
    """{name: path} of what the build makes outside of tests/, and of the scripts it installs."""
    with open(os.path.join(build, "meson-info", "intro-targets.json"), encoding="utf-8") as file:
        targets = json.load(file)
    found = {target["name"]: target["filename"][0] for target in targets
             if target["type"] == "executable" and target["build_by_default"]
             and not target["defined_in"].startswith(os.path.join(sources, "tests"))}
    with open(os.path.join(build, "meson-info", "intro-install_plan.json"),
              encoding="utf-8") as file:
        plan = json.load(file)
    for path, entry in plan.get("configure", {}).items():
        if entry["destination"].startswith("{bindir}"):
            found[os.path.basename(path)] = path
    return found


def has_help(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return "--help" in text or "argparse" in text or "command.run(" in text


def scripts(sources):
    for folder in ("bench", "tools"):
        for name in sorted(os.listdir(os.path.join(sources, folder))):
            path = os.path.join(sources, folder, name)
            if os.path.isfile(path) and os.access(path, os.X_OK) and has_help(path):
                yield path


def commands(*words):
    """The words, and those with each command of their help page behind them."""
    page = subprocess.run([*words, "--help"], capture_output=True, text=True, check=True).stdout
    _, _, rest = page.partition("\nCommands:\n")
    yield list(words)
    for command in re.findall(r"^  (\w+) ", rest, re.MULTILINE):
        yield from commands(*words, command)
