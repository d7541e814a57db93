package table

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/roaring"
)

// ErrDeletionVector is wrapped by every error about a deletion vector that is not what the log says. Rows of its
// file are then not given at all: nobody knows which of them are deleted.
var ErrDeletionVector = errors.New("broken deletion vector")

const (
	vectorVersion = 1          // first byte of a file of vectors
	vectorMagic   = 1681511377 // of a vector in the portable form
	uuidChars     = 20         // of a UUID in base 85
)

// VectorPath gives the file that holds a deletion vector as an add action would give it, URI-encoded: relative to
// the table's root, or absolute. It is empty for a vector that is in the log itself.
func VectorPath(d *deltalog.DeletionVector) (string, error) {
	switch d.StorageType {
	case "i":
		return "", nil
	case "p":
		return d.PathOrInlineDV, nil
	case "u":
		if len(d.PathOrInlineDV) < uuidChars {
			return "", fmt.Errorf("%w: no UUID in %q", ErrDeletionVector, d.PathOrInlineDV)
		}
		cut := len(d.PathOrInlineDV) - uuidChars
		raw, err := decodeBase85(d.PathOrInlineDV[cut:])
		if err != nil {
			return "", err
		}
		id, err := uuid.FromBytes(raw)
		if err != nil {
			return "", fmt.Errorf("%w: %w", ErrDeletionVector, err)
		}
		return deltalog.EncodePath(path.Join(d.PathOrInlineDV[:cut], "deletion_vector_"+id.String()+".bin")), nil
	}
	return "", &deltalog.UnsupportedError{Features: []string{fmt.Sprintf("deletion vectors of storage type %q", d.StorageType)}}
}

// deletedRows reads the deletion vector of a file of that many rows, and makes sure that it is whole and fits.
func (t *Table) deletedRows(ctx context.Context, d *deltalog.DeletionVector, rows int64) (*roaring.Bitmap, error) {
	limit := (rows>>16 + 1) * (4<<16/2 + 32) // no container is larger, whoever wrote it
	if d.SizeInBytes < 4 || int64(d.SizeInBytes) > limit+64 {
		return nil, fmt.Errorf("%w: %d bytes for %d rows", ErrDeletionVector, d.SizeInBytes, rows)
	}
	data, err := t.vectorBytes(ctx, d)
	if err != nil {
		return nil, err
	}
	if magic := binary.LittleEndian.Uint32(data); magic != vectorMagic {
		return nil, &deltalog.UnsupportedError{Features: []string{fmt.Sprintf("deletion vectors of format %d", magic)}}
	}
	m, err := roaring.Parse(data[4:])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDeletionVector, err)
	}
	if m.Cardinality() != d.Cardinality {
		return nil, fmt.Errorf("%w: it deletes %d rows, the log says %d", ErrDeletionVector, m.Cardinality(), d.Cardinality)
	}
	if top, ok := m.Max(); ok && top >= rows {
		return nil, fmt.Errorf("%w: it deletes row %d of a file of %d rows", ErrDeletionVector, top, rows)
	}
	return m, nil
}

// vectorBytes gives SizeInBytes bytes, from the log or from a file whose checksum is right.
func (t *Table) vectorBytes(ctx context.Context, d *deltalog.DeletionVector) ([]byte, error) {
	size := int64(d.SizeInBytes)
	if d.StorageType == "i" {
		raw, err := decodeBase85(d.PathOrInlineDV)
		if err != nil {
			return nil, err
		}
		if int64(len(raw)) < size || int64(len(raw)) > size+3 { // padded to four bytes
			return nil, fmt.Errorf("%w: %d bytes inline, the log says %d", ErrDeletionVector, len(raw), size)
		}
		return raw[:size], nil
	}
	p, err := VectorPath(d)
	if err != nil {
		return nil, err
	}
	store, key, err := t.locate(ctx, p, "deletion vector")
	if err != nil {
		return nil, err
	}
	off := int64(1)
	if d.Offset != nil {
		off = int64(*d.Offset)
	}
	info, err := store.Head(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("deletion vector: %w", err)
	}
	if off < 1 || off > info.Size-size-8 {
		return nil, fmt.Errorf("%w: %s has %d bytes, the log says %d at %d", ErrDeletionVector, key, info.Size, size+8, off)
	}
	version, err := store.GetRange(ctx, key, 0, 1)
	if err != nil {
		return nil, fmt.Errorf("deletion vector: %w", err)
	}
	if version[0] != vectorVersion {
		return nil, &deltalog.UnsupportedError{Features: []string{fmt.Sprintf("deletion vector files of version %d (%s)", version[0], key)}}
	}
	raw, err := store.GetRange(ctx, key, off, size+8)
	if err != nil {
		return nil, fmt.Errorf("deletion vector: %w", err)
	}
	data := raw[4 : 4+size]
	if got := int64(binary.BigEndian.Uint32(raw)); got != size {
		return nil, fmt.Errorf("%w: %s says %d bytes at %d, the log says %d", ErrDeletionVector, key, got, off, size)
	}
	if want, got := binary.BigEndian.Uint32(raw[4+size:]), crc32.ChecksumIEEE(data); want != got {
		return nil, fmt.Errorf("%w: %s has checksum %08x at %d, want %08x", ErrDeletionVector, key, got, off, want)
	}
	return data, nil
}

// live gives the rows of a batch that are not deleted, as pieces without a copy; at is the batch's first row in
// the file. The batch is released.
func (f *fileScan) live(rb arrow.RecordBatch, at int64) []*chunk {
	whole := &chunk{rb: rb, file: f.u.name(), width: f.width, row: at}
	if f.u.deleted == nil {
		return []*chunk{whole}
	}
	defer rb.Release()
	var out []*chunk
	next, end := at, at+rb.NumRows()
	give := func(to int64) {
		if next < to {
			c := whole.slice(int(next-at), int(to-at))
			if c == whole {
				c = &chunk{rb: rb, file: whole.file, width: whole.width}
			}
			c.row = next
			out = append(out, c)
		}
	}
	for from, to := range f.u.deleted.Ranges(at, end) {
		give(from)
		next = to
	}
	give(end)
	return out
}

const base85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"

// decodeBase85 reads the text form Z85: five characters for four bytes. Data that is no multiple of four bytes ends
// with zeros, or with a group that begins with as many '#' as there are bytes too few: writers differ.
func decodeBase85(text string) ([]byte, error) {
	if len(text)%5 != 0 {
		return nil, fmt.Errorf("%w: base 85 text of %d characters", ErrDeletionVector, len(text))
	}
	var digit [256]uint8
	for i := range base85 {
		digit[base85[i]] = uint8(i) + 1
	}
	out := make([]byte, 0, len(text)/5*4)
	for i := 0; i < len(text); i += 5 {
		group, size := text[i:i+5], 4
		for i+5 == len(text) && size > 1 && group[0] == '#' { // as a digit it would be too large there
			group, size = group[1:], size-1
		}
		v := uint64(0)
		for j := range group {
			d := digit[group[j]]
			if d == 0 {
				return nil, fmt.Errorf("%w: %q is not in base 85", ErrDeletionVector, group[j])
			}
			v = v*85 + uint64(d-1)
		}
		if v>>(8*size) != 0 {
			return nil, fmt.Errorf("%w: base 85 group %q is too large", ErrDeletionVector, text[i:i+5])
		}
		for size--; size >= 0; size-- {
			out = append(out, byte(v>>(8*size)))
		}
	}
	return out, nil
}
