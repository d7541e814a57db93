import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * A Kafka Streams job, exactly once: counts the records of a topic by a key that it makes of their values, so there is a topic
 * to repartition by and one that keeps the state. Every count goes to the output. It runs until its standard input ends.
 *
 * Arguments: bootstrap servers, state directory, input, output.
 */
public class StreamsCount {
  public static void main(String[] args) throws Exception {
    Properties p = new Properties();
    p.put("application.id", "streams-count");
    p.put("bootstrap.servers", args[0]);
    p.put("state.dir", args[1]);
    p.put("processing.guarantee", "exactly_once_v2");
    p.put("statestore.cache.max.bytes", "0"); // each count is sent
    p.put("num.stream.threads", "2");
    p.put("consumer.session.timeout.ms", "10000"); // who is killed is not waited for longer
    p.put("default.key.serde", Serdes.StringSerde.class);
    p.put("default.value.serde", Serdes.StringSerde.class);
    p.put("auto.offset.reset", "earliest");
    StreamsBuilder b = new StreamsBuilder();
    b.<String, String>stream(args[2])
        .selectKey((key, value) -> "group " + Integer.parseInt(value) % 7)
        .groupByKey(Grouped.as("regrouped"))
        .count(Materialized.as("counts"))
        .toStream()
        .to(args[3], Produced.with(Serdes.String(), Serdes.Long()));
    KafkaStreams streams = new KafkaStreams(b.build(), p);
    CountDownLatch failed = new CountDownLatch(1);
    streams.setUncaughtExceptionHandler(e -> {
      e.printStackTrace();
      failed.countDown();
      return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
    });
    streams.start();
    Thread end = new Thread(() -> {
      try {
        while (System.in.read() >= 0) {}
      } catch (java.io.IOException e) {
        e.printStackTrace();
      }
      boolean clean = streams.close(Duration.ofMinutes(2));
      System.exit(clean ? 0 : 3);
    });
    end.start();
    failed.await();
    System.exit(2);
  }
}
