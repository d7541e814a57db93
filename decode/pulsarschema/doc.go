// Package pulsarschema decodes values of a topic of Pulsar by the schemas that Pulsar's own registry has for it. A message
// names the version of its schema beside its value (record.Origin), not in it.
//
//   - AVRO and PROTOBUF_NATIVE: each value is decoded by the version that it was written with, into the columns of the
//     table, by name, as package avro and package protobuf say.
//   - JSON: the definition in the registry, which is Avro's language, gives a new table its columns; values are JSON, of
//     whatever version.
//   - KEY_VALUE, inline and separated: the columns key and value, each a struct of the fields, or a primitive.
//   - Primitives: the column value. BYTES has no schema.
//   - PROTOBUF, the older one, has no descriptor in the registry, and is refused.
//
// The numbers and layouts are those of PulsarApi.proto and of Pulsar's Java client, org.apache.pulsar.client.impl.schema.
package pulsarschema
