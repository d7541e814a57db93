package record

import "fmt"

// Codec is the compression of a batch, numbered as in its attributes.
type Codec int8

// The codecs of Kafka.
const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

// DefaultMaxBytes bounds the decompressed size of a batch unless Iterator.MaxBytes says otherwise.
const DefaultMaxBytes = 128 << 20

// String gives the name that Kafka's settings use.
func (c Codec) String() string {
	switch c {
	case None:
		return "none"
	case Gzip:
		return "gzip"
	case Snappy:
		return "snappy"
	case LZ4:
		return "lz4"
	case Zstd:
		return "zstd"
	}
	return fmt.Sprintf("codec(%d)", int8(c))
}

// ParseCodec reads a name as compression.type has it.
func ParseCodec(name string) (Codec, error) {
	for c := None; c <= Zstd; c++ {
		if c.String() == name {
			return c, nil
		}
	}
	return None, fmt.Errorf("compression %q is not one of none, gzip, snappy, lz4, zstd", name)
}
