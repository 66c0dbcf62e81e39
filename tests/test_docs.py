"""What the documentation shows works: commands parse or run, tutorials run, links lead on."""

import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import typer

from ldm.cli.app import app
from ldm.config import hints

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
QUICKSTART = ROOT / "docs" / "quickstart.md"
TUTORIALS = ROOT / "docs" / "tutorials"

#: Commands play their few tasks themselves: a worker takes longer to start than the tasks do.
ONE_PROCESS = {"LOKY_MAX_CPU_COUNT": "1", "OMP_NUM_THREADS": "1"}
#: Of each kind, so many of the shipped episodes are enough to show that a command works.
EPISODES = 2
#: How the quickstart says how many tasks to play; the test plays two.
TASKS = re.compile(r"(--limit |--tasks |limit=)\d+")

BLOCK = re.compile(r"(?P<mark><!-- run -->\n)?^```(?P<info>.*)\n(?P<body>(?:.*\n)*?)^```$", re.M)
INLINE = re.compile(r"`(ldm [^`{}…]+)`")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)\)")
ANCHOR = re.compile(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.M)
#: How code cites a heading of the architecture page.
CITED = re.compile(r"architecture\.md#([\w-]+)")


def blocks(page: Path) -> Iterator[re.Match[str]]:
    return BLOCK.finditer(page.read_text())


def shown_commands() -> Iterator[tuple[str, str, bool]]:
    """(file, command line, whether it is complete) of every `ldm …` in pages, code and help."""
    for page in PAGES:
        name = str(page.relative_to(ROOT))
        for block in blocks(page):
            if block["info"] == "text":
                continue  # what a command printed
            for line in block["body"].splitlines():
                if line.lstrip().startswith("ldm "):
                    yield name, line.strip(), True
        for match in INLINE.finditer(BLOCK.sub("", page.read_text())):
            yield name, match[1], False
    for file in sorted((ROOT / "ldm").rglob("*.py")):
        name, text = str(file.relative_to(ROOT)), file.read_text()
        for line in text.splitlines():
            if file.parent.name == "cli" and line.startswith(("      ldm ", "  ldm ")):
                yield name, line.split("   ")[0].strip() or line.strip(), True
        for match in INLINE.finditer(text):
            if "\n" not in match[1]:
                yield name, match[1], False


@cache
def root() -> Any:
    """Return the command `ldm`."""
    return typer.main.get_command(app)


def problem(line: str, complete: bool) -> str:
    """Why the command line would not parse, "" where it would."""
    words = shlex.split(line, comments=True)[1:]
    for end in (">", "|", "&&"):
        words = words[: words.index(end)] if end in words else words
    command, path = root(), "ldm"
    while hasattr(command, "list_commands") and words and not words[0].startswith("-"):
        name, *words = words
        command = command.get_command(typer.Context(command), name)
        if command is None:
            return f"{path} has no command {name}"
        path = f"{path} {name}"
    if path == "ldm":  # only options are left: they act while they are read, so none is read here
        options = {name for option in command.params for name in option.opts} | {"--help", "-h"}
        return ", ".join(word for word in words if word.startswith("-") and word not in options)
    if not words and not complete:
        return ""
    if unknown := unknown_options(command, words):
        return unknown
    try:
        # A command keeps the names of its help option from its first use on.
        command.make_context(path, words, **root().context_settings)
    except typer.Exit:
        return ""
    except typer.TyperException as error:
        message = str(getattr(error, "message", "")) or error.__class__.__name__
        return "" if message.startswith("Missing") and not complete else message
    return ""


def unknown_options(command: Any, words: list[str]) -> str:
    """Return what is given to options such as --agent.k, also in sweeps, and not taken."""
    given = dict(pairwise([*words, ""]))
    pairs = {f"{word[2:]}={value}" for word, value in given.items() if re.match(r"--\w+\.", word)}
    missing = []
    for pair in sorted(pairs | {given[name] for name in ["--sweep"] if name in given}):
        section, option, value = re.split(r"[.=]", pair, maxsplit=2)
        field = getattr(command, "sections", {}).get(section)
        if field is None:
            missing.append(pair)
            continue
        names = given.get(f"--{section}", field.default.name).split(",")
        if ":" in names[0] or (field.of.registry and not names[0]) or "--preset" in words:
            continue
        options = {name: one for part in names for name, one in hints(field.of.load(part)).items()}
        chosen = options.get(option.replace("-", "_"))
        choices = get_args(chosen.hint) if chosen and get_origin(chosen.hint) is Literal else ()
        if not chosen or (choices and not {*choices}.issuperset(value.split(","))):
            missing.append(pair)
    return ", ".join(missing)


@pytest.mark.parametrize(("file", "line", "complete"), sorted(set(shown_commands())))
def test_every_command_that_is_shown_exists(
    file: str, line: str, complete: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # whatever reading an option may do, not at home
    assert not problem(line, complete), f"{file}: {line}"


def test_the_page_of_options_is_up_to_date() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "make_options.py"))
    assert script["PAGE"].read_text() == script["page"](), "Run `python scripts/make_options.py`."


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    headings = (heading.strip().lower() for heading in HEADING.findall(page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_headings(page: Path) -> None:
    for target, anchor in ANCHOR.findall(page.read_text()):
        linked = page.parent / target if target else page
        assert anchor in anchors(linked), f"{page.name} links to {target}#{anchor}"


def test_the_code_cites_headings_that_exist() -> None:
    headings = anchors(ROOT / "docs" / "architecture.md")
    for file in [ROOT / "pyproject.toml", *sorted((ROOT / "ldm").rglob("*.py"))]:
        for anchor in CITED.findall(file.read_text()):
            assert anchor in headings, f"{file.name} cites architecture.md#{anchor}"


def test_the_tests_that_documents_name_exist() -> None:
    code = "\n".join(f"{file} {file.read_text()}" for file in (ROOT / "tests").rglob("test_*.py"))
    for page in (ROOT / "docs" / "lab").glob("*.md"):
        for name in re.findall(r"\b(?:test_\w{9,}|Test[A-Z]\w+)", page.read_text()):
            assert name in code, f"{page.name} names {name}"


def run_page(commands: str, directory: Path) -> str:
    """Run the commands of a page in `directory`; return what they print."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("OPENAI_", "ALFWORLD_"))}
    done = subprocess.run(
        [sys.executable, "-m", "tests.page"],
        cwd=directory,
        env={**inherited, "PYTHONPATH": f"{ROOT}{os.pathsep}{directory}", **ONE_PROCESS},
        input=commands,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done.stdout


def write_files(page: Path, directory: Path) -> list[str]:
    """Write the blocks with `title=FILE` to FILE; returns the names."""
    names = []
    for block in blocks(page):
        title = re.search(r"title=(\S+)", block["info"])
        if title:
            (directory / title[1]).write_text(block["body"])
            names.append(title[1])
    return names


def copy_some_data(directory: Path) -> None:
    """The folder data/ of the checkout with a few episodes of each kind."""
    for file in sorted((ROOT / "data").rglob("*.jsonl")):
        counts: Counter[str] = Counter()
        copy = directory / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        with copy.open("w") as out:
            for line in file.read_text().splitlines(keepends=True):
                kind = json.loads(line)["task"]["kind"]
                counts[kind] += 1
                if counts[kind] <= EPISODES:
                    out.write(line)


@pytest.mark.process
def test_the_quickstart_and_the_python_of_the_readme_run(tmp_path: Path) -> None:
    copy_some_data(tmp_path)
    marked = [TASKS.sub(r"\g<1>2", b["body"]) for b in blocks(QUICKSTART) if b["mark"]]
    assert marked
    (example,) = write_files(ROOT / "README.md", tmp_path)
    script = tmp_path / example
    script.write_text(TASKS.sub(r"\g<1>2", script.read_text()))
    output = run_page("".join([*marked, f"python {example}"]), tmp_path)
    assert "trajectory records, ok" in output
    assert "demo_test" in output
    assert "->" in output.splitlines()[-2]
    assert "ldm on alfworld, demo_test: " in output.splitlines()[-1]


@pytest.mark.process
def test_the_tutorials_run(tmp_path: Path) -> None:
    output = ""
    for name in ("your-own-environment.md", "your-own-agent.md"):  # the second builds on the first
        page = TUTORIALS / name
        assert write_files(page, tmp_path)
        commands = [block["body"] for block in blocks(page) if block["info"] == "bash"]
        assert commands
        output = run_page("".join(commands), tmp_path)
        _, _, evaluated = output.partition("on library:Library, test")
        assert re.search(r"^ all +12 +100\.0 %", evaluated, re.M), output
    assert output.endswith("\nsolved\n")


@pytest.mark.process
def test_the_tutorial_on_an_agents_own_memory_runs(tmp_path: Path) -> None:
    page = TUTORIALS / "support-agent.md"
    assert write_files(page, tmp_path) == ["remember.py", "answer.py"]
    commands = [block["body"] for block in blocks(page) if block["info"] == "bash"]
    (printed,) = (block["body"] for block in blocks(page) if block["info"] == "text")
    output = run_page("".join(commands), tmp_path)
    assert output.startswith("8 steps are remembered\n")
    for part in printed.split("\n…\n"):
        assert part.strip() in output
    assert "outcome: FAILED" in output
    assert "support: 6 trajectories → generation 0." in output
