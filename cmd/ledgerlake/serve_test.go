package main

import "testing"

func TestDiskReserve(t *testing.T) {
	for _, c := range []struct {
		args []string
		want int64 // of local.Config: 0 the default, below 0 none
		ok   bool
	}{
		{nil, 0, true},
		{[]string{"--disk-reserve", "0"}, -1, true},
		{[]string{"--disk-reserve", "268435456"}, 256 << 20, true}, // also where a tenth of the disk is less
		{[]string{"--disk-reserve", "-1"}, 0, false},
	} {
		f := newServe().Flags()
		if err := f.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		if n, err := diskReserve(f); n != c.want || (err == nil) != c.ok {
			t.Errorf("%v: %d %v", c.args, n, err)
		}
	}
}
