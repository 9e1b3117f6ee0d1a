"""Change files of every kind that is read, at random, and see that each is read as it was, or refused in a sentence.

    python tests/fuzz/files.py --seconds 180 --seed 1 --kinds arrow npz

Files are read in child processes. Listed are: crashes (a child that died), hangs, tracebacks (an error that is not a
`tether.TetherError`), and answers that changed without a word. The latter are looked for where they can be noticed: in
files with checksums, such as those of an audit, and in text of which only a bracket, a quote or another sign of its
grammar was changed.
The exit code is 1 if anything is listed. A number of the list repeats its case: ``--seed SEED --only NUMBER``, with the
same ``--kinds``.
"""

from __future__ import annotations

import argparse
import contextlib
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
from typing import Any, NamedTuple

import openpyxl
import pyarrow as pa
from pyarrow import ipc, parquet

import tether
from tether.io import (
    convert,
    open_policy,
    read_episodes,
    read_model,
    read_path,
    read_plan,
    read_sweep,
    read_types,
    write_episodes,
    write_path,
    write_policy,
)
from tether.logs import batches
from tether.model.model_record import ModelRecord

BATCH, PATIENCE = 400, 240.0
"""How many files a child reads, and for how many seconds it is waited for one of them."""

GRAMMAR = {".drn": b'[]{}":', ".tra": b" \n", ".sta": b"(),:", ".lab": b'":=', ".srew": b" \n", ".trew": b" \n",
           ".csv": b",\n", ".tsv": b"\t\n", ".json": b'[]{},:"'}  # fmt: skip
"""Signs whose loss changes what a text says, and not only a number or a name in it."""

TETHER = Path(tether.__file__).parent
CASE = tether.cases.grid_world()
MDP = CASE.mdp.with_names(states=[f"room {s}" for s in CASE.mdp.states])
LOG = {i: MDP.simulate("optimal", 6, rng=i, noise=0.3) for i in range(6)}


class Kind(NamedTuple):
    """Files of one kind, in a folder of their own.

    ``read`` returns all that a user reads of them; it is given the folder. ``is_checked``: the files have checksums, so
    that whatever was changed is noticed.
    """

    make: Callable[[Path], object]
    read: Callable[[Path], Any]
    is_checked: bool = False


def model_file(name: str, *, is_checked: bool = False) -> Kind:
    return Kind(lambda folder: convert(MDP, folder / name), lambda folder: model_in(folder / name), is_checked)


def log_file(name: str, *, is_checked: bool = False) -> Kind:
    return Kind(lambda folder: write_episodes(LOG, folder / name), lambda folder: log_in(folder / name), is_checked)


def path_file(name: str) -> Kind:
    path = tether.Path([f"room {s}" for s in CASE.path.states], CASE.path.actions, outcome="out")
    return Kind(lambda folder: write_path(path, folder / name), lambda folder: path_in(folder / name))


def write_switches(file: Path) -> None:
    """Write a model whose states have parts, numbers and truth values, and whose labels say where it starts."""
    values = [(x, on) for x in range(4) for on in (False, True)]
    mdp = CASE.mdp.with_names(states=[(x, y, on) for x in range(2) for y, on in values])
    convert(mdp.with_labels({"init": [(0, 0, True)], "on": [(1, 2, True), (0, 3, True)]}), file)


def write_prism(folder: Path) -> None:
    write_switches(folder / "e.tra")
    (folder / "e.srew").write_text("16 1\n7 1.5\n")


def write_dictionaries(folder: Path, name: str, write: Callable[[pa.Table, str], object]) -> None:
    """Write a log whose names are dictionaries, in several batches."""
    write_episodes(LOG, folder / "l.arrow")
    table = ipc.open_file(folder / "l.arrow").read_all()
    (folder / "l.arrow").unlink()
    texts = [pa.types.is_string(one.type) for one in table.columns]
    columns = [c.dictionary_encode() if text else c for c, text in zip(table.columns, texts, strict=True)]
    write(pa.table(columns, names=table.column_names), str(folder / name))


def write_ipc(table: pa.Table, name: str, compression: str | None = None) -> None:
    with ipc.new_file(name, table.schema, options=ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table, max_chunksize=10)


def write_stream(table: pa.Table, name: str) -> None:
    with pa.OSFile(name, "wb") as sink, ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=10)


def write_parquet_folder(folder: Path) -> None:
    """Write a log as a directory of Parquet files, which is read piece by piece."""
    ids = sorted(LOG)
    for number, version in enumerate(("1.0", "2.0")):
        some = {i: LOG[i] for i in ids[3 * number : 3 * number + 3]}
        write_dictionaries_of(some, folder / f"part-{number}.parquet", version)


def write_dictionaries_of(some: dict[int, tether.Path], file: Path, version: str) -> None:
    write_episodes(some, file)
    table = parquet.read_table(file)
    parquet.write_table(table, file, row_group_size=7, data_page_version=version, compression="zstd")


def write_workbook(folder: Path) -> None:
    write_episodes(LOG, folder / "l.csv")
    book = openpyxl.Workbook()
    for line in (folder / "l.csv").read_text().splitlines():
        book.active.append([int(cell) if cell.isdigit() else cell or None for cell in line.split(",")])
    book.save(folder / "l.xlsx")
    (folder / "l.csv").unlink()


def write_table_of_policy(folder: Path) -> None:
    lines = [f"{t},{s},{a},{p}" for t in range(3) for s in MDP.states for a, p in (("up", 0.25), ("right", 0.75))]
    (folder / "policy.csv").write_text("t,state,action,probability\n" + "\n".join(lines) + "\n")


def audit_of(folder: Path, *, is_stopped: bool = False) -> Any:
    """All that a user reads of an audit; or nothing, if it is stopped after some batches."""

    def stop(done: int, rows: int) -> None:
        if is_stopped and done > rows // 2:
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        audit = tether.audit(MDP, LOG, k=3, certify=False, out=folder, progress=stop)
        tables = [table.to_pylist() for table in (audit.table, audit.decisions, audit.outcomes, audit.problems)]
        return [*tables, audit.sentences(), audit.top(3).to_pylist(), len(audit)]
    return None


def few_episodes() -> list[tether.Path]:
    """Episodes of a small ward, from which a model is learned."""
    seen = {("treat", "well"): 8, ("treat", "dead"): 2, ("wait", "well"): 2, ("wait", "dead"): 3, ("wait", "sick"): 1}
    return [tether.Path(["sick", after], [did]) for (did, after), times in seen.items() for _ in range(times)]


def learned_model() -> tether.MDP:
    return tether.learn(few_episodes()).with_objective(final_reward={"well": 1.0})


def learned_in(file: Path) -> Any:
    """A learned model with all that it keeps of its log."""
    mdp = read_model(file)
    assert mdp.counts is not None
    return model_in(file), mdp.counts.transitions.tolist(), repr(mdp.counts.pooling), str(mdp.learned)


def audit_of_learned(folder: Path) -> Any:
    """All that a user reads of an audit with folds and placebos."""
    audit = tether.audit(learned_model(), few_episodes(), k=1, out=folder)
    return [audit.table.to_pylist(), audit.decisions.to_pylist(), audit.sentences(), str(audit.placebo)]


def rules_of(folder: Path, *, is_stopped: bool = False) -> Any:
    """Rules whose replays are kept in a directory; or nothing, if they are stopped after some batches."""

    def stop(done: int, rows: int) -> None:
        if is_stopped and done > rows // 2:
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        found = tether.rules(learned_model(), few_episodes(), out=folder, progress=stop)
        return [found.table.to_pylist(), found.sentences()]
    return None


def write_types(folder: Path) -> None:
    """Write a directory of learned types, whose prior depends on the first state."""
    log = few_episodes()
    learned = tether.learn_types(log, by=["frail" if i % 3 else "robust" for i in range(len(log))])
    types = tether.Types(learned.models, {"frail": {"sick": 0.25}, "robust": {"sick": 0.75}})
    types.usual = learned.usual
    types.save(folder)


def types_in(folder: Path) -> Any:
    types = read_types(folder)
    models = {name: rows_of(mdp) for name, mdp in types.models.items()}
    return models, types.prior("sick"), None if types.usual is None else types.usual.tolist(), repr(types)


def model_in(file: Path) -> Any:
    return rows_of(read_model(file))


def rows_of(mdp: ModelRecord) -> Any:
    """All of a model: transitions and labels, in no order."""
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


CF = tether.counterfactual(MDP, tether.Path([f"room {s}" for s in CASE.path.states], CASE.path.actions))


def plan_in(file: Path) -> Any:
    """All that a user reads of a saved plan."""
    saved = read_plan(file)
    actions = [saved.action(t, state, left) for t in range(saved.T) for state in MDP.states for left in range(3)]
    return saved.settings, saved.to_arrow().to_pylist(), actions, saved.path, saved.gain, repr(saved)


def sweep_in(file: Path) -> Any:
    """All that a user reads of a saved sweep."""
    saved = read_sweep(file)
    values = [saved.value(k, m) for k in saved.ks.tolist() for m in saved.ms.tolist()]
    return saved.settings, saved.to_arrow().to_pylist(), values, saved.path, repr(saved)


def write_scheduler(folder: Path, name: str) -> None:
    shares = dict.fromkeys(("up", "right"), 0.5)
    write_policy({s: "up" if i % 3 else shares for i, s in enumerate(MDP.states)}, MDP, folder / name)


def learned_from(folder: Path) -> Any:
    mdp = tether.learn(folder)
    return mdp.states, mdp.actions, tether.audit(mdp, folder, k=2, certify=False).table.to_pylist()


def write_trace(folder: Path) -> None:
    """Write a path as PRISM's simulator does."""
    steps = "".join(f"{action} {t} {t} {str(t > 1).lower()}\n" for t, action in enumerate(["-", "go", "[stay]", "go"]))
    (folder / "trace.txt").write_text("action step x ok\n" + steps)


KINDS = {
    "csv": model_file("m.csv"),
    "tsv": model_file("m.tsv"),
    "gzip": model_file("m.csv.gz", is_checked=True),
    "parquet": model_file("m.parquet"),
    "arrow": model_file("m.arrow"),
    "npz": model_file("m.npz", is_checked=True),
    "mat": model_file("m.mat"),
    "drn": model_file("m.drn"),
    "saved": model_file("m.tether", is_checked=True),
    "saved-learned": Kind(
        lambda folder: learned_model().save(folder / "l.tether"), lambda folder: learned_in(folder / "l.tether"), True
    ),
    "drn-parts": Kind(lambda folder: write_switches(folder / "e.drn"), lambda folder: model_in(folder / "e.drn")),
    "prism": Kind(write_prism, lambda folder: model_in(folder / "e.tra")),
    "path-csv": path_file("p.csv"),
    "path-json": path_file("p.json"),
    "trace": Kind(write_trace, lambda folder: path_in(folder / "trace.txt")),
    "log-csv": log_file("l.csv"),
    "log-gzip": log_file("l.csv.gz", is_checked=True),
    "log-parquet": log_file("l.parquet"),
    "log-arrow": log_file("l.arrow"),
    "arrow-dictionaries": Kind(
        lambda folder: write_dictionaries(folder, "d.arrow", write_ipc), lambda folder: log_in(folder / "d.arrow")
    ),
    "arrow-compressed": Kind(
        lambda folder: write_dictionaries(folder, "z.arrow", lambda table, name: write_ipc(table, name, "zstd")),
        lambda folder: log_in(folder / "z.arrow"),
    ),
    "arrow-stream": Kind(
        lambda folder: write_dictionaries(folder, "s.arrow", write_stream), lambda folder: log_in(folder / "s.arrow")
    ),
    "parquet-folder": Kind(write_parquet_folder, learned_from),
    "log-streamed": Kind(
        lambda folder: write_episodes(LOG, folder / "l.csv"), lambda folder: learned_from(folder / "l.csv")
    ),
    "workbook": Kind(write_workbook, lambda folder: log_in(folder / "l.xlsx"), is_checked=True),
    "policy": Kind(write_table_of_policy, lambda folder: open_policy(folder / "policy.csv", MDP)),
    "scheduler": Kind(
        lambda folder: write_scheduler(folder, "best.json"), lambda folder: open_policy(folder / "best.json", MDP)
    ),
    "strategy": Kind(
        lambda folder: write_scheduler(folder, "best.txt"), lambda folder: open_policy(folder / "best.txt", MDP)
    ),
    "plan": Kind(
        lambda folder: CF.plan(k=6, m=2).save(folder / "p.arrow"), lambda folder: plan_in(folder / "p.arrow"), True
    ),
    "sweep": Kind(
        lambda folder: CF.sweep().save(folder / "s.arrow"), lambda folder: sweep_in(folder / "s.arrow"), is_checked=True
    ),
    "audit-finished": Kind(audit_of, audit_of, is_checked=True),
    "audit-stopped": Kind(lambda folder: audit_of(folder, is_stopped=True), audit_of, is_checked=True),
    "audit-learned": Kind(audit_of_learned, audit_of_learned, is_checked=True),
    "rules": Kind(rules_of, rules_of, is_checked=True),
    "rules-stopped": Kind(lambda folder: rules_of(folder, is_stopped=True), rules_of, is_checked=True),
    "types": Kind(write_types, types_in, is_checked=True),
}  # fmt: skip
"""What is changed, by name."""


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


def change(folder: Path, rng: random.Random) -> tuple[str, bool]:
    """Change one file of a folder; returns its name, and whether only signs of its grammar were changed."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != ".lock")
    file = rng.choice(files)
    whole = rng.random() if len(files) > 1 else 1.0
    only_grammar = False
    if whole < 0.02:
        file.unlink()
    elif whole < 0.05:
        file.write_bytes(rng.choice(files).read_bytes())
    else:
        data, only_grammar = changed(file.read_bytes(), rng, GRAMMAR.get(file.suffix, b""))
        file.write_bytes(data)
    return str(file.relative_to(folder)), only_grammar


def one_case(seed: str, sound: Path, kinds: list[str], known: dict[str, Any]) -> str | None:
    """Change one file of a copy, and read the copy; returns what is to be listed."""
    rng = random.Random(seed)
    name = rng.choice(kinds)
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / name
        shutil.copytree(sound / name, copy)
        file, only_grammar = change(copy, rng)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = KINDS[name].read(copy)
        except tether.TetherError:
            return None
        except Exception as error:
            stack = traceback.extract_tb(error.__traceback__)
            ours = [one for one in stack if Path(one.filename).is_relative_to(TETHER)]
            where = f"{Path(ours[-1].filename).relative_to(TETHER)}:{ours[-1].lineno}" if ours else "?"
            return f"{name}, {file}: traceback: {type(error).__name__} in {where}: {str(error)[:100]}"
    if found != known[name] and (only_grammar or KINDS[name].is_checked):
        return f"{name}, {file}: another answer, without a word"
    return None


def work(seed: int, kinds: list[str], first: int, count: int, progress: Path) -> None:
    """The child: some cases, in order; each finding is a line of JSON."""
    batches.BATCH = 2  # so that an audit has several parts
    with tempfile.TemporaryDirectory() as place:
        sound, known = Path(place), {}
        for name in kinds:
            (sound / name).mkdir()
            KINDS[name].make(sound / name)
            shutil.copytree(sound / name, sound / "copy")  # reading may write: a stopped audit goes on
            known[name] = KINDS[name].read(sound / "copy")
            shutil.rmtree(sound / "copy")
        for number in range(first, first + count):
            progress.write_text(str(number))
            found = one_case(f"{seed}/{number}", sound, kinds, known)
            if found is not None:
                sys.stdout.write(json.dumps([number, found]) + "\n")
                sys.stdout.flush()


def run_child(seed: int, kinds: list[str], first: int, count: int, progress: Path) -> tuple[list[tuple[int, str]], int]:
    """What a child found, and the number of the case after its last one."""
    progress.write_text(str(first))
    program = [sys.executable, __file__, "--seed", str(seed), "--kinds", *kinds]
    program += ["--child", str(first), str(count), str(progress)]
    child = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    at, since, hangs = progress.read_text(), time.monotonic(), False
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            output, errors = child.communicate(timeout=2.0)
            break
        if progress.read_text() != at:
            at, since = progress.read_text(), time.monotonic()
        elif time.monotonic() - since > PATIENCE:
            hangs = True
            child.kill()
    ended = "" if child.returncode == 0 else f"crash: the process ended with {child.returncode}: {errors[-300:]}"
    if hangs:
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
    parser.add_argument("--kinds", nargs="+", choices=sorted(KINDS), default=sorted(KINDS), help="all, if left out")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        work(given.seed, given.kinds, int(given.child[0]), int(given.child[1]), Path(given.child[2]))
        return 0
    print(f"seed {given.seed}", flush=True)
    listed: list[tuple[int, str]] = []
    end, number = time.monotonic() + given.seconds, given.only or 0
    scratch = Path(tempfile.mkdtemp())
    try:
        while time.monotonic() < end:
            count = BATCH if given.only is None else 1
            found, number = run_child(given.seed, given.kinds, number, count, scratch / "progress")
            for one in found:
                print(f"  {one[0]}: {one[1]}", flush=True)
            listed += found
            if given.only is not None:
                break
    finally:
        shutil.rmtree(scratch)
    print(f"{number - (given.only or 0):,} files were changed; {len(listed)} listed")
    return 1 if listed else 0


if __name__ == "__main__":
    sys.exit(main())
