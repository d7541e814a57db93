"""Asks an engine for rows of a Parquet file under many conditions, in a way in which it may leave out pages and row groups,
and in one in which it may not: as expressions of every row.

    pages.py ENGINE[,ENGINE...] JOB OFFSET STEP

The job is a JSON file: {"file", "borders": {leaf: rows that its pages begin with}}. Conditions are made of the values around
borders; every STEPth of them from the OFFSETth is asked. What comes is by engine one JSON object: conditions "asked", those
with rows "found", the "wrong" ones, and how many pages or rows it says that it left out as "pruned", if it says so. Engines
are DuckDB, polars, pyarrow, DataFusion (of delta-rs) and Spark, whose environment has no pyarrow to make conditions with: it
takes those that "conditions" in the place of an engine has written beside the job.
"""

import datetime
import decimal
import json
import os
import pickle
import re
import sys

OPS = ("=", "<>", "<", "<=", ">", ">=")


class Leaf:
    """A leaf outside of lists, as a list of values of Python by row."""

    def __init__(self, path, kind, values):
        self.path, self.kind, self.values = path, kind, values


def leaves(name):
    import pyarrow as pa
    import pyarrow.parquet

    table = pa.parquet.read_table(name, use_threads=False)

    def walk(path, column):
        if pa.types.is_struct(column.type):
            for i, field in enumerate(column.type):
                yield from walk(path + [field.name], pa.compute.struct_field(column, i))
        elif not pa.types.is_list(column.type):
            yield Leaf(path, column.type, column.to_pylist())

    for field in table.schema:
        yield from walk([field.name], table[field.name].combine_chunks())


def step(v):
    """Values beside v, which limits that were cut or rounded must not rule out."""
    if isinstance(v, str):
        return [v[:-1], v[:40], v + "a"] if v else ["a"]
    if isinstance(v, bytes):
        return [v[:-1], v[:40], v + b"\0"] if v else [b"\0"]
    if isinstance(v, bool):
        return [not v]
    if isinstance(v, float):
        return [-v] if v == 0 else [v + 1, -v]
    if isinstance(v, int):
        return [v + 1] if v + 1 < 128 else [v - 1]
    if isinstance(v, datetime.datetime):
        return [v + datetime.timedelta(microseconds=1)]
    if isinstance(v, datetime.date):
        return [v + datetime.timedelta(days=1)]
    return []


def conditions(job):
    """(path, operation, value, kind of value): value is a list for IN."""
    out = []
    for leaf in leaves(job["file"]):
        rows = job["borders"][".".join(leaf.path)]
        seen = [leaf.values[r] for row in {rows[len(rows) // 3], rows[-1]} for r in (row - 1, row) if leaf.values[r] is not None]
        have = [v for v in leaf.values if v is not None and v == v]
        seen += [min(have), max(have)] if have else []
        if seen:
            seen += step(seen[len(seen) // 2])
        values = list({repr(v): v for v in seen}.values())
        for i, v in enumerate(values):
            out += [(leaf.path, op, v, leaf.kind) for op in OPS if i % 3 == 0 or op in ("=", "<", ">=")]
            if isinstance(v, str) and i % 2 == 0:
                out += [(leaf.path, op, v[:n], leaf.kind) for n in (3, 63) for op in ("prefix", "not prefix") if v[:n]]
        if len(values) > 2 and not any(isinstance(v, float) for v in seen):
            out.append((leaf.path, "in", values[:3], leaf.kind))
        out += [(leaf.path, "null", None, leaf.kind), (leaf.path, "not null", None, leaf.kind)]
    return list({repr(c): c for c in out}.values())


def table(name):
    """A Delta table of nothing but the file."""
    from deltalake import convert_to_deltalake

    folder = os.path.dirname(name)
    if not os.path.exists(folder + "/_delta_log"):
        convert_to_deltalake(folder, collect_stats=False)
    return folder


class DuckDB:
    def __init__(self, name):
        import duckdb

        self.db = duckdb.connect()
        self.db.sql("SET TimeZone = 'UTC'")
        self.db.sql("CREATE VIEW t AS SELECT * FROM read_parquet('%s')" % name)

    def one(self, sql):
        return self.db.sql(sql).fetchone()

    def text(self, v, kind):
        return "'%s'" % v

    def raw(self, v):
        return "unhex('%s')" % v.hex()

    def cast(self, v, kind):
        import pyarrow as pa

        if pa.types.is_timestamp(kind):
            name = "TIMESTAMPTZ" if kind.tz else "TIMESTAMP"
        else:
            name = {"double": "DOUBLE", "float": "FLOAT", "int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT",
                    "date32[day]": "DATE"}.get(str(kind)) or "DECIMAL(%d, %d)" % (kind.precision, kind.scale)
        return "CAST('%s' AS %s)" % (v, name)

    def literal(self, v, kind):
        if isinstance(v, str):
            return self.text(v, kind)
        if isinstance(v, bytes):
            return self.raw(v)
        if isinstance(v, bool):
            return str(v).upper()
        return self.cast(v, kind)

    def name(self, path):
        return ".".join('"%s"' % p for p in path)

    def sql(self, path, op, v, kind):
        name = self.name(path)
        if op in ("null", "not null"):
            return "%s IS %s" % (name, op.upper())
        if op == "in":
            return "%s IN (%s)" % (name, ", ".join(self.literal(x, kind) for x in v))
        if op.endswith("prefix"):
            return "%s%s LIKE '%s%%'" % ("NOT " if op != "prefix" else "", name, v)
        return "%s %s %s" % (name, op, self.literal(v, kind))

    def free(self, conditions):
        sums = ["sum(CASE WHEN %s THEN %s ELSE 0 END)" % (c, n) for c in (self.sql(*c) for c in conditions) for n in ("1", "id")]
        row = [int(v) for v in self.one("SELECT %s FROM t" % ", ".join(sums))]
        return list(zip(row[::2], row[1::2]))

    def pruned(self, conditions):
        for c in conditions:
            yield tuple(int(v) for v in self.one("SELECT count(*), coalesce(sum(id), 0) FROM t WHERE " + self.sql(*c)))

    def said(self):
        return None


class DataFusion(DuckDB):
    """That of delta-rs."""

    def __init__(self, name):
        from deltalake import DeltaTable, QueryBuilder

        self.db = QueryBuilder().register("t", DeltaTable(table(name)))
        self.left = 0

    def rows(self, sql):
        import pyarrow as pa

        return pa.table(self.db.execute(sql).read_all()).to_pylist()

    def one(self, sql):
        return list(self.rows(sql)[0].values())

    def raw(self, v):
        return "X'%s'" % v.hex()

    def cast(self, v, kind):
        names = {"double": "Float64", "float": "Float32", "int8": "Int8", "int16": "Int16", "int32": "Int32", "int64": "Int64", "date32[day]": "Date32"}
        import pyarrow as pa

        if pa.types.is_timestamp(kind):
            name = "Timestamp(Microsecond, %s)" % ('Some("UTC")' if kind.tz else "None")
        else:
            name = names.get(str(kind)) or "Decimal128(%d, %d)" % (kind.precision, kind.scale)
        return "arrow_cast('%s', '%s')" % (v, name)

    def name(self, path):
        return '"%s"' % path[0] + "".join("['%s']" % p for p in path[1:])

    def pruned(self, conditions):
        for i, got in enumerate(super().pruned(conditions)):
            if i % 10 == 0:
                plan = str(self.rows("EXPLAIN ANALYZE SELECT id FROM t WHERE " + self.sql(*conditions[i])))
                for total, kept in re.findall(r"page_index_pages_pruned=(\d+) total . (\d+) matched", plan):
                    self.left += int(total) - int(kept)
            yield got

    def said(self):
        return self.left


class Polars:
    def __init__(self, name):
        import polars

        self.pl, self.scan = polars, polars.scan_parquet(name)

    def expression(self, path, op, v, kind):
        import pyarrow as pa

        pl, x = self.pl, self.pl.col(path[0])
        for p in path[1:]:
            x = x.struct.field(p)
        literal = lambda v: pl.lit(pl.from_arrow(pa.array([v], kind))[0], dtype=pl.from_arrow(pa.array([v], kind)).dtype)
        if op in ("null", "not null"):
            return x.is_null() if op == "null" else x.is_not_null()
        if op == "in":
            return x.is_in(pl.from_arrow(pa.array(v, kind)).implode())
        if op.endswith("prefix"):
            return x.str.starts_with(v) if op == "prefix" else ~x.str.starts_with(v)
        return {"=": x.__eq__, "<>": x.__ne__, "<": x.__lt__, "<=": x.__le__, ">": x.__gt__, ">=": x.__ge__}[op](literal(v))

    def free(self, conditions):
        every = self.scan.collect().lazy()
        out = []
        for c in conditions:
            e = self.expression(*c)
            out.append(every.select(e.sum().alias("n"), self.pl.col("id").filter(e).sum()))
        return [f.row(0) for f in self.pl.collect_all(out)]

    def pruned(self, conditions):
        for f in self.pl.collect_all([self.scan.filter(self.expression(*c)).select(self.pl.len(), self.pl.col("id").sum()) for c in conditions]):
            yield f.row(0)

    def said(self):
        return None


class PyArrow:
    def __init__(self, name):
        import pyarrow.dataset

        self.set = pyarrow.dataset.dataset(name)

    def expression(self, path, op, v, kind):
        import pyarrow as pa
        import pyarrow.compute as pc

        x = pc.field(*path)
        if op in ("null", "not null"):
            return x.is_null() if op == "null" else x.is_valid()
        if op == "in":
            return x.isin(pa.array(v, kind))
        if op.endswith("prefix"):
            e = pc.starts_with(x, v)
            return e if op == "prefix" else ~e
        s = pa.scalar(v, kind)
        return {"=": x.__eq__, "<>": x.__ne__, "<": x.__lt__, "<=": x.__le__, ">": x.__gt__, ">=": x.__ge__}[op](s)

    def free(self, conditions):
        import pyarrow.compute as pc
        import pyarrow.dataset

        out = []
        whole = pyarrow.dataset.dataset(self.set.to_table())
        for c in conditions:
            t = whole.to_table(columns={"e": self.expression(*c), "id": pc.field("id")})
            out.append(self.sums(t.filter(t["e"])))
        return out

    def sums(self, t):
        import pyarrow.compute as pc

        return t.num_rows, pc.sum(t["id"]).as_py() or 0

    def pruned(self, conditions):
        for c in conditions:
            yield self.sums(self.set.to_table(columns=["id"], filter=self.expression(*c)))

    def said(self):
        return None


class Spark:
    BATCH = 25

    def __init__(self, name):
        from sparksession import session

        self.spark = session()
        self.frame = self.spark.read.parquet("file://" + name)
        self.kinds = self.frame.schema

    def expression(self, path, op, v, kind):
        from pyspark.sql import functions as F

        x = F.col(".".join("`%s`" % p for p in path))
        field = self.kinds
        for p in path:
            field = field[p].dataType
        if op in ("null", "not null"):
            return x.isNull() if op == "null" else x.isNotNull()
        if op.endswith("prefix"):
            return x.startswith(v) if op == "prefix" else ~x.startswith(v)

        def literal(v):
            if isinstance(v, datetime.datetime) or isinstance(v, decimal.Decimal) or isinstance(v, datetime.date):
                return F.lit(str(v)).cast(field)
            return F.lit(bytearray(v) if isinstance(v, bytes) else v).cast(field)

        if op == "in":
            return x.isin([literal(w) for w in v])
        return {"=": x.__eq__, "<>": x.__ne__, "<": x.__lt__, "<=": x.__le__, ">": x.__gt__, ">=": x.__ge__}[op](literal(v))

    def columns(self):
        """The sum of the hashes of all columns as well: what is read by the offset index."""
        from pyspark.sql import functions as F

        return F.xxhash64(*[F.col("`%s`" % c) for c in self.frame.columns]).cast("decimal(38, 0)")

    def free(self, conditions):
        from pyspark.sql import functions as F

        for i in range(0, len(conditions), self.BATCH):
            sums = []
            for j, c in enumerate(conditions[i:i + self.BATCH]):
                e = self.expression(*c)
                sums += [F.sum(F.when(e, n).otherwise(0)) for n in (F.lit(1), F.col("id"), self.columns() if self.wide(i + j) else F.lit(0))]
            row = [int(v) for v in self.frame.agg(*sums).first()]
            yield from zip(row[::3], row[1::3], row[2::3])

    def wide(self, i):
        return i % 20 == 3

    def pruned(self, conditions):
        from functools import reduce
        from pyspark.sql import functions as F

        for i in range(0, len(conditions), self.BATCH):
            parts = []
            for j, c in enumerate(conditions[i:i + self.BATCH]):
                part = self.frame.where(self.expression(*c))
                hashes = self.columns() if self.wide(i + j) else F.lit(0)
                parts.append(part.agg(F.lit(j).alias("j"), F.count("*"), F.coalesce(F.sum("id"), F.lit(0)), F.coalesce(F.sum(hashes), F.lit(0)).cast("decimal(38, 0)")))
            frame = reduce(lambda a, b: a.union(b), parts)
            rows = sorted(tuple(int(v) for v in row) for row in frame.collect())
            yield from (row[1:] for row in rows)

    def said(self):
        """Rows that the scan leaves out of a row group that has some: those of pages that are not read."""
        from pyspark.sql import functions as F

        out, whole = 0, self.frame.where("id <= 28800").count()  # the first row group
        for name in ("up", "down", "hole", "f32", "dec7", "dec38", "text", "raw", "day", "at", "any", "nan"):
            [value] = self.frame.where("id = 25000").select(F.col(name).cast("string" if name != "raw" else "binary")).first()
            if value is not None:
                plan = self.frame.where(F.col(name) == F.lit(value).cast(self.kinds[name].dataType)).select("id")._jdf.queryExecution().executedPlan()
                plan.execute().count()
                out += max(0, whole - plan.collectLeaves().head().metrics().apply("numOutputRows").value())
        return out


ENGINES = {"DuckDB": DuckDB, "DataFusion": DataFusion, "polars": Polars, "pyarrow": PyArrow, "Spark": Spark}


def main(engines, file, offset=0, step=1):
    with open(file) as f:
        job = json.load(f)
    if engines == "conditions":
        with open(file + ".conditions", "wb") as f:
            pickle.dump([(path, op, v, None) for path, op, v, _ in conditions(job)], f)
        return
    if engines == "Spark":
        with open(file + ".conditions", "rb") as f:
            asked = pickle.load(f)
    else:
        asked = conditions(job)
    asked, report = asked[int(offset)::int(step)], {}
    for name in engines.split(","):
        one, wrong, found = ENGINES[name](job["file"]), [], 0
        for c, want, got in zip(asked, one.free(asked), one.pruned(asked), strict=True):
            found += want[0] > 0
            if tuple(want) != tuple(got):
                wrong.append("%s %s %.200r: rows and sums %s by pages, %s of all" % (".".join(c[0]), c[1], c[2], got, want))
        report[name] = {"asked": len(asked), "found": found, "wrong": wrong, "pruned": one.said()}
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
