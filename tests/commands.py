"""The command line, run in this process: what a command prints, as text, as words and as JSON."""

import json

from click.testing import CliRunner

from tether.cli import main


def run(*arguments, code=0, width=80):
    done = CliRunner().invoke(main, [str(one) for one in arguments], env={"COLUMNS": str(width)})
    assert done.exit_code == code, done.output
    return done.stdout


def told(*arguments, **options):
    return json.loads(run(*arguments, "--json", **options))


def words(*arguments, **options):
    return " ".join(run(*arguments, **options).split())
