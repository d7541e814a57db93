"""Values of three formats whose schemas refer to others, registered by Confluent's client: registered.py REGISTRY_URL SEED.

A line is {"topic", "phase", "hex", "want"}; phase counts the versions of the schemas. Avro and Protobuf values are
written by Confluent's serializers, JSON is framed here. With phase 0 comes one value that its JSON schema does not allow (want is null).
"""
import json
import random
import struct
import sys

from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

client = SchemaRegistryClient({"url": sys.argv[1]})
rng = random.Random(int(sys.argv[2]))
EXTRA = ["", "note", "rest"]  # the field that a version has besides


def line(topic, phase, raw, want):
    print(json.dumps({"topic": topic, "phase": phase, "hex": raw.hex(), "want": want}))


def value(phase, i):
    v = {"id": rng.getrandbits(62), "who": {"name": "n%d-%d" % (phase, i), "age": rng.randrange(100)}}
    if phase:
        v[EXTRA[phase]] = "x" * (i % 5)
    return v


def wanted(v):
    return {"id": v["id"], "who": v["who"], "note": v.get("note"), "rest": v.get("rest")}


person = {"type": "record", "name": "Person", "namespace": "shop", "fields": [{"name": "name", "type": "string"}, {"name": "age", "type": "int"}]}
client.register_schema("shop.Person", Schema(json.dumps(person), "AVRO"))
for phase in range(3):
    fields = [{"name": "id", "type": "long"}, {"name": "who", "type": "shop.Person"}]
    if phase:
        fields.insert(0, {"name": EXTRA[phase], "type": ["null", "string"], "default": None})
    order = Schema(json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": fields}), "AVRO",
                   [SchemaReference("shop.Person", "shop.Person", 1)])
    serializer = AvroSerializer(client, order)
    for i in range(20):
        v = value(phase, i)
        line("avro", phase, serializer(v, SerializationContext("avro", MessageField.VALUE)), wanted(v))

F = descriptor_pb2.FieldDescriptorProto
for phase in range(3):
    pool = descriptor_pool.DescriptorPool()
    f = descriptor_pb2.FileDescriptorProto(name="person.proto", package="shop", syntax="proto3")
    m = f.message_type.add(name="Person")
    m.field.add(name="name", number=1, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL)
    m.field.add(name="age", number=2, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL)
    pool.Add(f)
    f = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3", dependency=["person.proto"])
    f.message_type.add(name="Other").field.add(name="x", number=1, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL)
    m = f.message_type.add(name="Order")
    m.field.add(name="id", number=1, type=F.TYPE_INT64, label=F.LABEL_OPTIONAL)
    m.field.add(name="who", number=2, type=F.TYPE_MESSAGE, type_name=".shop.Person", label=F.LABEL_OPTIONAL)
    if phase:
        m.field.add(name=EXTRA[phase], number=2 + phase, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL, proto3_optional=True, oneof_index=0)
        m.oneof_decl.add(name="_" + EXTRA[phase])
    pool.Add(f)
    cls = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    serializer = ProtobufSerializer(cls, client, {"use.deprecated.format": False})
    for i in range(20):
        v = value(phase, i)
        m = cls(id=v["id"])
        m.who.name, m.who.age = v["who"]["name"], v["who"]["age"]
        if phase:
            setattr(m, EXTRA[phase], v[EXTRA[phase]])
        line("protobuf", phase, serializer(m, SerializationContext("protobuf", MessageField.VALUE)), wanted(v))

client.register_schema("person.json", Schema(json.dumps({
    "$id": "person.json", "type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "maximum": 99}}, "required": ["name"]}), "JSON"))
for phase in range(3):
    properties = {"id": {"type": "integer"}, "who": {"$ref": "person.json"}}
    if phase:
        properties[EXTRA[phase]] = {"type": "string"}
    order = Schema(json.dumps({"type": "object", "title": "version %d" % phase, "properties": properties, "required": ["id"]}), "JSON",
                   [SchemaReference("person.json", "person.json", 1)])
    head = struct.pack(">bI", 0, client.register_schema("json-value", order))
    for i in range(20):
        v = value(phase, i)
        line("json", phase, head + json.dumps(v).encode(), wanted(v))
    if not phase:
        line("json", phase, head + b'{"id": 1, "who": {"name": "too old", "age": 100}}', None)
