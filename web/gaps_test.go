package web_test

import (
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/web"
)

// Lost offsets are counted in the trailer of NDJSON, and told as lines where these are asked for (I4).
func TestLostOffsetsAreTold(t *testing.T) {
	r := newRig(t, web.Config{})
	r.append(0, 0, 4)
	r.tier()
	r.append(0, 4, 8)
	if _, err := r.log.DeleteRecords(t.Context(), record.TopicPartition{Topic: "events"}, 6); err != nil {
		t.Fatal(err)
	}
	const line = `{"_gap":{"topic":"events","partition":0,"from":4,"to":6,"reason":"lost: neither the table nor the log has it"}}`
	for query, want := range map[string]struct {
		lines int
		gap   bool
		lost  string
	}{
		"from=0:3&skip-missing=true":                     {3, false, "2"},
		"from=0:3&skip-missing=true&gaps=true":           {4, true, "2"},
		"from=0:3&skip-missing=true&gaps=true&until=0:6": {2, true, "2"},
		"from=0:6&gaps=true":                             {2, false, ""},
		"topics=events&partition=0&skip-missing=true":    {6, false, "2"},
		"from=0:3&gaps=true":                             {1, false, ""}, // it ends with an error that names them
	} {
		path := "/v1/topics/events/records?"
		if strings.HasPrefix(query, "topics") {
			path = "/v1/records?"
		}
		resp, body := r.get(path + query)
		if strings.Count(body, "\n") != want.lines || strings.Contains(body, line+"\n") != want.gap || resp.Trailer.Get("Ledgerlake-Lost") != want.lost {
			t.Errorf("%s: trailers %v\n%s", query, resp.Trailer, body)
		}
	}
}
