"""Random Protobuf messages, encoded by Google's Python library: encodeproto.py SEED SCHEMAS RECORDS.

A line is {"set": a FileDescriptorSet in hex, "message", "rows": [{"hex", "want"}]}. want has the values as test code
compares them: floats as the bits of a double, bytes as hex, decimals as text, timestamps as microseconds.
"""
import json
import random
import struct
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory, timestamp_pb2, wrappers_pb2

F = descriptor_pb2.FieldDescriptorProto
rng = random.Random(int(sys.argv[1]))
IMPORTS = [timestamp_pb2, duration_pb2, wrappers_pb2]


def bits(x):
    return "f:" + struct.pack(">d", x).hex()


def text():
    return "".join(rng.choice("abcXYZ 0129\u00e9\u4e2d\U0001f600\"\\\0") for _ in range(rng.choice([0, 1, 5, 15, 40])))


def within(lo, hi):
    return rng.choice([lo, hi, 0, rng.randint(max(lo, -100), 100), rng.randint(lo, hi)])


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


INTS = {F.TYPE_INT32: 32, F.TYPE_SINT32: 32, F.TYPE_SFIXED32: 32, F.TYPE_INT64: 64, F.TYPE_SINT64: 64, F.TYPE_SFIXED64: 64}
UINTS = {F.TYPE_UINT32: 32, F.TYPE_FIXED32: 32, F.TYPE_UINT64: 64, F.TYPE_FIXED64: 64}
ENUM = [0, 1, 5, 1000, -3]
WRAPPED = {"Int32Value": F.TYPE_INT32, "UInt64Value": F.TYPE_UINT64, "StringValue": F.TYPE_STRING, "BoolValue": F.TYPE_BOOL,
           "DoubleValue": F.TYPE_DOUBLE, "BytesValue": F.TYPE_BYTES}


def scalar(t):
    """A value of a type and what it is in the table."""
    if t in INTS:
        v = within(-(1 << (INTS[t] - 1)), (1 << (INTS[t] - 1)) - 1)
        return v, v
    if t in UINTS:
        v = within(0, (1 << UINTS[t]) - 1)
        return v, (v if UINTS[t] == 32 else str(v))
    if t == F.TYPE_BOOL:
        v = rng.random() < 0.5
        return v, v
    if t == F.TYPE_STRING:
        v = text()
        return v, v
    if t == F.TYPE_BYTES:
        v = rng.randbytes(rng.choice([0, 1, 30]))
        return v, v.hex()
    if t == F.TYPE_ENUM:
        v = rng.choice(ENUM + [77])
        return v, ("77" if v == 77 else "V%d" % (v % 10007))
    v = rng.choice([0.0, -0.0, 1.5, float("inf"), rng.uniform(-1e9, 1e9)])
    v = f32(v) if t == F.TYPE_FLOAT else v
    return v, bits(v)


def zero(t):
    return {F.TYPE_BOOL: False, F.TYPE_STRING: "", F.TYPE_BYTES: "", F.TYPE_ENUM: "V0", F.TYPE_UINT64: "0", F.TYPE_FIXED64: "0",
            F.TYPE_FLOAT: bits(0.0), F.TYPE_DOUBLE: bits(0.0)}.get(t, 0)


SCALARS = list(INTS) + list(UINTS) + [F.TYPE_BOOL, F.TYPE_STRING, F.TYPE_BYTES, F.TYPE_ENUM, F.TYPE_FLOAT, F.TYPE_DOUBLE]
KEYS = [F.TYPE_STRING, F.TYPE_INT32, F.TYPE_INT64, F.TYPE_BOOL, F.TYPE_SFIXED32]


class Type:
    """What a field holds: a scalar or a message, as values and as what the table has."""

    def __init__(self, number, name=None, fill=None):
        self.number, self.name, self.fill = number, name, fill


def timestamp(m):
    v = rng.randrange(-60000000000, 250000000000) * 1000000 + rng.randrange(1000000)
    m.seconds, m.nanos = v // 1000000, v % 1000000 * 1000 + rng.randrange(1000)
    return v


def duration(m):
    n = rng.choice([-1, 1]) * rng.randrange(10 ** rng.randint(1, 20))
    s = abs(n) // 10 ** 9
    m.seconds, m.nanos = (s, abs(n) % 10 ** 9) if n >= 0 else (-s, -(abs(n) % 10 ** 9))
    if m.seconds == 0 and m.nanos == 0:
        n = 0
    return ("-" if n < 0 else "") + "%d.%09d" % (s, abs(n) % 10 ** 9)


def wrapper(t):
    def fill(m):
        v, want = scalar(t)
        if rng.random() < 0.2:
            return zero(t)
        m.value = v
        return want
    return fill


class File:
    def __init__(self, n):
        self.f = descriptor_pb2.FileDescriptorProto(name="m%d.proto" % n, package="org.example", syntax="proto3")
        self.f.dependency.extend(m.DESCRIPTOR.name for m in IMPORTS)
        e = self.f.enum_type.add(name="E")
        for v in ENUM:
            e.value.add(name="V%d" % (v % 10007), number=v)
        self.count = 0

    def type(self, depth):
        k = rng.random()
        if depth > 0 and k < 0.25:
            name, fill = self.message(depth - 1)
            return Type(F.TYPE_MESSAGE, ".org.example." + name, fill)
        if k < 0.32:
            return Type(F.TYPE_MESSAGE, ".google.protobuf.Timestamp", timestamp)
        if k < 0.38:
            return Type(F.TYPE_MESSAGE, ".google.protobuf.Duration", duration)
        if k < 0.45:
            w = rng.choice(list(WRAPPED))
            return Type(F.TYPE_MESSAGE, ".google.protobuf." + w, wrapper(WRAPPED[w]))
        t = rng.choice(SCALARS)
        return Type(t, ".org.example.E" if t == F.TYPE_ENUM else None)

    def message(self, depth):
        self.count += 1
        m = self.f.message_type.add(name="M%d" % self.count)
        numbers = rng.sample([1, 2, 3, 4, 5, 15, 16, 100, 511, 512, 5000, 500000], rng.randint(1, 8))
        fills = [self.choice(m, depth)] if rng.random() < 0.4 else []  # a oneof stands before those of optional fields
        for i, number in enumerate(numbers):
            fills.append(self.field(m, "f%d" % i, number, depth))

        def fill(v):
            out = {}
            for f in fills:
                out.update(f(v))
            return out
        return m.name, fill

    def choice(self, m, depth):
        m.oneof_decl.add(name="choice")
        types = []
        for i in range(3):
            t = self.type(depth)
            types.append(t)
            f = m.field.add(name="o%d" % i, number=200 + i, type=t.number, label=F.LABEL_OPTIONAL, oneof_index=len(m.oneof_decl) - 1)
            if t.name:
                f.type_name = t.name

        def fill(v):
            out = {"o0": None, "o1": None, "o2": None}
            for _ in range(rng.choice([0, 1, 2])):  # of two the last one counts
                i = rng.randrange(3)
                v.ClearField("choice")
                out = {"o0": None, "o1": None, "o2": None, "o%d" % i: put(v, "o%d" % i, types[i])}
            return out
        return fill

    def field(self, m, name, number, depth):
        kind = rng.choice(["one", "one", "optional", "repeated", "unpacked", "map"])
        if kind == "map":
            return self.map(m, name, number, depth)
        t = self.type(depth)
        f = m.field.add(name=name, number=number, type=t.number, label=F.LABEL_OPTIONAL)
        if t.name:
            f.type_name = t.name
        if kind in ("repeated", "unpacked"):
            f.label = F.LABEL_REPEATED
            if kind == "unpacked" and t.number not in (F.TYPE_MESSAGE, F.TYPE_STRING, F.TYPE_BYTES):
                f.options.packed = False
            return lambda v: {name: many(v, name, t)}
        if kind == "optional" and t.number != F.TYPE_MESSAGE:
            f.proto3_optional = True
            f.oneof_index = len(m.oneof_decl)
            m.oneof_decl.add(name="_" + name)
            return lambda v: {name: put(v, name, t) if rng.random() < 0.7 else None}
        if t.number == F.TYPE_MESSAGE:
            return lambda v: {name: put(v, name, t) if rng.random() < 0.7 else None}
        return lambda v: {name: put(v, name, t) if rng.random() < 0.7 else zero(t.number)}

    def map(self, m, name, number, depth):
        key, t = rng.choice(KEYS), self.type(depth)
        entry = m.nested_type.add(name=name.capitalize() + "Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=key, label=F.LABEL_OPTIONAL)
        v = entry.field.add(name="value", number=2, type=t.number, label=F.LABEL_OPTIONAL)
        if t.name:
            v.type_name = t.name
        m.field.add(name=name, number=number, type=F.TYPE_MESSAGE, label=F.LABEL_REPEATED,
                    type_name=".org.example.%s.%s" % (m.name, entry.name))

        def fill(v):
            out = {}
            for _ in range(rng.choice([0, 0, 1, 2, 10])):
                k, want = scalar(key)
                if t.number == F.TYPE_MESSAGE:
                    getattr(v, name)[k].Clear()
                    w = t.fill(getattr(v, name)[k])
                else:
                    getattr(v, name)[k], w = scalar(t.number)
                out[str(want).lower() if isinstance(want, bool) else str(want)] = w
            return {name: out}
        return fill


def put(v, name, t):
    if t.number == F.TYPE_MESSAGE:
        getattr(v, name).SetInParent()
        return t.fill(getattr(v, name))
    x, want = scalar(t.number)
    setattr(v, name, x)
    return want


def many(v, name, t):
    out = []
    for _ in range(rng.choice([0, 0, 1, 2, 6])):
        if t.number == F.TYPE_MESSAGE:
            out.append(t.fill(getattr(v, name).add()))
        else:
            x, want = scalar(t.number)
            getattr(v, name).append(x)
            out.append(want)
    return out


for n in range(int(sys.argv[2])):
    file = File(n)
    root, fill = file.message(2)
    pool = descriptor_pool.DescriptorPool()
    fds = descriptor_pb2.FileDescriptorSet()
    for imported in IMPORTS:
        imported.DESCRIPTOR.CopyToProto(fds.file.add())
    fds.file.add().CopyFrom(file.f)
    for f in fds.file:
        pool.Add(f)
    cls = message_factory.GetMessageClass(pool.FindMessageTypeByName("org.example." + root))
    rows = []
    for _ in range(int(sys.argv[3])):
        m = cls()
        want = fill(m)
        rows.append({"hex": m.SerializeToString().hex(), "want": want})
    print(json.dumps({"set": fds.SerializeToString().hex(), "message": "org.example." + root, "rows": rows}))
