package table

import (
	"maps"
	"slices"
	"strings"
)

// swappedPrefix begins the names of the properties that say which jobs' new tables were swapped in.
const swappedPrefix = "ledgerlake.swapped."

// ShadowFolder is where the table of a reprocess job lies below the table that it may take the place of: files of a
// Delta table are named relative to its folder, so that a swap is one commit.
func ShadowFolder(job string) string { return "_shadow/" + job }

// SwappedProperty is the table property that says that a job's table was swapped in.
func SwappedProperty(job string) string { return swappedPrefix + job }

// SwappedJobs are the jobs whose tables were swapped in, by the properties of the table that they took the place of.
func SwappedJobs(properties map[string]string) []string {
	var jobs []string
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if job, ok := strings.CutPrefix(name, swappedPrefix); ok && job != "" && !strings.Contains(job, "/") {
			jobs = append(jobs, job)
		}
	}
	return jobs
}
