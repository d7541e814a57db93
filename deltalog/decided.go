package deltalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// This file is for a writer that decides what a version holds before it is put into the store: a replicated
// log. It splits Commit into its parts: check and encode the actions, encode the header, read what is there.

// CommitKey is the key of a version's commit file, relative to the table's root.
func CommitKey(v Version) string { return commitName(v) }

// CanonicalPath is the form under which paths of add and remove actions are compared for conflicts.
func CanonicalPath(p string) string { return canonicalPath(p) }

// Content is what one commit file holds.
type Content struct {
	Info     CommitInfo // zero when the commit says nothing about itself
	Protocol *Protocol
	Metadata *Metadata
	Adds     []Add
	Removes  []Remove
	Txns     []Txn
	Domains  []DomainMetadata
}

// ParseCommit reads a commit file. The name is for errors, which are *CorruptError.
func ParseCommit(data []byte, name string) (*Content, error) {
	a, err := parseCommit(data, name)
	if err != nil {
		return nil, err
	}
	if err := a.checkDuplicates(); err != nil {
		return nil, &CorruptError{File: name, Err: err}
	}
	c := &Content{Protocol: a.protocol, Metadata: a.metadata, Adds: a.adds, Removes: a.removes, Txns: a.txns, Domains: a.domains}
	if a.info != nil {
		c.Info = *a.info
	}
	return c, nil
}

// EncodeActions checks a change as Commit does, against the snapshot it is to follow, and gives its actions as
// lines of a commit file: all but commitInfo and txn, which EncodeHeader makes.
func (s *Snapshot) EncodeActions(c Commit) ([]byte, error) {
	if c.Metadata != nil && isOn(c.Metadata.Configuration, ictSetting) && !isOn(s.metadata.Configuration, ictSetting) {
		return nil, &UnsupportedError{Write: true, Features: []string{"turning on in-commit timestamps where another program decides on versions"}}
	}
	c.Txns = nil
	a, err := (&transaction{c: c}).actions(s, s.timestamp+1)
	if err != nil {
		return nil, err
	}
	raw, err := encodeCommit(map[string]any{}, a)
	if err != nil {
		return nil, err
	}
	_, lines, _ := bytes.Cut(raw, []byte{'\n'}) // without the empty commitInfo
	return lines, nil
}

// Header is what the first lines of a commit file say.
type Header struct {
	TxnID             string
	Timestamp         int64  // ms
	InCommitTimestamp *int64 // set when the table's settings ask for it
	Operation         string
	Parameters        map[string]string // plain strings, quoted here as Spark does
	Metrics           map[string]string // left out when there are none
	Engine            string
	ReadVersion       Version // negative: left out
	BlindAppend       bool
	Txns              []Txn
}

// EncodeHeader gives the commitInfo and txn lines of a commit file. The same header gives the same bytes.
func EncodeHeader(h Header) ([]byte, error) {
	params := make(map[string]string, len(h.Parameters))
	for k, v := range h.Parameters {
		params[k] = quoteParameter(v)
	}
	info := map[string]any{"timestamp": h.Timestamp, "operation": h.Operation, "operationParameters": params,
		"engineInfo": h.Engine, "txnId": h.TxnID, "isBlindAppend": h.BlindAppend}
	if h.ReadVersion >= 0 {
		info["readVersion"] = h.ReadVersion
	}
	if len(h.Metrics) > 0 {
		info["operationMetrics"] = h.Metrics
	}
	if h.InCommitTimestamp != nil {
		info["inCommitTimestamp"] = *h.InCommitTimestamp
	}
	a := &actions{txns: h.Txns}
	if err := a.checkDuplicates(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidCommit, err)
	}
	return encodeCommit(info, a)
}

// Fingerprint identifies the content of a metadata or protocol action, whoever wrote it.
func Fingerprint[T Metadata | Protocol](x *T) (string, error) {
	if m, ok := any(x).(*Metadata); ok {
		c := *m
		c.normalize() // an empty collection and none mean the same
		x = any(&c).(*T)
	}
	raw, err := json.Marshal(x)
	if err != nil {
		return "", fmt.Errorf("fingerprint: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16]), nil
}

// Published tells the log that data is in the store as version v, put there by the caller: it is applied without
// being read back, and a checkpoint is made when one is due. It says nothing about versions in between; a log that
// lags behind catches up at its next snapshot.
func (l *Log) Published(v Version, data []byte) {
	l.applyOwn(v, data, "", "")
	l.checkpointIfDue(v)
}
