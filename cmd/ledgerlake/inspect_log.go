package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"

	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
)

// frameReport is one line of `inspect JOURNAL --json`.
type frameReport struct {
	Position  int64  `json:"position"` // byte offset in the file
	Kind      string `json:"kind"`
	Topic     string `json:"topicId"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Bytes     int    `json:"bytes"`
	Synced    int64  `json:"synced"` // the file was durable up to here when the frame was written
}

// inspectJournal shows the frames of a journal file, in the order in which they were written.
func inspectJournal(ctx context.Context, out io.Writer, name string, asJSON bool, limit int) error {
	enc := json.NewEncoder(out)
	shown := 0
	for f, err := range local.DumpJournal(ctx, vfs.OS(), name) {
		if err != nil {
			return err
		}
		if limit > 0 && shown == limit {
			if !asJSON {
				_, err = fmt.Fprintln(out, "... more frames; --limit 0 shows all")
			}
			return err
		}
		shown++
		r := frameReport{
			Position: f.Position, Kind: f.Kind.String(), Topic: hex.EncodeToString(f.Topic[:]), Partition: f.Partition,
			Offset: int64(f.Offset), Bytes: len(f.Payload), Synced: f.Synced,
		}
		if asJSON {
			err = enc.Encode(r)
		} else {
			_, err = fmt.Fprintf(out, "@%-10d %s  topic %s  partition %d  offset %d  %d bytes\n", r.Position, r.Kind, r.Topic, r.Partition, r.Offset, r.Bytes)
		}
		if err != nil {
			return err
		}
	}
	if shown == 0 && !asJSON {
		_, err := fmt.Fprintln(out, "no frames")
		return err
	}
	return nil
}
