package bench

import (
	"bufio"
	"maps"
	"strings"
	"testing"
)

// Requests are counted for one table, whose name another's begins with, and a listing is found by its prefix.
func TestRequestsOfATableAreCounted(t *testing.T) {
	line := func(op, key, target string) string {
		return "who lake [30/November/2026:05:09:32 +0000] 127.0.0.1 who ID s3_" + op + " " + key + " " + target + " 200 - 0 484 0 0 - agent - sig SigV4\n"
	}
	log := "log starts 2026-11-30\n" +
		line("PutObject", "t-1/a.parquet", "/lake/t-1/a.parquet") + line("PutObject", "t-1/_delta_log/1.json", "/lake/t-1/_delta_log/1.json") +
		line("PutObject", "t-10/a.parquet", "/lake/t-10/a.parquet") + line("GetObject", "t-1/_delta_log/1.json", "/lake/t-1/_delta_log/1.json") +
		line("ListObjectsV2", "-", "/lake?list-type=2&prefix=t-1%2F_delta_log%2F&start-after=t-1%2F_delta_log%2F0") +
		line("ListObjectsV2", "-", "/lake?list-type=2&prefix=t-10/_delta_log/") + "who s3_torn"
	got, err := countRequests(bufio.NewScanner(strings.NewReader(log)), "t-1/")
	if want := map[string]int64{"PutObject": 2, "GetObject": 1, "ListObjectsV2": 1}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, want %v, %v", got, want, err)
	}
}
