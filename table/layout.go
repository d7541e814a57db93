package table

import (
	"fmt"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/parquet"
)

// Codec compresses the pages of data files; an empty one is CodecSnappy.
type Codec string

// The codecs.
const (
	CodecSnappy       Codec = "snappy"
	CodecZstd         Codec = "zstd"
	CodecUncompressed Codec = "uncompressed"
)

// Validate refuses other codecs.
func (c Codec) Validate() error {
	switch c {
	case "", CodecSnappy, CodecZstd, CodecUncompressed:
		return nil
	}
	return fmt.Errorf("codec %q is not %s, %s or %s", string(c), CodecSnappy, CodecZstd, CodecUncompressed)
}

func (c Codec) pages() parquet.Codec {
	switch c {
	case CodecZstd:
		return parquet.Zstd
	case CodecUncompressed:
		return parquet.Uncompressed
	}
	return parquet.Snappy
}

// maxFolder is the longest name of a folder: file systems take 255 bytes.
const maxFolder = 200

// folder gives the folders of a file with partition values, in Hive's manner and with a slash at the end. Readers
// take the values from the log, so a value that makes too long a name goes without folders.
func folder(snap *deltalog.Snapshot, values map[string]*string) string {
	if snap.Metadata().MappingMode() != "none" {
		return "" // names of columns may change, and nobody could tell by the folders
	}
	out := ""
	for _, c := range snap.Metadata().PartitionColumns {
		f, _ := snap.Schema().Field(c)
		name := deltalog.PartitionFolder(c, f.Type, values[c])
		if len(name) > maxFolder {
			return ""
		}
		out += name + "/"
	}
	return out
}

// samePartition says whether two files hold rows of the same partition values, in the same codec.
func samePartition(a, b WriterOptions) bool {
	if len(a.PartitionValues) != len(b.PartitionValues) || a.Codec != b.Codec {
		return false
	}
	for name, v := range a.PartitionValues {
		w, ok := b.PartitionValues[name]
		if !ok || (v == nil) != (w == nil) || v != nil && *v != *w {
			return false
		}
	}
	return true
}
