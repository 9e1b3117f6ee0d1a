"""The command line, run in this process: what a command prints, as text, as JSON and as words in one line."""

import json

from click.testing import CliRunner

from tether.cli import main


def run(*arguments, code=0, width=80):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments], env={"COLUMNS": str(width)})
    assert done.exit_code == code, done.output
    return done.stdout


def json_of(*arguments, **options):
    return json.loads(run(*arguments, "--json", **options))


def words(*arguments, **options):
    return " ".join(run(*arguments, **options).split())
