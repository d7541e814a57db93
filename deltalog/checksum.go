package deltalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// checksumName is the file that says what a version comes to.
func checksumName(v Version) string { return fmt.Sprintf("%s%020d.crc", logDir, v) }

// checksum is the content of a checksum file, as far as this package writes and checks it. Readers use it in place
// of a replay, so one that is not exact is worse than none.
type checksum struct {
	TxnID           string            `json:"txnId,omitempty"`
	TableSizeBytes  *int64            `json:"tableSizeBytes"`
	NumFiles        *int64            `json:"numFiles"`
	NumMetadata     int64             `json:"numMetadata"`
	NumProtocol     int64             `json:"numProtocol"`
	InCommit        *int64            `json:"inCommitTimestampOpt,omitempty"`
	SetTransactions *[]Txn            `json:"setTransactions,omitempty"`
	DomainMetadata  *[]DomainMetadata `json:"domainMetadata,omitempty"`
	Metadata        *Metadata         `json:"metadata"`
	Protocol        *Protocol         `json:"protocol"`
}

// writeChecksum writes the checksum file of a version that is ours: only from a snapshot of exactly that version
// with all its files, and never over one that is there. Failures are reported to the logger alone.
func (l *Log) writeChecksum(ctx context.Context, v Version, txnID string) {
	snap, _ := l.current()
	if !l.cfg.Checksums || snap == nil || snap.light || snap.version != v {
		return
	}
	raw, err := json.Marshal(checksumOf(snap, txnID))
	if err == nil {
		err = l.store.PutIfAbsent(ctx, checksumName(v), append(raw, '\n'))
	}
	if err != nil && !errors.Is(err, objstore.ErrExists) {
		l.cfg.Logger.Warn("checksum file was not written; the table is sound without it", "table", l.store.URL(), "version", v, "error", err)
	}
}

func checksumOf(s *Snapshot, txnID string) *checksum {
	bytes, files := s.SizeBytes(), int64(s.NumFiles())
	txns, domains := make([]Txn, 0, len(s.txns)), make([]DomainMetadata, 0, len(s.domains))
	for _, id := range sortedKeys(s.txns) {
		txns = append(txns, s.txns[id])
	}
	for _, name := range sortedKeys(s.domains) {
		domains = append(domains, s.domains[name])
	}
	m := *s.metadata
	m.normalize()
	c := &checksum{TxnID: txnID, TableSizeBytes: &bytes, NumFiles: &files, NumMetadata: 1, NumProtocol: 1,
		SetTransactions: &txns, DomainMetadata: &domains, Metadata: &m, Protocol: s.protocol}
	if isOn(s.metadata.Configuration, ictSetting) {
		c.InCommit = &s.ict
	}
	return c
}

// compare says in what a checksum file differs from the snapshot of its version.
func (c *checksum) compare(s *Snapshot) []string {
	var out []string
	number := func(what string, got *int64, want int64) {
		if got == nil {
			out = append(out, "no "+what)
		} else if *got != want {
			out = append(out, fmt.Sprintf("%s %d, the log comes to %d", what, *got, want))
		}
	}
	number("tableSizeBytes", c.TableSizeBytes, s.SizeBytes())
	number("numFiles", c.NumFiles, int64(s.NumFiles()))
	if c.InCommit != nil && s.ict > 0 { // that of a checkpoint whose commit is gone is not known
		number("inCommitTimestampOpt", c.InCommit, s.ict)
	}
	if c.Protocol != nil && !slices.Equal(c.Protocol.Features(), s.protocol.Features()) {
		out = append(out, "another protocol")
	}
	if c.Metadata != nil && !sameMetadata(c.Metadata, s.metadata) {
		out = append(out, "other metadata")
	}
	if c.SetTransactions != nil {
		for _, t := range *c.SetTransactions {
			if have, ok := s.txns[t.AppID]; !ok || have.Version != t.Version {
				out = append(out, fmt.Sprintf("transaction %s at %d", t.AppID, t.Version))
			}
		}
		number("setTransactions", ptr(int64(len(*c.SetTransactions))), int64(len(s.txns)))
	}
	if c.DomainMetadata != nil {
		for _, d := range *c.DomainMetadata {
			if have, ok := s.domains[d.Domain]; !ok || have.Configuration != d.Configuration {
				out = append(out, "domain "+d.Domain)
			}
		}
		number("domainMetadata", ptr(int64(len(*c.DomainMetadata))), int64(len(s.domains)))
	}
	return out
}

func ptr[T any](v T) *T { return &v }

func sameMetadata(a, b *Metadata) bool {
	x, y := *a, *b
	x.normalize()
	y.normalize()
	// Spark leaves some of these out of one of the two files.
	x.CreatedTime, y.CreatedTime, x.Format, y.Format = nil, nil, Format{}, Format{}
	p, err1 := json.Marshal(x)
	q, err2 := json.Marshal(y)
	return err1 == nil && err2 == nil && bytes.Equal(p, q)
}

// checkChecksum compares the checksum file of a version, if there is one that this package can judge.
func checkChecksum(ctx context.Context, store objstore.Store, s *Snapshot) (string, error) {
	b, err := store.Get(ctx, checksumName(s.version))
	if errors.Is(err, objstore.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", checksumName(s.version), err)
	}
	var c checksum
	if err := json.Unmarshal(b, &c); err != nil {
		return "the checksum file is not JSON: remove it", nil
	}
	if diff := c.compare(s); len(diff) > 0 {
		return "the checksum file says otherwise than the log, and other engines believe it (remove it): " + strings.Join(diff, "; "), nil
	}
	return "", nil
}
