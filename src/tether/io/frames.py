"""Dataframes of any library, as Arrow tables: by the Arrow interface they export, or by the older interchange."""

from __future__ import annotations

from typing import Any

from tether._foundation.problems import Located

__all__ = ["collected", "frame_names", "frame_to_arrow"]


def collected(frame: Any) -> Any:
    """The rows of a lazy dataframe (polars' LazyFrame); any other dataframe as it is."""
    return frame.collect() if hasattr(frame, "collect") and hasattr(frame, "collect_schema") else frame


def frame_names(frame: Any) -> list[Any] | None:
    """The names of a dataframe's columns, if columns can also be taken from it by name."""
    names = getattr(frame, "column_names", None)
    if names is None:
        names = getattr(frame, "columns", None)
    if names is None or callable(names) or not hasattr(frame, "__getitem__"):
        return None
    return list(names)


def frame_to_arrow(frame: Any, some: list[Any] | None, error: Located) -> Any:
    """An Arrow table of some columns, or of all; None if Arrow has no type for their contents."""
    import pyarrow as pa

    try:
        if some is not None:
            frame = frame.select(some) if isinstance(frame, pa.Table | pa.RecordBatch) else frame[some]
        if isinstance(frame, pa.Table):
            return frame
        if isinstance(frame, pa.RecordBatchReader):
            return frame.read_all()
        if hasattr(frame, "__arrow_c_stream__") or hasattr(frame, "__arrow_c_array__"):
            return pa.table(frame)
        if hasattr(frame, "__dataframe__"):
            from pyarrow.interchange import from_dataframe

            return from_dataframe(frame)
    except Exception as cause:  # the dataframe's own code, which may raise anything
        if some is not None:
            return None
        reason = str(cause).partition("\n")[0]
        raise error(f"the {type(frame).__name__} cannot be read as an Arrow table: {reason}") from None
    wanted = "a dataframe (pandas, polars, …), an Arrow table, or a dict of columns"
    raise error(f"expected {wanted}, not {type(frame).__name__}")
