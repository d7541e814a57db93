package maintenance

import (
	"slices"
	"strings"
	"time"

	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
	"github.com/ledgerlake/ledgerlake/deltalog"
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
// Requests that were staged for a group of committers are seen: they belong to nobody once they are old. Not so the actions
// that the group decided on: a version that waits for its store for however long needs them (I5).
func hiddenKeys(snap *deltalog.Snapshot) func(key string) bool {
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
