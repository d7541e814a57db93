"""Arrow Flight as Python users take it: flight.py ADDRESS ENGINE COMMAND

ENGINE says what holds the rows in between: pandas, polars, duckdb, or arrow (which also shows each batch's side
and follows a stream until "rows" of the command, which is ours, are there). Rows are printed in the form of
readers.py, with arrow after a line {"sides": [...], "token": ...}."""

import json
import sys

import pyarrow as pa
import pyarrow.flight as flight

from readers import MARKED, plain


def show(row):
    print(MARKED.sub(r"\1", json.dumps({k: plain(v) for k, v in row.items()}, allow_nan=False)))


def main(address, engine, text):
    command = json.loads(text)
    rows = command.pop("rows", None)
    client = flight.FlightClient("grpc://" + address)
    if engine == "list":
        for info in client.list_flights():
            print(json.dumps({"path": [p.decode() for p in info.descriptor.path], "columns": info.schema.names}))
        return
    descriptor = flight.FlightDescriptor.for_command(json.dumps(command))
    info = client.get_flight_info(descriptor)
    stream = client.do_get(info.endpoints[0].ticket)
    if engine != "arrow":
        table = stream.read_all()
        assert table.schema.names == info.schema.names
        if engine == "pandas":
            import pandas
            # The form that keeps large integers and nulls apart.
            frame = table.to_pandas(types_mapper=pandas.ArrowDtype)
            table = pa.Table.from_pandas(frame, preserve_index=False)
        elif engine == "polars":
            import polars
            table = polars.from_arrow(table).to_arrow()
        elif engine == "duckdb":
            import duckdb
            duckdb.sql("SET TimeZone = 'UTC'")
            events = table  # DuckDB finds it by the variable's name
            table = duckdb.sql("SELECT * FROM events").to_arrow_table()
        for row in table.to_pylist():
            show(row)
        return
    got, sides, token = [], [], None
    while rows is None or len(got) < rows:
        try:
            chunk = stream.read_chunk()
        except StopIteration:
            break
        meta = json.loads(chunk.app_metadata.to_pybytes())
        token = meta["token"]
        if sides[-1:] != [meta["side"]]:
            sides.append(meta["side"])
        got += chunk.data.to_pylist()
    stream.cancel()
    print(json.dumps({"sides": sides, "token": token}))
    for row in got:
        show(row)


main(*sys.argv[1:])
