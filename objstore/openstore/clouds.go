package openstore

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/az"
	"github.com/ledgerlake/ledgerlake/objstore/gs"
)

func openGS(ctx context.Context, bucket, prefix string) (objstore.Store, error) {
	return gs.Open(ctx, gs.Config{Bucket: bucket, Prefix: prefix})
}

// openAZ opens az://container/prefix, of the account that the environment names, and the abfss:// form of Hadoop,
// container@account.dfs.core.windows.net/prefix.
func openAZ(location, scheme, rest string) (objstore.Store, error) {
	where, prefix, _ := strings.Cut(rest, "/")
	name, host, named := strings.Cut(where, "@")
	cfg := az.Config{
		Container: name, Prefix: strings.Trim(prefix, "/"), Account: os.Getenv("AZURE_STORAGE_ACCOUNT_NAME"),
		Key:      cmp.Or(os.Getenv("AZURE_STORAGE_ACCOUNT_KEY"), os.Getenv("AZURE_STORAGE_ACCESS_KEY")),
		SAS:      cmp.Or(os.Getenv("AZURE_STORAGE_SAS_TOKEN"), os.Getenv("AZURE_STORAGE_SAS_KEY")),
		Endpoint: cmp.Or(os.Getenv("AZURE_STORAGE_ENDPOINT"), os.Getenv("AZURE_ENDPOINT")),
	}
	if named {
		account, _, ok := strings.Cut(host, ".")
		if !ok || account == "" {
			return nil, fmt.Errorf("open %s: write container@account.dfs.core.windows.net after %s://", location, scheme)
		}
		if cfg.Account != "" && cfg.Account != account {
			return nil, fmt.Errorf("open %s: AZURE_STORAGE_ACCOUNT_NAME says %s", location, cfg.Account)
		}
		cfg.Account = account
		if cfg.Endpoint == "" { // of this cloud, by its name for blobs
			cfg.Endpoint = "https://" + strings.Replace(host, ".dfs.", ".blob.", 1)
		}
	}
	if strings.ContainsAny(cfg.Container, ":?#") {
		return nil, fmt.Errorf("open %s: %q is not the name of a container", location, cfg.Container)
	}
	return az.Open(cfg)
}
