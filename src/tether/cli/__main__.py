"""``python -m tether.cli``, the same as ``python -m tether``."""

from tether_start import main

main()
