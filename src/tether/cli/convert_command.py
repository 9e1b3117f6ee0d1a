"""``tether convert``: a model from one format into another."""

from __future__ import annotations

import click

from tether._foundation.words import counted
from tether.cli.helping import command
from tether.cli.json_output import print_json
from tether.cli.options import ModelOptions, about_a_model, as_json


@command(
    epilog="""\b
Examples:
  tether convert model.csv model.parquet
  tether convert arrays.npz saved-model --order ASS
  tether convert case:epidemic epidemic.tra

\b
Formats, by their suffixes:
  a saved model     .tether, or no suffix; keeps everything
  csv, tsv          .csv .tsv (also .gz): one row per transition, with columns
                    state, action, next_state, probability[, reward]
  parquet, arrow    .parquet .pq .arrow .feather .ipc: the same
  npz, mat          .npz .mat: arrays P and R; see --order
  prism             .tra, with .sta .lab .srew .trew beside it
  drn               .drn, of Storm"""
)
@about_a_model
@click.argument("out")
@click.option("--to", metavar="NAME", help="The format of OUT, if its name does not say it.")
@click.option("--mean-rewards", is_flag=True, help="Write rewards R(s, a, s') to a DRN file as their means, R(s, a).")
@as_json
def convert(source: ModelOptions, out: str, to: str | None, mean_rewards: bool, as_json: bool) -> None:
    """Convert a model from one format into another.

    The format follows from the name. OUT without a suffix is a saved model, which opens fastest and keeps everything (a
    discount, the counts of a learned model).
    """
    from tether.cli.screen import progress, put
    from tether.io.conversion import convert as converted

    source.refuse_other_columns()
    opened = source.open()
    with progress() as say:
        say(f"writing {out}")
        done = converted(opened, out, to=to, mean_rewards=mean_rewards)
    mdp = done.mdp
    if as_json:
        print_json(
            "convert",
            model=source.model,
            output=out,
            states=mdp.n_states,
            actions=mdp.n_actions,
            pairs=mdp.n_pairs,
            transitions=mdp.n_transitions,
            lost_labels=done.lost_labels,
            numbered=done.numbered,
            notes=done.notes,
        )
        return
    put(f"{source.model} → {out}: {counted(mdp.n_states, 'state')}, {counted(mdp.n_transitions, 'transition')}.")
    if done.lost_labels:
        put(f"This format cannot hold labels. Lost: {', '.join(done.lost_labels)}.")
    if done.numbered:
        put("PRISM's files hold only states of whole numbers and truth values: these states are written as numbers.")
    put(*done.notes)
