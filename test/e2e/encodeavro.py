"""Random Avro schemas and records, encoded by fastavro: encodeavro.py SEED SCHEMAS RECORDS.

A line is {"schema", "soe": the 8 bytes of the fingerprint, "rows": [{"hex", "container", "want"}]}. want has the values as
test code compares them: floats as the bits of a double, bytes as hex, decimals as text, dates as days, timestamps as
microseconds.
"""
import datetime
import decimal
import io
import json
import random
import struct
import sys
import uuid

import fastavro
import fastavro.schema

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
rng = random.Random(int(sys.argv[1]))
decimal.getcontext().prec = 60


def bits(x):
    return "f:" + struct.pack(">d", x).hex()


def text():
    return "".join(rng.choice("abcXYZ 0129\u00e9\u4e2d\U0001f600\"\\\n\0") for _ in range(rng.choice([0, 1, 5, 15, 40])))


def integer(n):
    k = rng.choice([0, 3, 7, 15, n - 1])
    return rng.choice([rng.randrange(-(1 << k), 1 << k), -(1 << (n - 1)), (1 << (n - 1)) - 1, 0, -1])


class Schemas:
    """Makes one schema; types are pairs of the schema and a function that gives (value, want)."""

    def __init__(self):
        self.names = 0
        self.named = []

    def name(self, prefix):
        self.names += 1
        return "%s%d" % (prefix, self.names)

    def scalar(self):
        kind = rng.choice(["int", "long", "float", "double", "boolean", "string", "bytes", "fixed", "enum", "decimal",
                           "decimal-fixed", "date", "time-millis", "time-micros", "ts-millis", "ts-micros", "ts-nanos",
                           "local-millis", "local-micros", "uuid", "uuid-fixed"])
        return getattr(self, kind.replace("-", "_"))()

    def int(self):
        def make():
            v = integer(32)
            return v, v
        return "int", make

    def long(self):
        def make():
            v = integer(64)
            return v, v
        return "long", make

    def float(self):
        def make():
            v = struct.unpack("<f", struct.pack("<f", rng.choice([0.0, -0.0, 1.5, rng.uniform(-1e9, 1e9), float("inf")])))[0]
            return v, bits(v)
        return "float", make

    def double(self):
        def make():
            v = rng.choice([0.0, -0.0, 1e300, rng.uniform(-1e9, 1e9), float("-inf")])
            return v, bits(v)
        return "double", make

    def boolean(self):
        def make():
            v = rng.random() < 0.5
            return v, v
        return "boolean", make

    def string(self):
        def make():
            v = text()
            return v, v
        return "string", make

    def bytes(self):
        def make():
            v = rng.randbytes(rng.choice([0, 1, 7, 30]))
            return v, v.hex()
        return "bytes", make

    def fixed(self):
        n = rng.choice([1, 4, 16])

        def make():
            v = rng.randbytes(n)
            return v, v.hex()
        return {"type": "fixed", "name": self.name("Fix"), "size": n}, make

    def enum(self):
        symbols = ["S%d" % i for i in range(rng.choice([1, 3, 200]))]

        def make():
            v = rng.choice(symbols)
            return v, v
        return {"type": "enum", "name": self.name("Enum"), "symbols": symbols}, make

    def some_decimal(self, precision, scale):
        def make():
            n = rng.randrange(10 ** rng.randint(1, precision))
            v = decimal.Decimal(rng.choice([-1, 1]) * n).scaleb(-scale)
            return v, "{:f}".format(v)
        return make

    def decimal(self):
        p = rng.randint(1, 38)
        s = rng.randint(0, p)
        return {"type": "bytes", "logicalType": "decimal", "precision": p, "scale": s}, self.some_decimal(p, s)

    def decimal_fixed(self):
        n, p = rng.choice([(4, 9), (8, 18), (16, 38), (20, 38)])
        s = rng.randint(0, p)
        t = {"type": "fixed", "name": self.name("Dec"), "size": n, "logicalType": "decimal", "precision": p, "scale": s}
        return t, self.some_decimal(p, s)

    def date(self):
        def make():
            v = rng.randrange(-100000, 200000)
            d = datetime.date(1970, 1, 1) + datetime.timedelta(days=v)
            return d, v
        return {"type": "int", "logicalType": "date"}, make

    def time_millis(self):
        def make():
            v = rng.randrange(86400000)
            return (datetime.datetime.min + datetime.timedelta(milliseconds=v)).time(), v
        return {"type": "int", "logicalType": "time-millis"}, make

    def time_micros(self):
        def make():
            v = rng.randrange(86400000000)
            return (datetime.datetime.min + datetime.timedelta(microseconds=v)).time(), v
        return {"type": "long", "logicalType": "time-micros"}, make

    def stamp(self, logical, per_micro):
        def make():
            v = rng.randrange(-60000000000, 250000000000) * 1000000 + rng.randrange(1000000)
            if logical.endswith("millis"):
                v -= v % 1000
            if logical.endswith("nanos"):
                n = v * 1000 % (1 << 62)
                return n, n // 1000
            t = EPOCH + datetime.timedelta(microseconds=v)
            return (t if not logical.startswith("local") else t.replace(tzinfo=None)), v
        return {"type": "long", "logicalType": logical}, make

    def ts_millis(self):
        return self.stamp("timestamp-millis", 0)

    def ts_micros(self):
        return self.stamp("timestamp-micros", 0)

    def ts_nanos(self):
        return self.stamp("timestamp-nanos", 0)

    def local_millis(self):
        return self.stamp("local-timestamp-millis", 0)

    def local_micros(self):
        return self.stamp("local-timestamp-micros", 0)

    def uuid(self):
        def make():
            v = uuid.UUID(int=rng.getrandbits(128))
            return v, str(v)
        return {"type": "string", "logicalType": "uuid"}, make

    def uuid_fixed(self):
        def make():
            v = uuid.UUID(int=rng.getrandbits(128))
            return v.bytes, str(v)
        return {"type": "fixed", "name": self.name("Uid"), "size": 16, "logicalType": "uuid"}, make

    def type(self, depth):
        k = rng.random()
        if self.named and k < 0.1:
            return rng.choice(self.named)
        if depth > 0 and k < 0.45:
            kind = rng.choice(["record", "array", "map", "null", "null"])
            return getattr(self, "a_" + kind)(depth - 1)
        t = self.scalar()
        if isinstance(t[0], dict) and "name" in t[0]:
            self.named.append((t[0]["name"], t[1]))
        return t

    def a_record(self, depth):
        name = self.name("Rec")
        fields = [("f%d" % i,) + self.type(depth) for i in range(rng.choice([1, 2, 4]))]

        def make():
            value, want = {}, {}
            for n, _, f in fields:
                value[n], want[n] = f()
            return value, want
        self.named.append((name, make))
        return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t, _ in fields]}, make

    def a_array(self, depth):
        t, f = self.type(depth)

        def make():
            got = [f() for _ in range(rng.choice([0, 1, 3, 20]))]
            return [v for v, _ in got], [w for _, w in got]
        return {"type": "array", "items": t}, make

    def a_map(self, depth):
        t, f = self.type(depth)

        def make():
            got = {text() or "k": f() for _ in range(rng.choice([0, 1, 3, 12]))}
            return {k: v for k, (v, _) in got.items()}, {k: w for k, (_, w) in got.items()}
        return {"type": "map", "values": t}, make

    def a_null(self, depth):
        t, f = self.type(depth)
        if isinstance(t, list):
            return t, f

        def make():
            return (None, None) if rng.random() < 0.3 else f()
        return (["null", t] if rng.random() < 0.7 else [t, "null"]), make

    def root(self):
        fields = [("c%d" % i,) + self.type(3) for i in range(rng.randint(1, 12))]

        def make():
            value, want = {}, {}
            for n, _, f in fields:
                value[n], want[n] = f()
            return value, want
        return {"type": "record", "name": "Root", "namespace": "org.example",
                "fields": [{"name": n, "type": t} for n, t, _ in fields]}, make


for _ in range(int(sys.argv[2])):
    schema, make = Schemas().root()
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    rows = []
    for _ in range(int(sys.argv[3])):
        value, want = make()
        raw = io.BytesIO()
        fastavro.schemaless_writer(raw, parsed, value)
        file = io.BytesIO()
        fastavro.writer(file, parsed, [value], codec=rng.choice(["null", "deflate"]))
        rows.append({"hex": raw.getvalue().hex(), "container": file.getvalue().hex(), "want": want})
    soe = fastavro.schema.fingerprint(fastavro.schema.to_parsing_canonical_form(schema), "CRC-64-AVRO")
    print(json.dumps({"schema": json.dumps(schema), "soe": soe, "rows": rows}))
