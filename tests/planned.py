"""Values that are equal but for rounding, and layers that are cut into pieces as if they were large."""

import numpy as np


def close(a, b):
    """Equal but for rounding; -∞ is equal to itself only."""
    np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def every_layer_is_large(patch, pieces):
    """Large layers are done on all cores, piece by piece; and nodes that are not reached may be among the planned."""
    for module in ("_kernels.parallel", "influence.thresholds"):
        patch.setattr(f"tether.{module}.LARGE", 1)
    for module in ("influence.nodes", "plan.backward"):
        patch.setattr(f"tether.{module}.CHUNKS", pieces)
