"""Comparing values up to rounding, and cutting layers into pieces as if they were large."""

import numpy as np


def close(a, b):
    """Equal up to rounding; -∞ is equal only to itself."""
    np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def every_layer_is_large(patch, pieces):
    """Treat every layer as large: on all cores, piece by piece, and perhaps with nodes that are not reached."""
    for module in ("_kernels.parallel", "influence.thresholds"):
        patch.setattr(f"tether.{module}.LARGE", 1)
    for module in ("influence.nodes", "plan.backward"):
        patch.setattr(f"tether.{module}.CHUNKS", pieces)
