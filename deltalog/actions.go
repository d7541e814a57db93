package deltalog

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"
)

// Version is the number of a commit.
type Version int64

// Add says that a data file is part of the table. Values of this type that come from a Snapshot are shared:
// callers must not change them nor their maps.
type Add struct {
	Path                    string             `json:"path"` // URI-encoded, see DecodePath
	PartitionValues         map[string]*string `json:"partitionValues"`
	Size                    int64              `json:"size"`
	ModificationTime        int64              `json:"modificationTime"` // ms since the epoch
	DataChange              bool               `json:"dataChange"`
	Stats                   string             `json:"stats,omitempty"` // JSON; empty when unknown
	Tags                    map[string]*string `json:"tags,omitempty"`
	DeletionVector          *DeletionVector    `json:"deletionVector,omitempty"`
	BaseRowID               *int64             `json:"baseRowId,omitempty"`
	DefaultRowCommitVersion *int64             `json:"defaultRowCommitVersion,omitempty"`
	ClusteringProvider      string             `json:"clusteringProvider,omitempty"`
}

// Remove says that a data file is no longer part of the table.
type Remove struct {
	Path                    string             `json:"path"`
	DeletionTimestamp       *int64             `json:"deletionTimestamp,omitempty"`
	DataChange              bool               `json:"dataChange"`
	ExtendedFileMetadata    *bool              `json:"extendedFileMetadata,omitempty"`
	PartitionValues         map[string]*string `json:"partitionValues,omitzero"`
	Size                    *int64             `json:"size,omitempty"`
	Stats                   string             `json:"stats,omitempty"`
	Tags                    map[string]*string `json:"tags,omitempty"`
	DeletionVector          *DeletionVector    `json:"deletionVector,omitempty"`
	BaseRowID               *int64             `json:"baseRowId,omitempty"`
	DefaultRowCommitVersion *int64             `json:"defaultRowCommitVersion,omitempty"`
}

// RemoveOf gives the remove action that takes a out of the table at the given time, with everything that
// change feeds, checksums and conflict checks of other engines want to know.
func RemoveOf(a *Add, deletionTimestamp int64, dataChange bool) Remove {
	extended, size := true, a.Size
	return Remove{Path: a.Path, DeletionTimestamp: &deletionTimestamp, DataChange: dataChange,
		ExtendedFileMetadata: &extended, PartitionValues: a.PartitionValues, Size: &size, Tags: a.Tags,
		DeletionVector: a.DeletionVector, BaseRowID: a.BaseRowID, DefaultRowCommitVersion: a.DefaultRowCommitVersion}
}

// DeletionVector describes which rows of a file are deleted.
type DeletionVector struct {
	StorageType    string `json:"storageType"`
	PathOrInlineDV string `json:"pathOrInlineDv"`
	Offset         *int32 `json:"offset,omitempty"`
	SizeInBytes    int32  `json:"sizeInBytes"`
	Cardinality    int64  `json:"cardinality"`
	MaxRowIndex    *int64 `json:"maxRowIndex,omitempty"`
}

// UniqueID is the part of a logical file's identity that the vector adds to the path.
func (d *DeletionVector) UniqueID() string {
	if d == nil {
		return ""
	}
	if d.Offset == nil {
		return d.StorageType + d.PathOrInlineDV
	}
	return fmt.Sprintf("%s%s@%d", d.StorageType, d.PathOrInlineDV, *d.Offset)
}

// Txn records how far an application has written.
type Txn struct {
	AppID       string `json:"appId"`
	Version     int64  `json:"version"`
	LastUpdated *int64 `json:"lastUpdated,omitempty"`
}

// Format is the encoding of data files.
type Format struct {
	Provider string            `json:"provider"`
	Options  map[string]string `json:"options"`
}

// Metadata is the table's description. ID is its incarnation: an opaque string.
type Metadata struct {
	ID               string            `json:"id"`
	Name             string            `json:"name,omitempty"`
	Description      string            `json:"description,omitempty"`
	Format           Format            `json:"format"`
	SchemaString     string            `json:"schemaString"`
	PartitionColumns []string          `json:"partitionColumns"`
	CreatedTime      *int64            `json:"createdTime,omitempty"`
	Configuration    map[string]string `json:"configuration"`
}

// Protocol says what a client must be able to do.
type Protocol struct {
	MinReaderVersion int32
	MinWriterVersion int32
	ReaderFeatures   []string // only from reader version 3, where nil (the list is missing) is refused and empty is not
	WriterFeatures   []string // only from writer version 7
}

type protocolJSON struct {
	MinReaderVersion *int32    `json:"minReaderVersion"`
	MinWriterVersion *int32    `json:"minWriterVersion"`
	ReaderFeatures   *[]string `json:"readerFeatures,omitempty"`
	WriterFeatures   *[]string `json:"writerFeatures,omitempty"`
}

// MarshalJSON writes the feature arrays exactly when the versions ask for them: other readers refuse the rest.
func (p Protocol) MarshalJSON() ([]byte, error) {
	out := protocolJSON{MinReaderVersion: &p.MinReaderVersion, MinWriterVersion: &p.MinWriterVersion}
	if p.MinReaderVersion >= 3 {
		out.ReaderFeatures = notNil(p.ReaderFeatures)
	}
	if p.MinWriterVersion >= 7 {
		out.WriterFeatures = notNil(p.WriterFeatures)
	}
	return json.Marshal(out)
}

// UnmarshalJSON refuses a protocol without versions: guessing one could make us misread the table.
func (p *Protocol) UnmarshalJSON(b []byte) error {
	var in protocolJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	if in.MinReaderVersion == nil || in.MinWriterVersion == nil {
		return fmt.Errorf("protocol without minReaderVersion or minWriterVersion")
	}
	*p = Protocol{MinReaderVersion: *in.MinReaderVersion, MinWriterVersion: *in.MinWriterVersion}
	if in.ReaderFeatures != nil {
		p.ReaderFeatures = *in.ReaderFeatures
	}
	if in.WriterFeatures != nil {
		p.WriterFeatures = *in.WriterFeatures
	}
	return nil
}

func notNil(s []string) *[]string {
	if s == nil {
		s = []string{}
	}
	return &s
}

// DomainMetadata is a named configuration.
type DomainMetadata struct {
	Domain        string `json:"domain"`
	Configuration string `json:"configuration"`
	Removed       bool   `json:"removed"`
}

// Sidecar names a file with adds and removes that belongs to a V2 checkpoint.
type Sidecar struct {
	Path             string            `json:"path"`
	SizeInBytes      int64             `json:"sizeInBytes"`
	ModificationTime int64             `json:"modificationTime"`
	Tags             map[string]string `json:"tags,omitempty"`
}

// CommitInfo is what a commit says about itself. Everything in it is free-form in the wild: a known field of an
// unexpected type is left at its zero value, and Raw keeps the whole object.
type CommitInfo struct {
	Version             Version   // the commit's own version
	Committed           time.Time // what SnapshotAtTime goes by; only History sets it
	Timestamp           int64     // ms, as the writer says
	InCommitTimestamp   *int64
	Operation           string
	OperationParameters map[string]json.RawMessage
	OperationMetrics    map[string]string
	ReadVersion         *int64
	IsolationLevel      string
	IsBlindAppend       *bool
	EngineInfo          string
	TxnID               string
	UserMetadata        string
	Raw                 json.RawMessage
}

// UnmarshalJSON accepts any JSON object.
func (c *CommitInfo) UnmarshalJSON(b []byte) error {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	*c = CommitInfo{Raw: append(json.RawMessage(nil), b...)}
	// Errors are dropped on purpose: a wrong type in free-form information must not make a table unreadable.
	get := func(key string, dst any) {
		if raw, ok := m[key]; ok {
			_ = json.Unmarshal(raw, dst)
		}
	}
	get("timestamp", &c.Timestamp)
	get("inCommitTimestamp", &c.InCommitTimestamp)
	get("operation", &c.Operation)
	get("operationParameters", &c.OperationParameters)
	get("operationMetrics", &c.OperationMetrics)
	get("readVersion", &c.ReadVersion)
	get("isolationLevel", &c.IsolationLevel)
	get("isBlindAppend", &c.IsBlindAppend)
	get("engineInfo", &c.EngineInfo)
	get("txnId", &c.TxnID)
	get("userMetadata", &c.UserMetadata)
	return nil
}

// actions is the content of one commit, compaction or checkpoint part.
type actions struct {
	info     *CommitInfo
	protocol *Protocol
	metadata *Metadata
	adds     []Add
	tagTexts []string // beside adds, when the parser keeps tags as text
	text     slab     // with paths, statistics and tags of adds and removes; reset writes over it
	removes  []Remove
	// addsBefore[i] is the number of adds in front of removes[i]: the order of actions counts.
	addsBefore []int
	txns       []Txn
	domains    []DomainMetadata
	sidecars   []Sidecar
	v2         bool              // has a checkpointMetadata
	unread     int64             // about how many files were left out
	expected   int               // about how many adds will come, this piece's among them; 0: not known
	sum        [sha256.Size]byte // of the commit's bytes; set for the last one of a read, which becomes the head
}
