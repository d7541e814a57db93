import java.io.BufferedReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.pulsar.client.api.*;
import org.apache.pulsar.client.api.transaction.Transaction;
import org.apache.pulsar.client.impl.BatchMessageIdImpl;
import org.apache.pulsar.client.impl.MessageIdImpl;

/**
 * Pulsar's own Java client, for tests: what it writes and what it reads is what we are compared with.
 *
 *   produce URL TOPIC FIRST COUNT [OPTION=VALUE...]   messages FIRST..FIRST+COUNT-1, whose values name their number
 *       size=BYTES batch=N codec=LZ4 chunk=BYTES keys=N nulls=EVERY txn=SIZE (each third is aborted) abort=all (each is)
 *       rate=PER_SECOND
 *       values=FILE (message i has its line i instead)
 *       encrypt=DIR:NAME[,NAME...] (for the public keys DIR/NAME.pub)
 *   read URL TOPIC[,TOPIC...] [decrypt=DIR]           (by the private keys DIR/NAME.pem; none: as they are) all messages of partitions, a line each, one partition after another
 *   rate URL TOPIC [warm=PASSES]                      reads them and prints messages, value bytes, seconds and CPU seconds;
 *                                                     of the pass behind so many others
 */
public class PulsarTool {
    public static void main(String[] args) throws Exception {
        Map<String, String> options = new HashMap<>();
        List<String> words = new ArrayList<>();
        for (String a : args) {
            int i = a.indexOf('=');
            if (i > 0 && words.size() > 2) {
                options.put(a.substring(0, i), a.substring(i + 1));
            } else {
                words.add(a);
            }
        }
        ClientBuilder connect = PulsarClient.builder().serviceUrl(words.get(1)).enableTransaction(options.containsKey("txn"));
        if (System.getenv("PULSAR_TOKEN") != null) {
            connect.authentication(AuthenticationFactory.token(System.getenv("PULSAR_TOKEN")));
        }
        try (PulsarClient client = connect.build()) {
            switch (words.get(0)) {
                case "produce" -> produce(client, words.get(2), Long.parseLong(words.get(3)), Long.parseLong(words.get(4)), options);
                case "read" -> {
                    int n = 0;
                    for (String topic : words.get(2).split(",")) {
                        read(client, topic, n++, options.get("decrypt"));
                    }
                }
                case "rate" -> {
                    for (int i = number(options, "warm", 0); i >= 0; i--) {
                        rate(client, words.get(2), i == 0);
                    }
                }
                default -> throw new IllegalArgumentException(words.get(0));
            }
        }
        System.out.flush();
        System.exit(0);
    }

    static int number(Map<String, String> options, String name, int otherwise) {
        return Integer.parseInt(options.getOrDefault(name, Integer.toString(otherwise)));
    }

    static void produce(PulsarClient client, String topic, long first, long count, Map<String, String> o) throws Exception {
        int size = number(o, "size", 100), batch = number(o, "batch", 0), chunk = number(o, "chunk", 0), keys = number(o, "keys", 0);
        int nulls = number(o, "nulls", 0), txn = number(o, "txn", 0), rate = number(o, "rate", 0);
        ProducerBuilder<byte[]> b = client.newProducer().topic(topic).sendTimeout(0, TimeUnit.SECONDS).blockIfQueueFull(true)
                .maxPendingMessages(20000).maxPendingMessagesAcrossPartitions(100000)
                .compressionType(CompressionType.valueOf(o.getOrDefault("codec", "NONE")));
        if (o.containsKey("producer")) {
            b.producerName(o.get("producer"));
        }
        if (o.containsKey("encrypt")) {
            String[] at = o.get("encrypt").split(":");
            b.cryptoKeyReader(new Keys(at[0]));
            for (String name : at[1].split(",")) {
                b.addEncryptionKey(name);
            }
        }
        if (chunk > 0) {
            b.enableBatching(false).enableChunking(true).chunkMaxMessageSize(chunk);
        } else if (batch > 0) {
            b.enableBatching(true).batchingMaxMessages(batch).batchingMaxPublishDelay(5, TimeUnit.MILLISECONDS);
        } else {
            b.enableBatching(false);
        }
        String pad = "x".repeat(Math.max(0, size - 40));
        AtomicReference<Throwable> failed = new AtomicReference<>();
        Semaphore open = new Semaphore(50000);
        try (Producer<byte[]> p = b.create();
                BufferedReader values = o.containsKey("values") ? Files.newBufferedReader(Path.of(o.get("values"))) : null) {
            Transaction t = null;
            int inTxn = 0, txns = 0;
            List<CompletableFuture<MessageId>> sent = new ArrayList<>();
            long begin = System.nanoTime();
            for (long i = first; i < first + count; i++) {
                if (txn > 0 && t == null) {
                    t = client.newTransaction().withTransactionTimeout(1, TimeUnit.MINUTES).build().get();
                }
                TypedMessageBuilder<byte[]> m = t == null ? p.newMessage() : p.newMessage(t);
                m.property("i", Long.toString(i)).eventTime(1_700_000_000_000L + i);
                if (keys > 0) {
                    m.key("k" + i % keys);
                }
                boolean aborted = txn > 0 && (txns % 3 == 2 || o.containsKey("abort"));
                if (nulls > 0 && i % nulls == 0) {
                    m.value(null);
                } else if (values != null) {
                    m.value(values.readLine().getBytes(StandardCharsets.UTF_8));
                } else {
                    m.value(("{\"i\":" + i + ",\"aborted\":" + aborted + ",\"pad\":\"" + pad + "\"}").getBytes(StandardCharsets.UTF_8));
                }
                open.acquire();
                CompletableFuture<MessageId> f = m.sendAsync();
                f.whenComplete((id, e) -> {
                    open.release();
                    if (e != null) {
                        failed.compareAndSet(null, e);
                    }
                });
                if (t != null) {
                    sent.add(f);
                    if (++inTxn == txn || i == first + count - 1) {
                        p.flush();
                        for (CompletableFuture<MessageId> s : sent) {
                            s.get();
                        }
                        if (aborted) {
                            t.abort().get();
                        } else {
                            t.commit().get();
                        }
                        sent.clear();
                        t = null;
                        inTxn = 0;
                        txns++;
                    }
                }
                if (rate > 0) {
                    long due = begin + (i - first + 1) * 1_000_000_000L / rate, now = System.nanoTime();
                    if (due > now + 1_000_000) {
                        p.flush();
                        TimeUnit.NANOSECONDS.sleep(due - now);
                    }
                }
            }
            p.flush();
        }
        if (failed.get() != null) {
            throw new Exception("a message was not sent", failed.get());
        }
    }

    /** Keys of a folder: NAME.pub and NAME.pem. */
    record Keys(String dir) implements CryptoKeyReader {
        public EncryptionKeyInfo getPublicKey(String name, Map<String, String> metadata) {
            return key(name + ".pub", metadata);
        }

        public EncryptionKeyInfo getPrivateKey(String name, Map<String, String> metadata) {
            return key(name + ".pem", metadata);
        }

        private EncryptionKeyInfo key(String file, Map<String, String> metadata) {
            try {
                return new EncryptionKeyInfo(Files.readAllBytes(Path.of(dir, file)), metadata);
            } catch (java.io.IOException e) {
                throw new java.io.UncheckedIOException(e);
            }
        }
    }

    static Reader<byte[]> reader(PulsarClient client, String topic, int queue, String keys) throws Exception {
        ReaderBuilder<byte[]> b = client.newReader().topic(topic).startMessageId(MessageId.earliest).receiverQueueSize(queue);
        if (keys != null && keys.equals("none")) {
            b.cryptoFailureAction(ConsumerCryptoFailureAction.CONSUME);
        } else if (keys != null) {
            b.cryptoKeyReader(new Keys(keys));
        }
        return b.create();
    }

    /** number of the topic, ledger, entry, batch, sequence, publish time, event time, producer, key, properties, value: tabs between. */
    static void read(PulsarClient client, String topic, int number, String keys) throws Exception {
        StringBuilder out = new StringBuilder();
        try (Reader<byte[]> r = reader(client, topic, 1000, keys)) {
            for (int waits = 0; ; ) { // to ask whether there is one costs more than to read it
                Message<byte[]> m = r.readNext(200, TimeUnit.MILLISECONDS);
                if (m == null) {
                    // The id of a batch that stays encrypted is below that of its last message, which is available for ever.
                    if (!r.hasMessageAvailable() || "none".equals(keys) && waits == 25) {
                        break;
                    }
                    if (++waits == 100) {
                        throw new Exception("no message within 20 s, though one is available");
                    }
                    continue;
                }
                waits = 0;
                MessageIdImpl id = (MessageIdImpl) m.getMessageId();
                int batch = id instanceof BatchMessageIdImpl x ? x.getBatchIndex() : -1;
                out.append(number).append('\t').append(id.getLedgerId()).append('\t').append(id.getEntryId()).append('\t').append(batch).append('\t')
                        .append(m.getSequenceId()).append('\t').append(m.getPublishTime()).append('\t').append(m.getEventTime()).append('\t')
                        .append(m.getProducerName()).append('\t').append(m.hasKey() ? m.getKey() : "").append('\t');
                new TreeMap<>(m.getProperties()).forEach((k, v) -> out.append(k).append('=').append(v).append(';'));
                byte[] value = m.getValue();
                out.append('\t').append(value == null ? "null" : Base64.getEncoder().encodeToString(value)).append('\n');
                if (out.length() > 1 << 16) {
                    System.out.print(out);
                    out.setLength(0);
                }
            }
        }
        System.out.print(out);
    }

    static void rate(PulsarClient client, String topic, boolean print) throws Exception {
        var system = (com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory.getOperatingSystemMXBean();
        long messages = 0, bytes = 0, begin = System.nanoTime(), cpu = system.getProcessCpuTime();
        try (Reader<byte[]> r = reader(client, topic, 10000, null)) {
            MessageId last = r.getLastMessageIds().get(0);
            while (true) {
                Message<byte[]> m = r.readNext(20, TimeUnit.SECONDS);
                if (m == null) {
                    throw new Exception("no message within 20 s");
                }
                messages++;
                bytes += m.size();
                if (m.getMessageId().compareTo(last) >= 0) {
                    break;
                }
            }
        }
        if (print) {
            System.out.printf("%d %d %.3f %.3f%n", messages, bytes, (System.nanoTime() - begin) / 1e9, (system.getProcessCpuTime() - cpu) / 1e9);
        }
    }
}
