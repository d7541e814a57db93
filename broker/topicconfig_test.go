package broker

import (
	"reflect"
	"testing"
	"time"
)

// Over takes each setting that is open from below, and none that is not.
func TestTopicConfigOver(t *testing.T) {
	pick := func(cfg *TopicConfig, i, n int) {
		switch f := reflect.ValueOf(cfg).Elem().Field(i); f.Kind() {
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Float64:
			f.SetFloat(float64(n) / 10)
		case reflect.String:
			f.SetString([]string{"", "gzip", "lz4"}[n])
		default:
			f.SetInt(int64(n))
		}
	}
	for i := range reflect.TypeFor[TopicConfig]().NumField() {
		name := reflect.TypeFor[TopicConfig]().Field(i).Name
		var upper, lower TopicConfig
		pick(&upper, i, 1)
		pick(&lower, i, 2)
		open := TopicConfig{}
		if name == "CompactDelete" { // goes with Compact
			upper.Compact, lower.Compact = true, true
		}
		if got := open.Over(lower); got != lower {
			t.Errorf("%s: open over %+v is %+v", name, lower, got)
		}
		if got := upper.Over(lower); got != upper {
			t.Errorf("%s: %+v over %+v is %+v", name, upper, lower, got)
		}
	}
	for _, c := range []struct{ upper, lower, want TopicConfig }{
		{TopicConfig{CreateTime: true}, TopicConfig{LogAppendTime: true}, TopicConfig{CreateTime: true}},
		{TopicConfig{Delete: true}, TopicConfig{Compact: true, CompactDelete: true}, TopicConfig{Delete: true}},
		{TopicConfig{Compact: true}, TopicConfig{Compact: true, CompactDelete: true}, TopicConfig{Compact: true}},
		{TopicConfig{RetentionAge: -1}, TopicConfig{RetentionAge: time.Hour}, TopicConfig{RetentionAge: -1}},
	} {
		if got := c.upper.Over(c.lower); got != c.want {
			t.Errorf("%+v over %+v is %+v", c.upper, c.lower, got)
		}
	}
	if err := (TopicConfig{}).Over(DefaultTopicConfig()).Check(); err != nil {
		t.Error(err)
	}
}
