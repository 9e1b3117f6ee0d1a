"""One small table as every kind of file, and how the tests of columns read it."""

import gzip
import io

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from pyarrow import feather, ipc, parquet

from tether.errors import FileError
from tether.io.columns import read_columns

WANTED = ["state", "action", "probability"]
LABELS = ["state", "action"]
HEAD = "state,action,probability\n"
TEXT = HEAD + "0,go,0.5\n1,go,1\n"
TABLE = pa.table({"state": [0, 1], "action": ["go", "go"], "probability": [0.5, 1.0]})

in_a_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def read(file, wanted=WANTED, text=LABELS, **options):
    return read_columns(file, wanted, text=text, **options)


def refusal(file, *args, **options):
    """The message of the error, without the folder."""
    with pytest.raises(FileError) as caught:
        read(file, *args, **options)
    for problem in caught.value.problems:
        assert problem.file == file
    return str(caught.value).replace(file.rpartition("/")[0] + "/", "")


def stream_of(table):
    sink = io.BytesIO()
    with ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def bytes_of(table, how):
    sink = pa.BufferOutputStream()
    how(table, sink)
    return sink.getvalue().to_pybytes()


SAME = {
    "a.csv": TEXT.encode(),
    "a.CSV": TEXT.encode(),
    "bom.csv": b"\xef\xbb\xbf" + TEXT.encode(),
    "windows.csv": TEXT.replace("\n", "\r\n").encode(),
    "mac.csv": TEXT.replace("\n", "\r").encode(),
    "unended.csv": TEXT.rstrip().encode(),
    "blank.csv": TEXT.replace("\n", "\n\n").encode(),
    "late.csv": b"\n\n" + TEXT.encode(),
    "spaced.csv": TEXT.replace(",", " , ").encode(),
    "quoted.csv": b'"state","action","probability"\n"0","go","0.5"\n"1","go","1"\n',
    "semicolon.csv": TEXT.replace(",", ";").encode(),
    "tabs.csv": TEXT.replace(",", "\t").encode(),
    "more.csv": b"x,state,probability,action,x\n7,0,0.5,go,\xc3\xa9\n,1,1e0,go,8\n",
    "a.tsv": TEXT.replace(",", "\t").encode(),
    "a.csv.gz": gzip.compress(TEXT.encode(), mtime=0),  # the same bytes, and so the same test name, in every process
    "a.tsv.gz": gzip.compress(TEXT.replace(",", "\t").encode(), mtime=0),
    "a.parquet": bytes_of(TABLE, parquet.write_table),
    "a.pq": bytes_of(TABLE.select([2, 0, 1]), parquet.write_table),
    "a.arrow": bytes_of(TABLE, feather.write_feather),
    "a.feather": bytes_of(TABLE, feather.write_feather),
    "stream.arrow": stream_of(TABLE),
}
