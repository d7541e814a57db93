package maintenance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/table"
)

// changeData is the folder of change data files. No snapshot names them.
const changeData = "_change_data/"

// stagedData is the folder of large requests to a group of committers, and stagedAge the age from which none of them
// can still be on its way, whatever retention was asked for.
const (
	stagedData = fsm.StagedFolder
	stagedAge  = 24 * time.Hour
)

// hiddenKeys gives the rule for what a vacuum must not see: parts of a path that begin with '_' or '.', which hold
// the log, leases and the affairs of other programs, except change data and folders of partition columns.
//
// Files of reprocess jobs whose tables were swapped in and retired are seen: they are the table's own (retiredShadows).
//
// Requests that were staged for a group of committers are seen: they belong to nobody once they are old. Not so the actions
// that the group decided on: a version that waits for its store for however long needs them (I5).
func hiddenKeys(snap *deltalog.Snapshot, shadows []string) func(key string) bool {
	var folders []string
	for _, c := range snap.Metadata().PartitionColumns {
		folders = append(folders, deltalog.EscapePartition(c)+"=")
		if f, ok := snap.Schema().Field(c); ok {
			folders = append(folders, deltalog.EscapePartition(f.PhysicalName())+"=")
		}
	}
	return func(key string) bool {
		if strings.HasPrefix(key, "_delta_log/") {
			return true
		}
		if strings.HasPrefix(key, stagedData) {
			return strings.HasSuffix(key, fsm.ActionsSuffix)
		}
		rest := strings.TrimPrefix(key, changeData)
		for _, s := range shadows {
			if below, ok := strings.CutPrefix(key, s+"/"); ok {
				rest = below
			}
		}
		for part := range strings.SplitSeq(rest, "/") {
			if !strings.HasPrefix(part, "_") && !strings.HasPrefix(part, ".") {
				continue
			}
			if !slices.ContainsFunc(folders, func(f string) bool { return strings.HasPrefix(part, f) }) {
				return true
			}
		}
		return false
	}
}

// retiredShadows are the folders below _shadow/ whose data files belong to the table alone: those of jobs that were
// swapped in, and whose own logs are gone. While a job's log is there it names these files too, and its table may be
// swapped in again after a restore: its folder is left alone. A table that is made there anew has its log before its
// first data file, and the files of a job are never named twice.
func retiredShadows(ctx context.Context, store objstore.Store, snap *deltalog.Snapshot) ([]string, error) {
	var out []string
	for _, job := range table.SwappedJobs(snap.Metadata().Configuration) {
		folder, own := table.ShadowFolder(job), false
		for _, err := range store.List(ctx, objstore.ListOptions{Prefix: folder + "/_delta_log/"}) {
			if err != nil {
				return nil, fmt.Errorf("look for the log of job %s: %w", job, err)
			}
			own = true
			break
		}
		if !own {
			out = append(out, folder)
		}
	}
	return out, nil
}
