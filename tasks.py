"""Set-up and chores, on a machine that has only Python (3.11 or later) and git.

    python3 tasks.py demo     fit, compare and report on a table with gaps and few labels
    python3 tasks.py test     run the tests
    python3 tasks.py matrix   run the slower tests: the product of families, objectives and array
                              libraries, the pages of the documentation, the report in a browser, and
                              the benchmarks (installs PyTorch, and as root Debian's Chromium)
    python3 tasks.py check    lint, types, import rules and spelling
    python3 tasks.py docs     build the documentation into docs/_build/html and look at it in a browser
    python3 tasks.py release  build wheel and sdist, check their metadata, and try them with the
                              oldest and the newest supported versions of the hard dependencies

Each makes the virtual environment .venv beside this file and installs what it needs there, once.
Of several tasks (python3 tasks.py test release check docs) two run at a time, while the needs of others are
installed, and print when they end.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent
FOLDER = ROOT / ".venv"
PYTHON = FOLDER / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
PIP = [PYTHON, "-m", "pip", "--quiet", "--disable-pip-version-check"]
TORCH = "torch==2.13.0"

#: Each process gets half of the files, so that few of them set up the same thing, and helps the other at the end.
TWO_AT_A_TIME = ["-n", "2", "--dist", "worksteal"]


def run(*command: str | Path) -> None:
    """Run a command in the project's folder; stop where it fails."""
    code = subprocess.run([str(part) for part in command], cwd=ROOT).returncode
    if code:
        sys.exit(code)


def install(*names: str) -> None:
    """The package itself, editable, its extras of these names, and other packages: what is new or has changed."""
    toml = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = tomllib.loads(toml)["project"]["optional-dependencies"]
    wanted = {"latentia": ["-e", "."], **{name: extras.get(name, [name]) for name in names}}
    stamps = {name: FOLDER / f"installed-{name}" for name in wanted}
    digest = hashlib.sha256(toml.encode()).hexdigest()
    missing = [name for name in wanted if not stamps[name].exists() or stamps[name].read_text() != digest]
    if not missing:
        return
    if not PYTHON.exists():
        print(f"Making the virtual environment {FOLDER.name} ...", flush=True)
        venv.create(FOLDER, with_pip=True)
        run(*PIP, "install", "--upgrade", "pip", "uv")
    print("Installing ...", flush=True)
    install_into(PYTHON, *(part for name in missing for part in wanted[name]))
    for name in missing:
        stamps[name].write_text(digest)


def install_into(python: Path, *requirements: str | Path) -> None:
    """With uv, three times as fast; else with pip, which may be told of builds of PyTorch that uv does not see."""
    uv = [PYTHON, "-m", "uv", "pip", "install", "--quiet", "--python", python, *requirements]
    if TORCH in requirements or subprocess.run(uv, cwd=ROOT, stderr=subprocess.DEVNULL).returncode:
        run(*PIP, "--python", python, "install", "--no-compile", *requirements)  # most modules are never imported


def prepare(step: str) -> None:
    """Install what it needs."""
    install(*NEEDS[step])
    if "browser" in NEEDS[step]:
        install_chromium()


def install_chromium() -> None:
    """Debian's Chromium where it is missing and may be installed; else the tests that need it are skipped."""
    may_install = hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get")
    if shutil.which("chromium") or not may_install:
        return
    print("Installing Chromium ...", flush=True)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", "chromium"]):
        done = subprocess.run(command, env=quiet, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        print(f"Chromium could not be installed, and its tests are skipped: {done.stderr.strip()[-300:]}", flush=True)


def demo() -> None:
    run(PYTHON, "-m", "latentia", "demo")


def one_thread() -> None:
    """For processes that run beside others: more threads would wait for each other."""
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"


def pytest(*arguments: str) -> None:
    one_thread()
    run(PYTHON, "-m", "pytest", *TWO_AT_A_TIME, *arguments)


def test() -> None:
    pytest(*sys.argv[2:])


def matrix() -> None:
    os.environ["SCIPY_ARRAY_API"] = "1"  # scikit-learn dispatches on arrays only if SciPy does
    pytest("-m", "matrix", *(sys.argv[2:] or ["tests", "benchmarks/tests"]))


SITE = ROOT / "docs" / "_build" / "html"


def pages() -> None:
    quiet = ["--quiet", "--fail-on-warning", "--keep-going", "--nitpicky"]
    os.environ["MPLBACKEND"] = "agg"
    one_thread()
    run(PYTHON, "-m", "sphinx", "-b", "html", *quiet, "-d", SITE.parent / "doctrees", "docs", SITE)


def site() -> None:
    run(PYTHON, "-m", "pytest", "docs/tests")
    print(f"The site: {SITE / 'index.html'}")


def release() -> None:
    """Nothing is uploaded."""
    one_thread()
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    run(PYTHON, "-m", "build", "--no-isolation", "--outdir", "dist")  # the sdist is built in isolation when it is tried
    files = sorted((ROOT / "dist").iterdir())
    run(PYTHON, "-m", "twine", "check", "--strict", *files)
    (wheel,), (sdist,) = (ROOT / "dist").glob("*.whl"), (ROOT / "dist").glob("*.tar.gz")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    oldest = [requirement.replace(">=", "==") + ".*" for requirement in project["dependencies"]]
    with ThreadPoolExecutor() as pool:
        tries = [pool.submit(try_packages, "oldest", [wheel], oldest)]
        tries += [pool.submit(try_packages, "newest", [wheel, sdist], [])]
    for done in tries:
        done.result()


def try_packages(name: str, packages: list[Path], pins: list[str]) -> None:
    """Each package in turn, in one fresh environment with the dependencies of the first."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder)
        python = Path(folder) / PYTHON.relative_to(FOLDER)
        shutil.copy(ROOT / "tests" / "smoke.py", folder)
        for package in packages:
            print(f"{package.name} with the {name} versions ...", flush=True)
            options = pins if package is packages[0] else ["--no-deps", "--force-reinstall"]
            install_into(python, package, *options)
            done = subprocess.run([python, "smoke.py"], cwd=folder)  # where the repository is out of reach
            if done.returncode:
                sys.exit(done.returncode)


def check() -> None:
    folders = ["src", "tests", "benchmarks", "examples", "docs", "tasks.py", "hatch_build.py"]
    run(PYTHON, "-m", "ruff", "check", *folders)
    run(PYTHON, "-m", "ruff", "format", "--check", *folders)
    run(PYTHON, "-m", "mypy")
    run(FOLDER / PYTHON.parent.name / "lint-imports")
    run(PYTHON, "-m", "codespell_lib", *folders, "README.md", "CHANGELOG.md", "CONTRIBUTING.md")


STEPS = {step.__name__: step for step in (demo, test, matrix, check, pages, site, release)}

#: Tasks, each of one step, but for the documentation: the browser that looks at it is installed while it is built.
TASKS = {name: [name] for name in ("demo", "test", "matrix", "check", "release")} | {"docs": ["pages", "site"]}

#: Extras of the package that a step needs, and other packages.
NEEDS = {
    "demo": ["cli"],
    "test": ["test"],
    "matrix": ["test", "browser", TORCH],
    "check": ["test", "dev"],
    "pages": ["test", "docs"],
    "site": ["test", "docs", "browser"],
    "release": ["release", "hatchling"],
}


#: Steps that run two processes themselves, and those that another must come before.
ALONE = ("test", "matrix")
AFTER = {"site": "pages"}


def side_by_side(steps: list[str]) -> None:
    """Two at a time, each in its own process; meanwhile the needs of others are installed. Ends where one fails."""
    stages: list[list[str]] = []
    for step in steps:
        if stages and not {step, *stages[-1]} & set(ALONE):
            stages[-1].append(step)
        else:
            stages.append([step])
    ready: dict[str, Future[None]] = {}
    ended: dict[str, Future[subprocess.CompletedProcess[str]]] = {}

    def in_a_process(step: str) -> subprocess.CompletedProcess[str]:
        ready[step].result()
        if AFTER.get(step) in ended and ended[AFTER[step]].result().returncode:
            return subprocess.CompletedProcess([], 1, f"Not tried: {AFTER[step]} failed.")
        command = [sys.executable, __file__, step]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    for stage, following in zip(stages, [*stages[1:], []], strict=True):
        stage.sort(key=lambda step: step in AFTER)
        with ThreadPoolExecutor(1) as installing, ThreadPoolExecutor(2) as running:
            ready |= {step: installing.submit(prepare, step) for step in [*stage, *following] if step not in ready}
            for step in stage:
                ended[step] = running.submit(in_a_process, step)
        for step in stage:
            print(f"--- {step}\n{ended[step].result().stdout}", flush=True)
        if any(ended[step].result().returncode for step in stage):
            sys.exit(1)


if __name__ == "__main__":
    names = sys.argv[1:] if set(sys.argv[1:]) <= set(TASKS) else sys.argv[1:2]
    if not names or names[0] not in TASKS and names[0] not in STEPS:
        sys.exit(__doc__)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or every process compiles every module that it imports
    if len(names) > 1:
        side_by_side([step for name in names for step in TASKS[name]])
    else:
        for step in TASKS.get(names[0], names):
            prepare(step)
            STEPS[step]()
