// Package transform fills columns from more than the field of their name: from the record around a value, and from
// JMESPath expressions over the value. The grammar is that of kafka-delta-ingest, "PROPERTY: SOURCE", so that its
// tables go on as they are:
//
//   - PROPERTY is a column of the table, or with points a field of a struct column.
//   - SOURCE is kafka.partition, kafka.offset, kafka.topic, kafka.timestamp (microseconds), kafka.timestamp_type,
//     kafka.key, kafka.headers.NAME (the last of that name), kafka.schema_id (of a value in Confluent's framing) or
//     kafka.leader_epoch; else a JMESPath expression over the value, with the functions of the specification and
//     substr(string, skip, take), epoch_seconds_to_iso8601, epoch_millis_to_iso8601, epoch_micros_to_iso8601 and
//     epoch_millis_to_micro.
//
// All sources see the value as it came, so transforms do not build on each other. A result that is null leaves what
// the value itself has. Results are coerced like fields of the value; beyond that a number or a time goes into
// timestamp columns (numbers count microseconds) and date columns (the day in UTC).
//
// Paths of field names, the five functions, to_number and || over them need no tree of the value: the JSON decoder
// notes where the fields stand while it decodes, and the results are decoded behind the value into the same row,
// without an allocation. Other expressions see a tree of those fields alone that they name.
//
// One record is one row at most, since an offset is in the table at most once (I3): there is no explode.
//
// A Decoder is for one goroutine. Expressions come from the operator; values come from anywhere, and none makes a
// decoder panic or take memory out of proportion (I8): functions that pad by a number of the value are not there.
package transform
