package stores

import (
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/az"
	"github.com/ledgerlake/ledgerlake/objstore/gs"
	"github.com/ledgerlake/ledgerlake/objstore/objstoretest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// The suite of all stores on servers of the other clouds' protocols.
func TestGoogleStorage(t *testing.T) {
	endpoint := harness.GoogleStorage(t)
	objstoretest.Run(t, func(t *testing.T) objstore.Store {
		s, err := gs.Open(t.Context(), gs.Config{Bucket: "lake", Prefix: place(t), Endpoint: endpoint, PartSize: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func TestAzureBlobs(t *testing.T) {
	cfg := azure(t)
	objstoretest.Run(t, func(t *testing.T) objstore.Store {
		cfg := cfg
		cfg.Prefix, cfg.PartSize = place(t), 1<<20
		s, err := az.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// azure starts a server with the container lake. The environment has its account.
func azure(t *testing.T) az.Config {
	t.Helper()
	const account, key = "testaccount", "dGVzdGtleQ==" // of npm.sh
	endpoint := harness.AzureBlobs(t) + "/" + account
	for name, value := range map[string]string{
		"AZURE_STORAGE_ACCOUNT_NAME": account, "AZURE_STORAGE_ACCOUNT_KEY": key, "AZURE_STORAGE_ENDPOINT": endpoint,
		"AZURE_ALLOW_HTTP": "true", // for delta-rs
	} {
		t.Setenv(name, value)
	}
	cred, err := container.NewSharedKeyCredential(account, key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := container.NewClientWithSharedKeyCredential(endpoint+"/lake", cred, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return az.Config{Account: account, Key: key, Container: "lake", Endpoint: endpoint}
}

// place is a prefix of its own for a part of the suite.
func place(t *testing.T) string { return "a b/" + strings.ReplaceAll(t.Name(), "/", "-") }
