import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.protobuf.Message;
import com.google.protobuf.util.JsonFormat;
import com.google.type.Money;
import com.google.type.PostalAddress;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.pulsar.client.api.*;
import org.apache.pulsar.client.api.schema.*;
import org.apache.pulsar.common.schema.KeyValue;
import org.apache.pulsar.common.schema.KeyValueEncodingType;
import org.apache.pulsar.common.schema.SchemaType;

/**
 * Pulsar's own Java client writes a few messages with a schema: what they are as columns is printed, a JSON object a line,
 * behind its topic, made of the same objects by Jackson and by Protobuf's own printer. Nulls are left out.
 *
 *   URL [KIND TOPIC FIRST COUNT]...    messages FIRST to FIRST+COUNT-1, one topic after the other
 */
public class PulsarSchemas {
    public enum Color { RED, GREEN }

    public static class Address {
        public String street;
        public int number;
    }

    public static class Key {
        public long tenant;
        public String name;
    }

    public static class Order {
        public long id;
        public int count;
        public String name;
        public Double price;
        public boolean paid;
        public float weight;
        public List<String> tags;
        public Map<String, Long> sums;
        public Address address;
        public Color color;
        public byte[] raw;
    }

    static Order order(long i) {
        Order o = new Order();
        o.id = i * 10_000_000_000L;
        o.count = (int) -i;
        o.name = i % 5 == 0 ? null : "order " + i + " \"ä\"";
        o.price = i % 3 == 0 ? null : i / 8.0;
        o.paid = i % 2 == 0;
        o.weight = i * 0.5f;
        o.tags = i % 4 == 0 ? List.of() : List.of("a", "b" + i);
        o.sums = Map.of("x", i, "y", -i);
        o.address = i % 7 == 0 ? null : new Address();
        if (o.address != null) {
            o.address.street = "Street " + i;
            o.address.number = (int) i;
        }
        o.color = i % 2 == 0 ? Color.RED : Color.GREEN;
        o.raw = new byte[] {(byte) i, 0, -1};
        return o;
    }

    static final ObjectMapper MAPPER = new ObjectMapper().setSerializationInclusion(JsonInclude.Include.NON_NULL);

    static ObjectNode json(Object o) {
        return MAPPER.valueToTree(o);
    }

    static ObjectNode json(Message m) throws Exception {
        return (ObjectNode) MAPPER.readTree(JsonFormat.printer().preservingProtoFieldNames().includingDefaultValueFields().print(m));
    }

    static ObjectNode one(String name, Object value) {
        ObjectNode n = JsonNodeFactory.instance.objectNode();
        if (value != null) {
            n.set(name, MAPPER.valueToTree(value));
        }
        return n;
    }

    static ObjectNode two(Object key, Object value) {
        ObjectNode n = one("key", key);
        if (value != null) {
            n.set("value", MAPPER.valueToTree(value));
        }
        return n;
    }

    static Money money(long i) {
        return Money.newBuilder().setCurrencyCode(i % 2 == 0 ? "EUR" : "").setUnits(i * 1_000_000_007L).setNanos((int) -i).build();
    }

    static PostalAddress postal(long i) {
        PostalAddress.Builder b = PostalAddress.newBuilder().setRevision((int) i).setRegionCode("DE").setLocality("Ort " + i);
        for (long n = 0; n < i % 3; n++) {
            b.addAddressLines("line " + n);
        }
        return b.build();
    }

    /** Both versions of a record: the second has two fields more. */
    static GenericSchema<GenericRecord> version(SchemaType type, int version) {
        RecordSchemaBuilder b = SchemaBuilder.record("user");
        b.field("name").type(SchemaType.STRING).optional().defaultValue(null);
        b.field("age").type(SchemaType.INT32);
        if (version == 2) {
            b.field("mail").type(SchemaType.STRING).optional().defaultValue(null);
            b.field("score").type(SchemaType.DOUBLE).optional().defaultValue(null);
        }
        return Schema.generic(b.build(type));
    }

    interface Made<T> {
        T of(long i) throws Exception;
    }

    static PulsarClient client;
    static String topic;
    static long first, count;

    static <T> void produce(Schema<T> schema, Made<T> value, Made<ObjectNode> columns) throws Exception {
        try (Producer<T> p = client.newProducer(schema).topic(topic).enableBatching(true).create()) {
            for (long i = first; i < first + count; i++) {
                p.newMessage().value(value.of(i)).sendAsync();
                System.out.println(topic + "\t" + columns.of(i));
            }
            p.flush();
        }
    }

    static <T> void primitive(Schema<T> schema, Made<T> value) throws Exception {
        produce(schema, value, i -> one("value", value.of(i) instanceof Number n ? n : value.of(i) instanceof Boolean b ? b : value.of(i).toString()));
    }

    static void versioned(SchemaType type, int version) throws Exception {
        GenericSchema<GenericRecord> s = version(type, version);
        produce(s, i -> {
            GenericRecordBuilder b = s.newRecordBuilder().set("name", "user " + i).set("age", (int) i);
            if (version == 2) {
                b.set("mail", i % 2 == 0 ? null : i + "@example.org").set("score", i / 4.0);
            }
            return b.build();
        }, i -> {
            ObjectNode n = one("name", "user " + i);
            n.put("age", (int) i);
            if (version == 2) {
                if (i % 2 != 0) {
                    n.put("mail", i + "@example.org");
                }
                n.put("score", i / 4.0);
            }
            return n;
        });
    }

    public static void main(String[] args) throws Exception {
        try (PulsarClient c = PulsarClient.builder().serviceUrl(args[0]).build()) {
            client = c;
            for (int i = 1; i + 3 < args.length; i += 4) {
                topic = args[i + 1];
                first = Long.parseLong(args[i + 2]);
                count = Long.parseLong(args[i + 3]);
                produce(args[i]);
            }
        }
        System.out.flush();
        System.exit(0);
    }

    static void produce(String kind) throws Exception {
        switch (kind) {
            case "avro" -> produce(Schema.AVRO(Order.class), PulsarSchemas::order, i -> json(order(i)));
            case "json" -> produce(Schema.JSON(Order.class), PulsarSchemas::order, i -> json(order(i)));
            case "avro1" -> versioned(SchemaType.AVRO, 1);
            case "avro2" -> versioned(SchemaType.AVRO, 2);
            case "json1" -> versioned(SchemaType.JSON, 1);
            case "json2" -> versioned(SchemaType.JSON, 2);
            case "native" -> produce(Schema.PROTOBUF_NATIVE(PostalAddress.class), PulsarSchemas::postal, i -> json(postal(i)));
            case "protobuf" -> produce(Schema.PROTOBUF(PostalAddress.class), PulsarSchemas::postal, i -> json(postal(i)));
            case "kvinline" -> produce(Schema.KeyValue(Schema.AVRO(Key.class), Schema.AVRO(Order.class), KeyValueEncodingType.INLINE),
                    i -> new KeyValue<>(key(i), order(i)), i -> two(key(i), order(i)));
            case "kvjson" -> produce(Schema.KeyValue(Schema.STRING, Schema.JSON(Order.class), KeyValueEncodingType.SEPARATED),
                    i -> new KeyValue<>("k" + i, order(i)), i -> two("k" + i, order(i)));
            case "kvnative" -> produce(Schema.KeyValue(Schema.INT64, Schema.PROTOBUF_NATIVE(Money.class), KeyValueEncodingType.SEPARATED),
                    i -> new KeyValue<>(i, i % 4 == 0 ? null : money(i)), i -> two(i, i % 4 == 0 ? null : json(money(i))));
            case "kvints" -> produce(Schema.KeyValue(Schema.INT32, Schema.BOOL, KeyValueEncodingType.INLINE),
                    i -> new KeyValue<>((int) i, i % 2 == 0), i -> two((int) i, i % 2 == 0));
            case "int8" -> primitive(Schema.INT8, i -> (byte) -i);
            case "int16" -> primitive(Schema.INT16, i -> (short) (-300 * i));
            case "int32" -> primitive(Schema.INT32, i -> (int) (-70_000 * i));
            case "int64" -> primitive(Schema.INT64, i -> -5_000_000_000L * i);
            case "float" -> primitive(Schema.FLOAT, i -> i / 4f);
            case "double" -> primitive(Schema.DOUBLE, i -> i / 3.0);
            case "bool" -> primitive(Schema.BOOL, i -> i % 2 == 0);
            case "instant" -> primitive(Schema.INSTANT, i -> Instant.ofEpochSecond(1_700_000_000L - i * 100_000_000L, 123_456_000 + i * 1000));
            case "date" -> primitive(Schema.LOCAL_DATE, i -> LocalDate.ofEpochDay(20_000 - 1000 * i));
            case "datetime" -> primitive(Schema.LOCAL_DATE_TIME, i -> LocalDateTime.of(2024, 2, 29, 23, 59, (int) i, 5_000_000));
            case "string" -> primitive(Schema.STRING, i -> "text " + i);
            case "bytes" -> produce(Schema.BYTES, i -> ("no schema " + i).getBytes(), i -> one("value", null));
            default -> throw new IllegalArgumentException(kind);
        }
    }

    static Key key(long i) {
        Key k = new Key();
        k.tenant = i;
        k.name = "n" + i;
        return k;
    }
}
