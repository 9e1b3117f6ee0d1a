"""``python -m tether``."""

from tether_start import main

main()
