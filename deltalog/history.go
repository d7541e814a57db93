package deltalog

import (
	"context"
	"fmt"
	"sort"
)

// History gives what the newest n commits say about themselves, newest first; n <= 0 gives all that the log
// still holds. A commit without commitInfo gives only its version and time.
func (l *Log) History(ctx context.Context, n int) ([]CommitInfo, error) {
	found, err := list(ctx, l.store, 0)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	files := make([]logFile, 0, len(found.commits))
	for _, f := range found.commits {
		files = append(files, f)
	}
	sort.Slice(files, func(i, j int) bool { return files[i].version > files[j].version })
	if n > 0 && n < len(files) {
		files = files[:n]
	}
	out := make([]CommitInfo, 0, len(files))
	for len(files) > 0 { // in pieces: the adds of a long log must not all be in memory
		step := min(len(files), 4*fetchParallel)
		commits, err := readCommits(ctx, l.store, files[:step])
		if err != nil {
			return nil, fmt.Errorf("history: %w", err)
		}
		for i, a := range commits {
			info := CommitInfo{Version: files[i].version, Timestamp: files[i].modTime}
			if a.info != nil {
				info = *a.info
				if info.Timestamp == 0 {
					info.Timestamp = files[i].modTime
				}
			}
			out = append(out, info)
		}
		files = files[step:]
	}
	return out, nil
}
