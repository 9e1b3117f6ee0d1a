"""``python -m tether.cli``."""

from tether.cli import main

main(prog_name="tether")
