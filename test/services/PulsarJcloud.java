import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.client.api.ReadHandle;
import org.apache.bookkeeper.common.util.OrderedScheduler;
import org.apache.bookkeeper.mledger.LedgerOffloader;
import org.apache.bookkeeper.mledger.LedgerOffloaderFactory;
import org.apache.bookkeeper.mledger.LedgerOffloaderStats;
import org.apache.bookkeeper.mledger.offload.jcloud.impl.BlobStoreManagedLedgerOffloader;
import org.apache.bookkeeper.mledger.offload.jcloud.provider.TieredStorageConfiguration;
import org.apache.bookkeeper.mledger.proto.MLDataFormats.OffloadContext;
import org.apache.pulsar.common.policies.data.OffloadPolicies;
import org.apache.pulsar.common.policies.data.OffloadPoliciesImpl;
import org.jclouds.ContextBuilder;
import org.jclouds.aws.s3.AWSS3ProviderMetadata;
import org.jclouds.blobstore.BlobStore;
import org.jclouds.blobstore.BlobStoreContext;

/**
 * Lets a younger broker load Pulsar's own offloader of release 2.10.0, the last that is in a package registry: brokers
 * since ask a factory with statistics beside, and an offloader for policies of another type. The one region is that of
 * the endpoint, where 2.10.0 insists on asking Amazon for the bucket's. What is offloaded, and how, is that
 * offloader's work alone.
 */
public class PulsarJcloud implements LedgerOffloaderFactory<LedgerOffloader> {
    @Override
    public boolean isDriverSupported(String name) {
        return name.equals("aws-s3");
    }

    @Override
    public LedgerOffloader create(OffloadPoliciesImpl policies, Map<String, String> meta, OrderedScheduler scheduler) throws IOException {
        Map<String, String> settings = new HashMap<>();
        policies.toProperties().forEach((k, v) -> settings.put(k.toString(), v.toString()));
        return new Offloader(BlobStoreManagedLedgerOffloader.create(new Store(settings), meta, scheduler), policies);
    }

    @Override
    public LedgerOffloader create(OffloadPoliciesImpl policies, Map<String, String> meta, OrderedScheduler scheduler, LedgerOffloaderStats stats) throws IOException {
        return create(policies, meta, scheduler);
    }

    static class Store extends TieredStorageConfiguration {
        Store(Map<String, String> settings) {
            super(settings);
        }

        @Override
        public BlobStore getBlobStore() {
            Properties settings = getOverrides();
            settings.setProperty("jclouds.regions", "us-east-1");
            settings.setProperty("jclouds.region.us-east-1.endpoint", getServiceEndpoint());
            return ContextBuilder.newBuilder(new AWSS3ProviderMetadata()).endpoint(getServiceEndpoint()).overrides(settings)
                    .credentials(System.getenv("AWS_ACCESS_KEY_ID"), System.getenv("AWS_SECRET_ACCESS_KEY"))
                    .buildView(BlobStoreContext.class).getBlobStore();
        }
    }

    record Offloader(LedgerOffloader own, OffloadPoliciesImpl policies) implements LedgerOffloader {
        @Override
        public String getOffloadDriverName() {
            return own.getOffloadDriverName();
        }

        @Override
        public Map<String, String> getOffloadDriverMetadata() {
            return own.getOffloadDriverMetadata();
        }

        @Override
        public CompletableFuture<Void> offload(ReadHandle ledger, UUID uid, Map<String, String> meta) {
            return own.offload(ledger, uid, meta);
        }

        @Override
        public CompletableFuture<ReadHandle> readOffloaded(long ledger, UUID uid, Map<String, String> meta) {
            return own.readOffloaded(ledger, uid, meta);
        }

        @Override
        public CompletableFuture<ReadHandle> readOffloaded(long ledger, OffloadContext context, Map<String, String> meta) {
            return own.readOffloaded(ledger, context, meta);
        }

        @Override
        public CompletableFuture<Void> deleteOffloaded(long ledger, UUID uid, Map<String, String> meta) {
            return own.deleteOffloaded(ledger, uid, meta);
        }

        @Override
        public CompletableFuture<Void> deleteOffloaded(UUID uid, Map<String, String> meta) {
            return own.deleteOffloaded(uid, meta);
        }

        @Override
        public OffloadPolicies getOffloadPolicies() {
            return policies;
        }

        @Override
        public void close() {
            own.close();
        }
    }
}
