package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// TxnIndexSuffix is that of the file with the aborted transactions whose marker stands in a segment. Unlike the
// other indexes it cannot be built again from its segment alone, since a transaction may begin in an earlier one.
const TxnIndexSuffix = ".txnindex"

// txnEntrySize is that of Kafka's entries: version, producer id, first and last offset, last stable offset.
const txnEntrySize = 2 + 4*8

// AbortedTxn is one aborted transaction.
type AbortedTxn struct {
	ProducerID int64
	First      record.Offset // of the transaction
	Last       record.Offset // of its marker
	Stable     record.Offset // last stable offset once the marker stood: later ones began there or behind
}

func putTxnEntry(b []byte, t AbortedTxn) []byte {
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint64(b, uint64(t.ProducerID))
	b = binary.BigEndian.AppendUint64(b, uint64(t.First))
	b = binary.BigEndian.AppendUint64(b, uint64(t.Last))
	return binary.BigEndian.AppendUint64(b, uint64(t.Stable))
}

// getTxnEntry reads an entry of the segment that info describes; wrong says what is not right with it.
func getTxnEntry(b []byte, info Info) (t AbortedTxn, wrong string) {
	if v := binary.BigEndian.Uint16(b); v != 0 {
		return t, fmt.Sprintf("version %d", v)
	}
	t = AbortedTxn{
		ProducerID: int64(binary.BigEndian.Uint64(b[2:])),
		First:      record.Offset(binary.BigEndian.Uint64(b[10:])),
		Last:       record.Offset(binary.BigEndian.Uint64(b[18:])),
		Stable:     record.Offset(binary.BigEndian.Uint64(b[26:])),
	}
	if t.First < 0 || t.First > t.Last || t.Last < info.Base || t.Last >= info.Next {
		wrong = fmt.Sprintf("a transaction from %d to %d", t.First, t.Last)
	}
	return t, wrong
}

// ReadAborted gives the aborted transactions of a segment, info.Aborted in number. Fewer are damage, and more are
// not of the good part.
func ReadAborted(fsys vfs.FS, dir string, info Info) (out []AbortedTxn, err error) {
	if info.Aborted == 0 {
		return nil, nil
	}
	name := FileName(dir, info.Base, TxnIndexSuffix)
	damage := func(pos int64, expected, found string) error {
		return &DamageError{Finding: Finding{File: name, Offset: pos, Expected: expected, Found: found}}
	}
	f, err := fsys.OpenRead(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, damage(0, fmt.Sprintf("%d aborted transactions", info.Aborted), "no file")
	}
	if err != nil {
		return nil, fmt.Errorf("read aborted transactions: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("read aborted transactions: %w", err)
	}
	if size < int64(info.Aborted)*txnEntrySize {
		return nil, damage(size, fmt.Sprintf("%d aborted transactions", info.Aborted), fmt.Sprintf("%d bytes", size))
	}
	b := make([]byte, info.Aborted*txnEntrySize) // bounded by the file's size
	if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read aborted transactions: %w", err)
	}
	for i := range info.Aborted {
		t, wrong := getTxnEntry(b[i*txnEntrySize:], info)
		if wrong != "" {
			return nil, damage(int64(i*txnEntrySize), "an aborted transaction of the segment", wrong)
		}
		out = append(out, t)
	}
	return out, nil
}

// AddAborted notes an aborted transaction whose marker was the last batch appended.
func (w *Writer) AddAborted(t AbortedTxn) {
	w.aborted = append(w.aborted, t)
	w.x.info.Aborted++
}

// flushAborted writes the entries that are only in memory behind those that are in the file. It never rewrites
// one: a checkpoint may rely on it.
func (w *Writer) flushAborted() error {
	if len(w.aborted) == 0 {
		return nil
	}
	var b []byte
	for _, t := range w.aborted {
		b = putTxnEntry(b, t)
	}
	name := FileName(w.dir, w.x.info.Base, TxnIndexSuffix)
	var f vfs.File
	var err error
	before := w.x.info.Aborted - len(w.aborted)
	if before == 0 {
		f, err = w.fs.Create(name)
	} else {
		f, err = w.fs.Open(name)
	}
	if err != nil {
		return fmt.Errorf("write aborted transactions: %w", err)
	}
	_, err = f.WriteAt(b, int64(before)*txnEntrySize)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write aborted transactions: %w", err)
	}
	w.aborted = w.aborted[:0]
	return nil
}

// cutAborted removes entries that are not of the good part.
func (w *Writer) cutAborted() error {
	f, err := w.fs.Open(FileName(w.dir, w.x.info.Base, TxnIndexSuffix))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // ReadAborted tells when there should be some
	}
	if err != nil {
		return err
	}
	want := int64(w.x.info.Aborted-len(w.aborted)) * txnEntrySize
	size, err := f.Size()
	if err == nil && size > want {
		err = f.Truncate(want)
	}
	return errors.Join(err, f.Close())
}

// SyncAborted makes the entries durable that FlushIndex has written. It may run while the Writer appends.
func SyncAborted(fsys vfs.FS, dir string, base record.Offset) error {
	f, err := fsys.Open(FileName(dir, base, TxnIndexSuffix))
	if err != nil {
		return fmt.Errorf("sync aborted transactions: %w", err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync aborted transactions: %w", err)
	}
	return nil
}
