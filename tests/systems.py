"""What some tests need of the system they run on."""

import os

import pytest

posix = pytest.mark.skipif(os.name == "nt", reason="signals, links, permissions or pipes as POSIX has them")
