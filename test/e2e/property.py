"""Reads tables as property_test.go asks on standard input: property.py duckdb|deltars

The input is a list of {"path", "where": [{"column", "op", "kind", "value"}]}. For each table it prints its rows as
{"table": N, "row": {...}}, the ids of the rows that a condition selects as {"table": N, "where": I, "ids": [...]},
or {"table": N, "error": "..."}. Conditions may be SQL instead, {"path", "sql": ["..."]}: then the rows are not printed,
and what one condition fails by is {"table": N, "where": I, "error": "..."}."""

import json
import sys

from readers import MARKED, duckdb_connection, plain


def literal(c):
    if c["kind"] == "text":
        return "'%s'" % c["value"].replace("'", "''")
    if c["kind"] == "date":
        return "DATE '%s'" % c["value"]
    if c["kind"].startswith("decimal"):
        return "CAST('%s' AS %s)" % (c["value"], c["kind"])
    return str(c["value"])


def sql(c):
    name = '"%s"' % c["column"].replace('"', '""')
    return "%s %s" % (name, c["op"] if c["op"] == "is null" else c["op"] + " " + literal(c))


class DuckDB:
    def __init__(self):
        self.connection = duckdb_connection("")

    def rows(self, path):
        c = self.connection.execute("SELECT * FROM delta_scan(?)", [path])
        names = [d[0] for d in c.description]
        return [dict(zip(names, row)) for row in c.fetchall()]

    def ids(self, path, where):
        return self.select(path, sql(where))

    def select(self, path, where):
        return [r[0] for r in self.connection.execute("SELECT id FROM delta_scan(?) WHERE " + where, [path]).fetchall()]


class DeltaRS:
    def rows(self, path, query="SELECT * FROM t"):
        import pyarrow as pa
        from deltalake import DeltaTable, QueryBuilder

        reader = QueryBuilder().register("t", DeltaTable(path)).execute(query)
        return [row for batch in pa.RecordBatchReader.from_stream(reader) for row in batch.to_pylist()]

    def ids(self, path, where):
        return self.select(path, sql(where))

    def select(self, path, where):
        return [r["id"] for r in self.rows(path, "SELECT id FROM t WHERE " + where)]


def answer(engine, jobs):
    for n, job in enumerate(jobs):
        for i, where in enumerate(job.get("sql") or []):
            try:
                print(json.dumps({"table": n, "where": i, "ids": engine.select(job["path"], where)}))
            except Exception as e:
                print(json.dumps({"table": n, "where": i, "error": "%s: %s" % (type(e).__name__, str(e)[:2000])}))
        if job.get("sql"):
            continue
        try:
            for row in engine.rows(job["path"]):
                text = json.dumps({"table": n, "row": {k: plain(v) for k, v in row.items()}}, allow_nan=False)
                print(MARKED.sub(r"\1", text))
            for i, where in enumerate(job["where"]):
                print(json.dumps({"table": n, "where": i, "ids": engine.ids(job["path"], where)}))
        except Exception as e:  # the test says what it was
            print(json.dumps({"table": n, "error": "%s: %s" % (type(e).__name__, e)}))


if __name__ == "__main__":
    answer({"duckdb": DuckDB, "deltars": DeltaRS}[sys.argv[1]](), json.load(sys.stdin))
