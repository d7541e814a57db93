import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.LedgerEntry;
import org.apache.bookkeeper.client.api.ReadHandle;
import org.apache.bookkeeper.common.util.OrderedScheduler;
import org.apache.bookkeeper.mledger.LedgerOffloader;
import org.apache.bookkeeper.mledger.LedgerOffloaderFactory;
import org.apache.bookkeeper.mledger.LedgerOffloaderStats;
import org.apache.bookkeeper.mledger.offload.OffloadUtils;
import org.apache.pulsar.common.policies.data.OffloadPolicies;
import org.apache.pulsar.common.policies.data.OffloadPoliciesImpl;

/**
 * An offloader for tests, which takes smaller blocks than Pulsar's own (PulsarJcloud.java): a broker loads it as its driver aws-s3 and offloads
 * ledgers through it in the format of Pulsar's offloaders. The bucket is a folder. It writes only: once BookKeeper has
 * dropped a ledger, the broker cannot read it.
 */
public class PulsarOffloader implements LedgerOffloader {
    public static class Factory implements LedgerOffloaderFactory<PulsarOffloader> {
        @Override
        public boolean isDriverSupported(String name) {
            return name.equals("aws-s3");
        }

        @Override
        public PulsarOffloader create(OffloadPoliciesImpl policies, Map<String, String> meta, OrderedScheduler scheduler) {
            return new PulsarOffloader(policies);
        }

        @Override
        public PulsarOffloader create(OffloadPoliciesImpl policies, Map<String, String> meta, OrderedScheduler scheduler, LedgerOffloaderStats stats) {
            return new PulsarOffloader(policies);
        }
    }

    static final int HEADER = 128, ENTRY_HEADER = 12;
    static final int[] PADDING = {0xFE, 0xDC, 0xDE, 0xAD};

    final OffloadPoliciesImpl policies;
    final Path bucket;
    final int blockSize;

    PulsarOffloader(OffloadPoliciesImpl policies) {
        this.policies = policies;
        bucket = Path.of(policies.getManagedLedgerOffloadBucket());
        blockSize = policies.getManagedLedgerOffloadMaxBlockSizeInBytes();
    }

    @Override
    public String getOffloadDriverName() {
        return "aws-s3";
    }

    @Override
    public OffloadPolicies getOffloadPolicies() {
        return policies;
    }

    @Override
    public void close() {
    }

    @Override
    public CompletableFuture<Void> offload(ReadHandle ledger, UUID uuid, Map<String, String> extra) {
        return CompletableFuture.runAsync(() -> {
            try {
                write(ledger, uuid + "-ledger-" + ledger.getId());
            } catch (Exception e) {
                e.printStackTrace();
                throw new RuntimeException(e);
            }
        });
    }

    record Block(long first, long offset) {
    }

    void write(ReadHandle ledger, String name) throws Exception {
        List<Block> blocks = new ArrayList<>();
        long next = 0, last = ledger.getLastAddConfirmed(), offset = 0, left = ledger.getLength();
        Path part = bucket.resolve("." + name);
        try (OutputStream out = Files.newOutputStream(part)) {
            while (next <= last) {
                int size = (int) Math.min(blockSize, (last - next + 1) * ENTRY_HEADER + left + HEADER);
                blocks.add(new Block(next, offset));
                ByteArrayOutputStream bytes = new ByteArrayOutputStream(size);
                DataOutputStream data = new DataOutputStream(bytes);
                data.writeInt(0xFBDBABCB);
                data.writeLong(HEADER);
                data.writeLong(size);
                data.writeLong(next);
                data.write(new byte[HEADER - data.size()]);
                for (boolean full = false; next <= last && !full; ) {
                    try (LedgerEntries got = ledger.read(next, Math.min(last, next + 99))) {
                        for (LedgerEntry e : got) {
                            byte[] b = e.getEntryBytes();
                            if (data.size() + ENTRY_HEADER + b.length > size) {
                                full = true;
                                break;
                            }
                            data.writeInt(b.length);
                            data.writeLong(e.getEntryId());
                            data.write(b);
                            left -= b.length;
                            next++;
                        }
                    }
                }
                for (int i = 0; data.size() < size; i++) {
                    data.writeByte(PADDING[i % PADDING.length]);
                }
                if (next == blocks.get(blocks.size() - 1).first()) {
                    throw new IllegalStateException("entry " + next + " does not fit into a block of " + size + " bytes");
                }
                bytes.writeTo(out);
                offset += size;
            }
        }
        Files.move(part, bucket.resolve(name));
        Files.write(bucket.resolve(name + "-index"), index(ledger, blocks, offset));
    }

    static byte[] index(ReadHandle ledger, List<Block> blocks, long size) throws Exception {
        byte[] meta = OffloadUtils.buildLedgerMetadataFormat(ledger.getLedgerMetadata());
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        out.writeInt(0xDE47DE47);
        out.writeInt(32 + meta.length + blocks.size() * 20);
        out.writeLong(size);
        out.writeLong(HEADER);
        out.writeInt(blocks.size());
        out.writeInt(meta.length);
        out.write(meta);
        for (int i = 0; i < blocks.size(); i++) {
            out.writeLong(blocks.get(i).first());
            out.writeInt(i + 1);
            out.writeLong(blocks.get(i).offset());
        }
        return bytes.toByteArray();
    }

    @Override
    public CompletableFuture<ReadHandle> readOffloaded(long ledger, UUID uuid, Map<String, String> meta) {
        return CompletableFuture.failedFuture(new UnsupportedOperationException("this offloader of a test only writes"));
    }

    @Override
    public CompletableFuture<Void> deleteOffloaded(long ledger, UUID uuid, Map<String, String> meta) {
        return CompletableFuture.completedFuture(null);
    }
}
