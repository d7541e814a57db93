package pulsar

import (
	"testing"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/entry"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/pulsartest"
)

// TestCountedOnFromABatchThatEndsEarly: a batch whose end is damaged has all its offsets, and a start from the record that stands for
// the damage counts as the one before did (I2).
func TestCountedOnFromABatchThatEndsEarly(t *testing.T) {
	const sum = 6 // bytes, which an entry may be without
	whole := pulsartest.Batch(0, "0", "1", "2", "3")
	for cut := range len(whole) {
		early := whole[sum : len(whole)-cut]
		if e, err := entry.Parse(early); err != nil || e.Count != 4 || len(e.Payload) == 0 {
			break
		}
		b := pulsartest.Start(t)
		b.Create(brokerName)
		b.Append(brokerName, 4, early)
		b.Append(brokerName, 1, pulsartest.Message(1, "behind"))
		table := &sifted{end: 4}
		s := openTest(t, b, nil)
		all := fetchAll(t, s, 0, 2)
		for _, got := range all {
			if got.place.Offset < 4 {
				table.list = append(table.list, got)
			}
		}
		for name, from := range map[string]*Source{"the first": s, "a later one": openTest(t, b, table)} {
			if got := fetchAll(t, from, 4, 1); got[0].place.Offset != 4 || got[0].value != "behind" {
				t.Errorf("%d bytes cut off, %d rows: %s has %q at %+v", cut, len(table.list), name, got[0].value, got[0].place)
			}
		}
	}
}
