"""Logs of many episodes: rows, checked and put in order, as observed paths."""

from tether.episodes.record import Episodes

__all__ = ["Episodes"]
