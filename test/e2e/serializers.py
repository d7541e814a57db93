"""Values as Confluent's own serializers write them, their schemas registered by them: serializers.py REGISTRY_URL [BROKER].

A line is {"format", "hex", "want"}. With a broker the values also go to the topics avro and protobuf there.
"""
import json
import sys

from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

client = SchemaRegistryClient({"url": sys.argv[1]})
producer = Producer({"bootstrap.servers": sys.argv[2]}) if len(sys.argv) > 2 else None


def line(format, serializer, value, want):
    raw = serializer(value, SerializationContext(format, MessageField.VALUE))
    print(json.dumps({"format": format, "hex": raw.hex(), "want": want}))
    if producer:
        producer.produce(format, raw)


first = AvroSerializer(client, json.dumps({"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "old", "type": "string"}]}))
second = AvroSerializer(client, json.dumps({"type": "record", "name": "Order", "fields": [
    {"name": "note", "type": ["null", "string"], "default": None}, {"name": "id", "type": "long"}]}),
    conf={"auto.register.schemas": True})
for i in range(20):
    if i % 2:
        line("avro", second, {"id": i, "note": "n%d" % i}, {"id": i, "note": "n%d" % i})
    else:
        line("avro", first, {"id": -i, "old": "x" * i}, {"id": -i, "note": None})

F = descriptor_pb2.FieldDescriptorProto
f = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3", dependency=["google/protobuf/timestamp.proto"])
f.message_type.add(name="Unused").field.add(name="x", number=1, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL)
outer = f.message_type.add(name="Outer")
order = outer.nested_type.add(name="Order")
order.field.add(name="id", number=1, type=F.TYPE_INT64, label=F.LABEL_OPTIONAL)
order.field.add(name="tags", number=2, type=F.TYPE_STRING, label=F.LABEL_REPEATED)
order.field.add(name="at", number=3, type=F.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp", label=F.LABEL_OPTIONAL)
pool = descriptor_pool.Default()
pool.Add(f)
cls = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Outer.Order"))
serializer = ProtobufSerializer(cls, client, {"use.deprecated.format": False})
for i in range(20):
    m = cls(id=i, tags=["t%d" % j for j in range(i % 3)])
    if i % 2:
        m.at.seconds = i
    line("protobuf", serializer, m, {"id": i, "tags": list(m.tags), "at": i * 1000000 if i % 2 else None})
if producer and producer.flush(30):
    sys.exit("not all values were acknowledged")
