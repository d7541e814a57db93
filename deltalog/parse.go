package deltalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// parseCommit reads the newline-separated actions of a commit, a compaction or a JSON checkpoint. Unknown
// actions and fields are ignored; anything that is not JSON is an error with its line, never "the end of the log".
func parseCommit(data []byte, file string) (*actions, error) {
	a := &actions{}
	in := newInterner()
	for line := 1; len(data) > 0; line++ {
		var row []byte
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			row, data = data[:i], data[i+1:]
		} else {
			row, data = data, nil
		}
		if row = bytes.TrimSpace(row); len(row) == 0 {
			continue
		}
		if err := a.parseLine(row, in); err != nil {
			return nil, &CorruptError{File: file, Line: line, Err: err}
		}
	}
	return a, nil
}

// jsonAction is one line of a commit.
type jsonAction struct {
	Add                *Add            `json:"add"`
	Remove             *jsonRemove     `json:"remove"`
	MetaData           *Metadata       `json:"metaData"`
	Protocol           *Protocol       `json:"protocol"`
	Txn                *jsonTxn        `json:"txn"`
	CommitInfo         *CommitInfo     `json:"commitInfo"`
	DomainMetadata     *DomainMetadata `json:"domainMetadata"`
	Sidecar            *Sidecar        `json:"sidecar"`
	CheckpointMetadata *struct{}       `json:"checkpointMetadata"`
}

// jsonRemove tells a missing dataChange from a false one: missing means true.
type jsonRemove struct {
	Remove
	DataChange *bool `json:"dataChange"`
}

type jsonTxn struct {
	AppID       *string `json:"appId"`
	Version     *int64  `json:"version"`
	LastUpdated *int64  `json:"lastUpdated"`
}

func (a *actions) parseLine(row []byte, in *interner) error {
	var j jsonAction
	if err := json.Unmarshal(row, &j); err != nil {
		return err
	}
	if j.Add != nil {
		j.Add.PartitionValues = in.values(j.Add.PartitionValues)
		if err := a.add(*j.Add); err != nil {
			return err
		}
	}
	if j.Remove != nil {
		r := j.Remove.Remove
		r.DataChange = j.Remove.DataChange == nil || *j.Remove.DataChange
		r.PartitionValues = in.values(r.PartitionValues)
		if err := a.remove(r); err != nil {
			return err
		}
	}
	if j.Txn != nil {
		if j.Txn.AppID == nil || j.Txn.Version == nil {
			return errors.New("txn without appId or version")
		}
		a.txns = append(a.txns, Txn{AppID: *j.Txn.AppID, Version: *j.Txn.Version, LastUpdated: j.Txn.LastUpdated})
	}
	if j.DomainMetadata != nil {
		a.domains = append(a.domains, *j.DomainMetadata)
	}
	if j.Sidecar != nil {
		if j.Sidecar.Path == "" {
			return errors.New("sidecar without path")
		}
		a.sidecars = append(a.sidecars, *j.Sidecar)
	}
	return a.parseRare(&j)
}

func (a *actions) parseRare(j *jsonAction) error {
	if j.MetaData != nil {
		if a.metadata != nil {
			return errors.New("second metaData action in one commit")
		}
		a.metadata = j.MetaData
	}
	if j.Protocol != nil {
		if a.protocol != nil {
			return errors.New("second protocol action in one commit")
		}
		a.protocol = j.Protocol
	}
	if j.CommitInfo != nil && a.info == nil {
		a.info = j.CommitInfo
	}
	if j.CheckpointMetadata != nil {
		a.v2 = true
	}
	return nil
}

func (a *actions) add(x Add) error {
	if x.Path == "" {
		return errors.New("add without path")
	}
	if x.Size < 0 {
		return fmt.Errorf("add with size %d", x.Size)
	}
	a.adds = append(a.adds, x)
	return nil
}

func (a *actions) remove(r Remove) error {
	if r.Path == "" {
		return errors.New("remove without path")
	}
	a.removes = append(a.removes, r)
	a.addsBefore = append(a.addsBefore, len(a.adds))
	return nil
}

// checkDuplicates refuses what the protocol forbids within one version: the meaning would depend on the reader.
func (a *actions) checkDuplicates() error {
	if len(a.txns) > 1 {
		seen := make(map[string]bool, len(a.txns))
		for _, t := range a.txns {
			if seen[t.AppID] {
				return fmt.Errorf("second txn of application %q in one commit", t.AppID)
			}
			seen[t.AppID] = true
		}
	}
	if len(a.domains) > 1 {
		seen := make(map[string]bool, len(a.domains))
		for _, d := range a.domains {
			if seen[d.Domain] {
				return fmt.Errorf("second domainMetadata of %q in one commit", d.Domain)
			}
			seen[d.Domain] = true
		}
	}
	if len(a.removes) > 1 {
		seen := make(map[string]bool, len(a.removes))
		for i := range a.removes {
			k := fileKey(a.removes[i].Path, a.removes[i].DeletionVector)
			if seen[k] {
				return fmt.Errorf("second remove of %q in one commit", a.removes[i].Path)
			}
			seen[k] = true
		}
	}
	return nil
}

// encodeCommit writes actions as a commit file, commitInfo first.
func encodeCommit(info map[string]any, a *actions) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	var err error
	put := func(name string, v any) {
		if err == nil {
			err = enc.Encode(map[string]any{name: v})
		}
	}
	put("commitInfo", info)
	if a.protocol != nil {
		put("protocol", a.protocol)
	}
	if a.metadata != nil {
		put("metaData", a.metadata)
	}
	for i := range a.txns {
		put("txn", &a.txns[i])
	}
	for i := range a.domains {
		put("domainMetadata", &a.domains[i])
	}
	for i := range a.removes {
		put("remove", &a.removes[i])
	}
	for i := range a.adds {
		put("add", &a.adds[i])
	}
	if err != nil {
		return nil, fmt.Errorf("encode commit: %w", err)
	}
	return b.Bytes(), nil
}
