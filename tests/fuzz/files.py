"""Change files of every format that is read, at random, and see that each is read as it was, or refused in a sentence.

    python tests/fuzz/files.py --seconds 180 --seed 1

Files are read in child processes. Listed are: crashes (a child that died), hangs, tracebacks (an error that is not a
`tether.TetherError`), and answers that changed without a word. The latter are looked for where they can be noticed: in
formats with checksums, and in text of which only a bracket, a quote or another sign of its grammar was changed.
The exit code is 1 if anything is listed. A number of the list repeats its case: ``--only NUMBER``.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
from pyarrow import ipc

import tether
from tether.io import convert, read_episodes, read_model, read_path, write_episodes, write_path

BATCH, PATIENCE = 200, 120.0
"""How many files a child reads, and for how many seconds it is waited for."""

CHECKED = (".gz", ".npz", ".xlsx", ".tether")
"""Files with checksums: what was changed in them is noticed."""

GRAMMAR = {".drn": b'[]{}":', ".tra": b" \n", ".sta": b"(),:", ".lab": b'":=', ".srew": b" \n", ".trew": b" \n",
           ".csv": b",\n", ".json": b'[]{},:"'}  # fmt: skip
"""Signs whose loss changes what a text says, and not only a number or a name in it."""

TETHER = Path(tether.__file__).parent


def make_files(folder: Path) -> dict[str, Callable[[Path], Any]]:
    """Write one file of each format; returns how each is read."""
    case = tether.cases.grid_world()
    mdp = case.mdp.with_names(states=[f"room {s}" for s in case.mdp.states])
    path = tether.Path([f"room {s}" for s in case.path.states], case.path.actions, outcome="out")
    log = {i: mdp.simulate("optimal", 6, rng=i, noise=0.3) for i in range(6)}
    readers: dict[str, Callable[[Path], Any]] = {}
    for name in ("m.csv", "m.csv.gz", "m.parquet", "m.arrow", "m.npz", "m.mat", "m.drn", "m.tether"):
        convert(mdp, folder / name)
        readers[name] = model_in
    values = [(x, on) for x in range(4) for on in (False, True)]
    switches = case.mdp.with_names(states=[(x, y, on) for x in range(2) for y, on in values])
    for name in ("e.tra", "e.drn"):
        convert(switches.with_labels({"init": [(0, 0, True)], "on": [(1, 2, True), (0, 3, True)]}), folder / name)
        readers[name] = model_in
    (folder / "e.srew").write_text("16 1\n7 1.5\n")
    for beside in ("e.sta", "e.lab", "e.trew", "e.srew"):
        readers[beside] = lambda file: model_in(file.with_suffix(".tra"))
    write_dictionaries(folder / "d.arrow", folder / "m.arrow")
    readers["d.arrow"] = model_in
    for name in ("p.csv", "p.json"):
        write_path(path, folder / name)
        readers[name] = path_in
    for name in ("l.csv", "l.csv.gz", "l.parquet", "l.arrow"):
        write_episodes(log, folder / name)
        readers[name] = log_in
    write_workbook(folder / "l.xlsx", folder / "l.csv")
    readers["l.xlsx"] = log_in
    return readers


def write_dictionaries(file: Path, source: Path) -> None:
    table = ipc.open_file(source).read_all()
    names = [table.column(name).dictionary_encode() for name in ("state", "action", "next_state")]
    table = pa.table([*names, *table.columns[3:]], names=table.column_names)
    with ipc.new_file(str(file), table.schema) as writer:
        writer.write_table(table, max_chunksize=50)


def write_workbook(file: Path, source: Path) -> None:
    book = openpyxl.Workbook()
    for line in source.read_text().splitlines():
        book.active.append([int(cell) if cell.isdigit() else cell or None for cell in line.split(",")])
    book.save(file)


def model_in(file: Path) -> Any:
    """All of a model: transitions and labels, in no order."""
    mdp = read_model(file)
    rows = {
        (repr(s), repr(a), repr(to)): (float(p), mdp.reward(s, a, to))
        for s in mdp.states for a in mdp.actions_in(s) for to, p in zip(*mdp.row(s, a), strict=True)
    }  # fmt: skip
    return rows, {name: sorted(map(repr, states)) for name, states in mdp.labels.items()}


def path_in(file: Path) -> Any:
    path = read_path(file)
    return path.states, path.actions, path.rewards, path.outcome


def log_in(file: Path) -> Any:
    log = read_episodes(file)
    return {id: (log[id].states, log[id].actions, log[id].rewards) for id in log.ids}


def changed(data: bytes, rng: random.Random, signs: bytes) -> tuple[bytes, bool]:
    """Some bytes other than they were; and whether only signs of the grammar were changed."""
    places = [i for i, byte in enumerate(data) if byte in signs] if signs and rng.random() < 0.5 else []
    if places:
        at = rng.choice(places)
        return data[:at] + rng.choice([b"", data[at : at + 1] * 2]) + data[at + 1 :], True
    for _ in range(rng.choice([1, 1, 2, 4])):
        at, length = rng.randrange(len(data) + 1), rng.choice([1, 1, 1, 2, 4, 8, 64])
        new = {
            "bit": bytes(byte ^ (1 << rng.randrange(8)) for byte in data[at : at + 1]),
            "byte": bytes([rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])]),
            "removed": b"",
            "doubled": data[at : at + length] * 2,
            "moved": data[(there := rng.randrange(len(data) + 1)) : there + length],
            "cut": None,
        }[rng.choice(["bit", "bit", "byte", "byte", "removed", "doubled", "moved", "cut"])]
        data = data[:at] if new is None else data[:at] + new + data[at + max(len(new), 1) :]
    return data, False


def one_case(seed: str, folder: Path, readers: dict[str, Callable[[Path], Any]], known: dict[str, Any]) -> str | None:
    """Change one file, read it, and restore it; returns what is to be listed."""
    rng = random.Random(seed)
    name = rng.choice(sorted(readers))
    file = folder / name
    before = file.read_bytes()
    after, only_grammar = changed(before, rng, GRAMMAR.get(file.suffix, b""))
    file.write_bytes(after)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = readers[name](file)
    except tether.TetherError:
        return None
    except Exception as error:
        where = [one for one in traceback.extract_tb(error.__traceback__) if Path(one.filename).is_relative_to(TETHER)]
        place = f"{Path(where[-1].filename).relative_to(TETHER)}:{where[-1].lineno}" if where else "?"
        return f"{name}: traceback: {type(error).__name__} in {place}: {str(error)[:100]}"
    finally:
        file.write_bytes(before)
    if found != known[name] and (only_grammar or name.endswith(CHECKED)):
        return f"{name}: another answer, without a word"
    return None


def work(seed: int, first: int, count: int, progress: Path) -> None:
    """The child: some cases, in order; each finding is a line of JSON."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        readers = make_files(folder)
        known = {name: read(folder / name) for name, read in readers.items()}
        for number in range(first, first + count):
            progress.write_text(str(number))
            found = one_case(f"{seed}/{number}", folder, readers, known)
            if found is not None:
                sys.stdout.write(json.dumps([number, found]) + "\n")
                sys.stdout.flush()


def run_child(seed: int, first: int, count: int, progress: Path) -> tuple[list[tuple[int, str]], int]:
    """What a child found, and the number of the case after its last one."""
    progress.write_text(str(first))
    program = [sys.executable, __file__, "--seed", str(seed), "--child", str(first), str(count), str(progress)]
    child = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        output, errors = child.communicate(timeout=PATIENCE)
        ended = "" if child.returncode == 0 else f"crash: the process ended with {child.returncode}: {errors[-300:]}"
    except subprocess.TimeoutExpired:
        child.kill()
        output, _ = child.communicate()
        ended = f"hang: no end after {PATIENCE:g} s"
    found = [(int(number), str(text)) for number, text in map(json.loads, output.splitlines())]
    if not ended:
        return found, first + count
    last = int(progress.read_text())
    return [*found, (last, ended)], last + 1


def main() -> int:
    """Run children one after the other until the time is over; list what they found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--only", type=int, help="the number of one case")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        work(given.seed, int(given.child[0]), int(given.child[1]), Path(given.child[2]))
        return 0
    print(f"seed {given.seed}", flush=True)
    listed: list[tuple[int, str]] = []
    end, number = time.monotonic() + given.seconds, given.only or 0
    scratch = Path(tempfile.mkdtemp())
    try:
        while time.monotonic() < end:
            count = BATCH if given.only is None else 1
            found, number = run_child(given.seed, number, count, scratch / "progress")
            for one in found:
                print(f"  {one[0]}: {one[1]}", flush=True)
            listed += found
            if given.only is not None:
                break
    finally:
        shutil.rmtree(scratch)
    print(f"{number:,} files were changed; {len(listed)} listed")
    return 1 if listed else 0


if __name__ == "__main__":
    sys.exit(main())
